//! The tree: what a small parser would build, every part of it in the allocator given.

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use crate::workloads::mix;

/// Bytes of a string, unescaped.
pub type Text<A> = Vec<u8, A>;

/// A pair of an object.
#[derive(Debug)]
pub struct Member<A: Allocator> {
    /// Its name.
    pub key: Text<A>,
    /// What it is.
    pub value: Box<Node<A>, A>,
}

/// A value.
#[derive(Debug)]
pub enum Node<A: Allocator> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// Any number.
    Number(f64),
    /// A string.
    Text(Text<A>),
    /// An array.
    List(Vec<Box<Self, A>, A>),
    /// An object, in the order of the text.
    Map(Vec<Member<A>, A>),
}

/// What a walk finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Values, the root included.
    pub nodes: u64,
    /// Bytes in strings and keys.
    pub text: u64,
    /// Folds everything in document order.
    pub sum: u64,
}

impl Walk {
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

    fn node<A: Allocator>(&mut self, node: &Node<A>) {
        self.nodes += 1;
        match node {
            Node::Null => self.word(1),
            Node::Bool(value) => self.word(2 + u64::from(*value)),
            Node::Number(value) => self.word(value.to_bits()),
            Node::Text(text) => self.text(text),
            Node::List(items) => {
                self.word(items.len() as u64);
                for item in items {
                    self.node(item);
                }
            }
            Node::Map(members) => {
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
pub fn walk<A: Allocator>(root: &Node<A>) -> Walk {
    let mut found = Walk::default();
    found.node(root);
    found
}
