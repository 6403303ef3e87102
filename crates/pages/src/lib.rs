//! Runs the code of the Markdown pages as documentation tests. The pages are the README of the
//! workspace, the guide, and the README of each published crate.
//!
//! Each block of Rust code is one test. For each block that shows a change of Rust code, the build
//! script writes two tests: one with the code before the change, and one with the code after it.

/// The README of the workspace.
#[doc = include_str!("../../../README.md")]
pub mod readme {}

/// The guide.
#[doc = include_str!("../../../docs/guide.md")]
pub mod guide {}

/// The README of `ring-alloc`.
#[doc = include_str!("../../ring-alloc/README.md")]
pub mod ring_alloc {}

/// The README of `ringal`.
#[doc = include_str!("../../ringal/README.md")]
pub mod ringal {}

/// The README of `shared_arena`.
#[doc = include_str!("../../shared_arena/README.md")]
pub mod shared_arena {}

/// The README of `typed-pool`.
#[doc = include_str!("../../typed-pool/README.md")]
pub mod typed_pool {}

/// Both sides of each change that the pages show.
#[doc = include_str!(concat!(env!("OUT_DIR"), "/changes.md"))]
pub mod changes {}
