//! Converts the trees of `syn` to events, which mark where each node of R4's own tree starts and
//! ends.

use core::hash::{Hash, Hasher};
use core::mem::discriminant;
use std::hash::DefaultHasher;

use syn::visit::{self, Visit};

use super::super::corpus::fingerprint;
use super::tree::{Head, KINDS, NodeKind, SyntaxEvent};

/// The events of all files, in order.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    pub(super) events: Vec<SyntaxEvent>,
    /// The number of nodes of each kind.
    pub(super) counts: [u64; KINDS],
}

impl Syntax {
    /// Parses the files, and leaves out each file that `syn` cannot parse.
    pub(crate) fn of(files: &[String]) -> Self {
        let mut flat = Flattener::default();
        for file in files {
            if let Ok(file) = syn::parse_file(file) {
                // The root of a file is an item, like a module.
                flat.node(NodeKind::Item, Head::default(), |flat| flat.visit_file(&file));
            }
        }
        flat.syntax
    }

    /// Returns the number of all nodes.
    pub(crate) fn nodes(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[derive(Debug, Default)]
struct Flattener {
    syntax: Syntax,
    /// The open nodes: their kinds, and their indices among the events.
    open: Vec<(NodeKind, usize)>,
}

impl Flattener {
    /// Adds a node, and calls `inside` to add its contents. If the parent has no list for nodes of
    /// this kind, leaves out the node and adds its contents to the parent.
    fn node(&mut self, kind: NodeKind, head: Head, inside: impl FnOnce(&mut Self)) {
        if self.open.last().is_some_and(|(parent, _)| !parent.holds(kind)) {
            return inside(self);
        }
        self.open.push((kind, self.syntax.events.len()));
        self.syntax.events.push(SyntaxEvent { kind, head });
        self.syntax.counts[kind as usize] += 1;
        inside(self);
        self.syntax.events.push(SyntaxEvent { kind: NodeKind::End, head: Head::default() });
        self.open.pop();
    }

    /// Gives the name `text` to the innermost open node, unless the node already has a name.
    fn name(&mut self, text: &str) {
        if let Some(&(_, at)) = self.open.last() {
            let head = &mut self.syntax.events[at].head;
            if head.name == 0 {
                head.name = fingerprint(0, text.as_bytes()) as u32 | 1;
            }
        }
    }
}

/// Returns a head without a name. Its variant is a hash of the value's enum variant.
fn variant<T>(value: &T) -> Head {
    let mut hasher = DefaultHasher::new();
    discriminant(value).hash(&mut hasher);
    // `TreeWalk::node` has 28 bits for the variant.
    Head { variant: hasher.finish() as u32 >> 4, name: 0 }
}

/// Overrides methods of `Visit`. Each adds a node, and `syn` visits the node's contents.
macro_rules! node {
    ($($method:ident($part:ty) = $kind:ident, $head:expr;)*) => {
        $(fn $method(&mut self, part: &'ast $part) {
            let head: fn(&$part) -> Head = $head;
            self.node(NodeKind::$kind, head(part), |flat| visit::$method(flat, part));
        })*
    };
}

impl<'ast> Visit<'ast> for Flattener {
    node! {
        visit_item(syn::Item) = Item, variant;
        visit_impl_item(syn::ImplItem) = Item, variant;
        visit_trait_item(syn::TraitItem) = Item, variant;
        visit_foreign_item(syn::ForeignItem) = Item, variant;
        visit_field(syn::Field) = Field, |_| Head::default();
        visit_variant(syn::Variant) = Variant, |_| Head::default();
        visit_generic_param(syn::GenericParam) = Generic, variant;
        visit_where_predicate(syn::WherePredicate) = Generic, variant;
        visit_type(syn::Type) = Type, variant;
        visit_path_segment(syn::PathSegment) = Segment, |_| Head::default();
        visit_block(syn::Block) = Block, |_| Head::default();
        visit_stmt(syn::Stmt) = Stmt, variant;
        visit_expr(syn::Expr) = Expr, variant;
        visit_arm(syn::Arm) = Arm, |_| Head::default();
        visit_pat(syn::Pat) = Pat, variant;
        visit_attribute(syn::Attribute) = Attr, |_| Head::default();
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.name(&ident.to_string());
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.name(&text.value());
    }

    fn visit_lit_int(&mut self, number: &'ast syn::LitInt) {
        self.name(number.base10_digits());
    }
}
