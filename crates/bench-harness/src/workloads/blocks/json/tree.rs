//! The tree: what a small parser would build, every part of it in the allocator given.

use core::fmt;
use core::ops::Deref;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use crate::workloads::mix;

/// Where the parts of a tree are: any allocator, for all of them, or a pool for the nodes.
pub trait Storage: Sized {
    /// For strings and lists.
    type Alloc: Allocator + Copy;

    /// What a node is held by.
    type Boxed: Deref<Target = JsonNode<Self>>;

    /// For strings and lists.
    fn alloc(&self) -> Self::Alloc;

    /// Stores a node.
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

/// Bytes of a string, unescaped.
pub type Text<A> = Vec<u8, A>;

/// A pair of an object.
pub struct Member<S: Storage> {
    /// Its name.
    pub key: Text<S::Alloc>,
    /// What it is.
    pub value: S::Boxed,
}

/// A value.
pub enum JsonNode<S: Storage> {
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
    /// An object, in the order of the text.
    Map(Vec<Member<S>, S::Alloc>),
}

// Said outright: a node holds what holds nodes, so that the compiler would go round in circles.
impl<S: Storage> Unpin for JsonNode<S> {}

impl<S: Storage> fmt::Debug for Member<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("value", &*self.value).finish_non_exhaustive()
    }
}

impl<S: Storage> fmt::Debug for JsonNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => f.debug_tuple("Bool").field(value).finish(),
            Self::Number(value) => f.debug_tuple("Number").field(value).finish(),
            Self::Text(text) => f.debug_tuple("Text").field(&text.as_slice()).finish(),
            Self::List(items) => f.debug_list().entries(items.iter().map(|item| &**item)).finish(),
            Self::Map(members) => f.debug_list().entries(members.iter()).finish(),
        }
    }
}

/// What a walk finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonWalk {
    /// Values, the root included.
    pub nodes: u64,
    /// Bytes in strings and keys.
    pub text: u64,
    /// Folds everything in document order.
    pub sum: u64,
}

impl JsonWalk {
    fn word(&mut self, word: u64) {
        self.sum = mix(self.sum, word);
    }

    fn text(&mut self, text: &[u8]) {
        self.text += text.len() as u64;
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

/// Visits every value and every byte of text, in document order.
#[must_use]
pub fn walk<S: Storage>(root: &JsonNode<S>) -> JsonWalk {
    let mut found = JsonWalk::default();
    found.node(root);
    found
}
