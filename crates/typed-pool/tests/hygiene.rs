//! Tests that the macros use the names of the standard library, even if these names mean something
//! else in the module that invokes the macros.
#![cfg(feature = "std")]
// The items below have the names of the prelude and of derives.
#![expect(unused_imports, reason = "what matters is that they are in scope")]

use core::fmt::Debug as Clone;
use core::fmt::Debug as Copy;
use core::fmt::Debug as Default;
use core::fmt::Debug as PartialEq;
use core::fmt::Debug as Eq;
use core::fmt::Debug as PartialOrd;
use core::fmt::Debug as Ord;
use core::hash::Hash as Debug;
use std::io::Result;

use typed_pool::{PooledBox, pooled, pooled_allocator};

#[expect(dead_code, reason = "only their names matter")]
mod others {
    pub(crate) struct Option;
    pub(crate) struct Box;
    pub(crate) struct Vec;
    pub(crate) struct Layout;
    pub(crate) struct NonNull;
    pub(crate) fn drop() {}
}
use others::{Box, Layout, NonNull, Option, Vec, drop};

pooled_allocator! {
    /// The allocator of this test.
    struct Nodes;
}

struct Token(u8);
pooled!(Token, chunk_len = 3);
pooled!(struct Words: u16);

/// Uses `Result` with the meaning that it has in this module.
fn other_names() -> Result<u8> {
    std::io::Result::Ok(1)
}

#[test]
fn the_macros_do_not_depend_on_names_in_scope() {
    let node = allocator_api2::boxed::Box::new_in(other_names().expect("a number"), Nodes);
    let (token, word) = (PooledBox::new(Token(2)), PooledBox::<u16, Words>::new_in(3, Words));
    assert_eq!((*node, token.0, *word), (1, 2, 3));
    let copies = [Nodes; 2];
    assert_eq!(
        (copies[0] == <Nodes as core::default::Default>::default(), format!("{copies:?}")),
        (true, "[Nodes, Nodes]".into())
    );
}
