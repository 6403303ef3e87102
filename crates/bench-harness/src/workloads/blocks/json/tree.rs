//! The tree that the parser builds. A [`Storage`] decides where the parts of the tree are.

use core::ops::Deref;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use crate::workloads::mix;

/// The storage of a tree's parts: one allocator for all parts, or an allocator for strings and
/// lists and a pool for nodes.
pub(crate) trait Storage: Sized {
    /// The allocator of strings and lists.
    type Alloc: Allocator + Copy;

    /// The handle of a node.
    type Boxed: Deref<Target = JsonNode<Self>>;

    /// Returns the allocator of strings and lists.
    fn alloc(&self) -> Self::Alloc;

    /// Stores a node and returns its handle.
    fn boxed(&self, node: JsonNode<Self>) -> Self::Boxed;
}

impl<A: Allocator + Copy> Storage for A {
    type Alloc = A;
    type Boxed = Box<JsonNode<A>, A>;

    #[inline(always)]
    fn alloc(&self) -> A {
        *self
    }

    #[inline(always)]
    fn boxed(&self, node: JsonNode<A>) -> Self::Boxed {
        Box::new_in(node, *self)
    }
}

/// The bytes of a string, with its escapes resolved.
pub(crate) type Text<A> = Vec<u8, A>;

/// A member of an object.
pub(crate) struct Member<S: Storage> {
    pub(crate) key: Text<S::Alloc>,
    pub(crate) value: S::Boxed,
}

/// A JSON value.
pub(crate) enum JsonNode<S: Storage> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// Any number.
    Number(f64),
    /// A string.
    Text(Text<S::Alloc>),
    /// An array.
    List(Vec<S::Boxed, S::Alloc>),
    /// An object, with its members in the order of the text.
    Map(Vec<Member<S>, S::Alloc>),
}

// A node contains nodes, so the compiler would recurse without end if it had to derive this impl.
impl<S: Storage> Unpin for JsonNode<S> {}

/// The result of a walk.
#[derive(Default)]
pub(crate) struct JsonWalk {
    /// The number of values, the root included.
    pub(crate) nodes: u64,
    /// A checksum of everything in document order.
    pub(crate) sum: u64,
}

impl JsonWalk {
    fn word(&mut self, word: u64) {
        self.sum = mix(self.sum, word);
    }

    fn text(&mut self, text: &[u8]) {
        self.word(text.len() as u64);
        for part in text.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn node<S: Storage>(&mut self, node: &JsonNode<S>) {
        self.nodes += 1;
        match node {
            JsonNode::Null => self.word(1),
            JsonNode::Bool(value) => self.word(2 + u64::from(*value)),
            JsonNode::Number(value) => self.word(value.to_bits()),
            JsonNode::Text(text) => self.text(text),
            JsonNode::List(items) => {
                self.word(items.len() as u64);
                for item in items {
                    self.node(item);
                }
            }
            JsonNode::Map(members) => {
                self.word(members.len() as u64);
                for member in members {
                    self.text(&member.key);
                    self.node(&member.value);
                }
            }
        }
    }
}

/// Reads every value and every byte of text, in document order.
pub(crate) fn walk<S: Storage>(root: &JsonNode<S>) -> JsonWalk {
    let mut found = JsonWalk::default();
    found.node(root);
    found
}
