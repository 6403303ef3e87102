//! The tree: twelve types of node, each with its own pool. A node has one list for each kind of
//! children.

use core::alloc::Layout;
use core::ptr::null_mut;

use crate::nodes::NodeFamily;
use crate::pools::RawPool;
use crate::workloads::litter::Histogram;
use crate::workloads::mix;

/// The head of a list of nodes. Each node links to the next.
pub(super) type List<F, T> = Option<<F as NodeFamily>::Box<T>>;

/// The result of a visit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeWalk {
    pub(super) nodes: u64,
    pub(super) sum: u64,
}

impl TreeWalk {
    /// Counts a node and folds it into the checksum.
    pub(super) fn node(&mut self, kind: NodeKind, head: Head) {
        self.nodes += 1;
        self.sum = mix(self.sum, kind as u64 ^ u64::from(head.variant) << 4 ^ u64::from(head.name) << 32);
    }
}

/// A type of node.
pub(super) trait TreePart<F: NodeFamily>: Unpin + Sized + 'static {
    /// Returns the link to the next node of the list.
    fn next(&mut self) -> &mut List<F, Self>;

    /// Builds a node from the events after its start, up to its end.
    fn build(builder: &mut TreeBuilder<'_, F>, head: Head) -> F::Box<Self>;

    /// Visits the nodes of a list and all nodes below them.
    fn visit(list: &List<F, Self>, walk: &mut TreeWalk);

    /// Frees the nodes of a list and all nodes below them.
    ///
    /// # Safety
    ///
    /// The nodes must be from these pools.
    unsafe fn release(pools: &Pools<F>, list: List<F, Self>);
}

/// Reads events and builds nodes.
pub(super) struct TreeBuilder<'a, F: NodeFamily> {
    pools: &'a Pools<F>,
    events: core::slice::Iter<'a, SyntaxEvent>,
}

/// A list under construction.
struct SiblingChain<F: NodeFamily, T: TreePart<F>> {
    first: Option<F::Box<T>>,
    /// The last node, or null.
    last: *mut T,
}

impl<F: NodeFamily, T: TreePart<F>> SiblingChain<F, T> {
    const fn new() -> Self {
        Self { first: None, last: null_mut() }
    }

    #[inline(always)]
    fn push(&mut self, mut node: F::Box<T>) {
        let place: *mut T = &raw mut *node;
        if self.last.is_null() {
            self.first = Some(node);
        } else {
            // SAFETY: nodes do not move, and only the chain has access to its nodes.
            let last = unsafe { &mut *self.last };
            *last.next() = Some(node);
        }
        self.last = place;
    }
}

/// The properties of a node other than its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The variant of the node within its kind, as a hash.
    pub(super) variant: u32,
    /// The node's name as a number, or 0 if it has none.
    pub(super) name: u32,
}

/// An event: the start of a node of this kind, or with the kind [`NodeKind::End`] the end of the
/// innermost open node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntaxEvent {
    pub(super) kind: NodeKind,
    pub(super) head: Head,
}

/// Declares the kinds, their pools and their nodes: `Name: pool { list: kind of its nodes, … }`.
macro_rules! tree {
    ($($(#[$doc:meta])* $name:ident: $pool:ident { $($list:ident: $child:ident),* })*) => {
        /// A kind of node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum NodeKind {
            $($(#[$doc])* $name,)*
            /// The end of a node.
            End,
        }

        pub(super) const KINDS: usize = NodeKind::End as usize;

        impl NodeKind {
            /// Returns whether nodes of this kind have a list for nodes of the kind `child`.
            pub(super) fn holds(self, child: Self) -> bool {
                match self {
                    $(Self::$name => [$(Self::$child),*].contains(&child),)*
                    Self::End => false,
                }
            }
        }

        /// A pool for each kind.
        pub(super) struct Pools<F: NodeFamily> {
            $($pool: F::Pool<$name<F>>,)*
        }

        impl<F: NodeFamily> Pools<F> {
            pub(super) fn of(family: &F) -> Self {
                Self { $($pool: family.pool(),)* }
            }
        }

        /// Returns the layouts of the nodes of a tree, with the number of nodes of each.
        pub(super) fn histogram<F: NodeFamily>(counts: &[u64; KINDS]) -> Histogram {
            vec![$((Layout::new::<$name<F>>(), counts[NodeKind::$name as usize]),)*]
        }

        $(
            $(#[$doc])*
            pub(super) struct $name<F: NodeFamily> {
                head: Head,
                next: List<F, Self>,
                $($list: List<F, $child<F>>,)*
            }

            impl<F: NodeFamily> Unpin for $name<F> {}

            impl<F: NodeFamily> TreePart<F> for $name<F> {
                #[inline(always)]
                fn next(&mut self) -> &mut List<F, Self> {
                    &mut self.next
                }

                fn build(builder: &mut TreeBuilder<'_, F>, head: Head) -> F::Box<Self> {
                    $(let mut $list = SiblingChain::<F, $child<F>>::new();)*
                    while let Some(&SyntaxEvent { kind, head }) = builder.events.next() {
                        match kind {
                            $(NodeKind::$child => {
                                let child = $child::build(builder, head);
                                $list.push(child);
                            })*
                            // This is the node's own end, because a node contains only kinds for
                            // which it has a list.
                            _ => break,
                        }
                    }
                    let node = Self { head, next: None, $($list: $list.first),* };
                    // SAFETY: trees are released or forgotten before their pools end.
                    unsafe { builder.pools.$pool.put(node) }
                }

                fn visit(list: &List<F, Self>, walk: &mut TreeWalk) {
                    let mut link = list;
                    while let Some(node) = link {
                        walk.node(NodeKind::$name, node.head);
                        $($child::<F>::visit(&node.$list, walk);)*
                        link = &node.next;
                    }
                }

                unsafe fn release(pools: &Pools<F>, list: List<F, Self>) {
                    let mut link = list;
                    while let Some(mut node) = link {
                        // SAFETY: the caller upholds the callee's contract.
                        $(unsafe { $child::release(pools, node.$list.take()) };)*
                        link = node.next.take();
                        // SAFETY: the node is from this pool.
                        unsafe { pools.$pool.take(node) };
                    }
                }
            }
        )*
    };
}

tree! {
    /// An item, a member of an item, or a file.
    Item: items {
        attrs: Attr, generics: Generic, fields: Field, variants: Variant, pats: Pat, types: Type,
        segments: Segment, exprs: Expr, blocks: Block, items: Item
    }
    /// A field of a structure or a variant.
    Field: fields { attrs: Attr, types: Type }
    /// A variant of an enumeration.
    Variant: variants { attrs: Attr, fields: Field, exprs: Expr }
    /// A generic parameter, or a predicate of a `where` clause.
    Generic: generics { types: Type, segments: Segment, exprs: Expr }
    Type: types { types: Type, segments: Segment, exprs: Expr }
    /// A segment of a path.
    Segment: segments { types: Type, exprs: Expr }
    Block: blocks { stmts: Stmt }
    Stmt: stmts { attrs: Attr, pats: Pat, segments: Segment, exprs: Expr, items: Item }
    Expr: exprs {
        segments: Segment, types: Type, pats: Pat, exprs: Expr, arms: Arm, blocks: Block
    }
    /// An arm of a match.
    Arm: arms { pats: Pat, exprs: Expr }
    Pat: pats { segments: Segment, types: Type, pats: Pat, exprs: Expr }
    Attr: attrs { segments: Segment, exprs: Expr }
}

/// Builds the trees of all files from their events. Returns their roots.
#[inline(never)]
pub(super) fn lower<F: NodeFamily>(pools: &Pools<F>, events: &[SyntaxEvent]) -> List<F, Item<F>> {
    let mut builder = TreeBuilder { pools, events: events.iter() };
    let mut roots = SiblingChain::<F, Item<F>>::new();
    while let Some(&SyntaxEvent { head, .. }) = builder.events.next() {
        let root = Item::build(&mut builder, head);
        roots.push(root);
    }
    roots.first
}

/// Visits every node, and returns the number of nodes and a checksum. Visits the children of a node
/// kind by kind, and in source order within a kind.
#[inline(never)]
pub(super) fn visit<F: NodeFamily>(roots: &List<F, Item<F>>) -> TreeWalk {
    let mut walk = TreeWalk::default();
    Item::<F>::visit(roots, &mut walk);
    walk
}

/// Frees every node, children before their parent.
///
/// # Safety
///
/// The roots must be from these pools.
#[inline(never)]
pub(super) unsafe fn release<F: NodeFamily>(pools: &Pools<F>, roots: List<F, Item<F>>) {
    // SAFETY: the caller upholds the callee's contract.
    unsafe { Item::release(pools, roots) };
}
