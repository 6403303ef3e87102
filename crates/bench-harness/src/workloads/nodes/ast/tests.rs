//! Compares the lowering with a tree of vectors, and with the expected nodes of a few lines.

use super::tree::{Head, NodeKind, SyntaxEvent, TreeWalk, lower, release, visit};
use super::*;
use crate::contenders::blocks::{Bumpalo, System};
use crate::contenders::nodes::NodeHeap;
use crate::contenders::objects::{Textbook, TypedArena, UpstreamArena};
use crate::workloads::nodes::Corpus;

/// A simple tree of vectors.
struct Naive {
    kind: NodeKind,
    head: Head,
    children: Vec<Self>,
}

impl Naive {
    fn build(events: &mut core::slice::Iter<'_, SyntaxEvent>) -> Option<Self> {
        let &SyntaxEvent { kind, head } = events.next().filter(|event| event.kind != NodeKind::End)?;
        let children = core::iter::from_fn(|| Self::build(events)).collect();
        Some(Self { kind, head, children })
    }

    /// Visits kind by kind, in the order of a node's lists.
    fn visit(&self, walk: &mut TreeWalk) {
        walk.node(self.kind, self.head);
        for kind in order(self.kind) {
            self.children.iter().filter(|child| child.kind == *kind).for_each(|child| child.visit(walk));
        }
    }
}

fn order(kind: NodeKind) -> &'static [NodeKind] {
    use NodeKind::*;
    match kind {
        Item => &[Attr, Generic, Field, Variant, Pat, Type, Segment, Expr, Block, Item],
        Field => &[Attr, Type],
        Variant => &[Attr, Field, Expr],
        Generic | Type => &[Type, Segment, Expr],
        Segment => &[Type, Expr],
        Block => &[Stmt],
        Stmt => &[Attr, Pat, Segment, Expr, Item],
        Expr => &[Segment, Type, Pat, Expr, Arm, Block],
        Arm => &[Pat, Expr],
        Pat => &[Segment, Type, Pat, Expr],
        Attr => &[Segment, Expr],
        End => &[],
    }
}

fn agrees_with_the_naive_tree<F: NodeFamily>() {
    let syntax = Syntax::of(&Corpus::load(None, 0).files);
    let mut expected = TreeWalk::default();
    let mut events = syntax.events.iter();
    core::iter::from_fn(|| Naive::build(&mut events)).for_each(|root| root.visit(&mut expected));
    assert_eq!(expected.nodes, syntax.nodes());
    assert!(expected.nodes > 1000, "{}", expected.nodes);

    let family = F::create();
    let pools = Pools::of(&family);
    let roots = lower(&pools, &syntax.events);
    assert_eq!(visit::<F>(&roots), expected);
    // SAFETY: the roots are from these pools.
    unsafe { release(&pools, roots) };
}

#[test]
fn the_lowering_agrees_with_a_simple_tree() {
    agrees_with_the_naive_tree::<NodeHeap<System>>();
    agrees_with_the_naive_tree::<NodeHeap<Bumpalo>>();
    agrees_with_the_naive_tree::<Textbook>();
    agrees_with_the_naive_tree::<TypedArena>();
    agrees_with_the_naive_tree::<UpstreamArena>();
}

#[test]
fn every_kind_occurs_in_the_sample() {
    let syntax = Syntax::of(&Corpus::load(None, 0).files);
    assert!(syntax.counts.iter().all(|&count| count > 0), "{:?}", syntax.counts);
}

#[test]
fn source_lines_become_the_expected_nodes() {
    let syntax = Syntax::of(&["fn f(x: u8) { g(x) }".to_owned(), "not rust".to_owned()]);
    let kinds: Vec<NodeKind> = syntax.events.iter().map(|event| event.kind).collect();
    use NodeKind::*;
    let argument = [Pat, End, Type, Segment, End, End];
    let call = [Expr, Expr, Segment, End, End, Expr, Segment, End, End, End];
    let expected = [&[Item, Item][..], &argument, &[Block, Stmt], &call, &[End, End, End, End]].concat();
    assert_eq!(kinds, expected);
    assert_eq!(syntax.nodes(), 12);
    let names: Vec<u32> = syntax.events.iter().map(|event| event.head.name).collect();
    assert_eq!(names[2], names[16], "the parameter and the argument");
    assert!(names[2] != 0 && names[2] != names[12]);
}
