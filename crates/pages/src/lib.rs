//! Runs the code of the Markdown pages as documentation tests: of the README, the guide, and the
//! README of each published crate.
//!
//! A block of Rust code is one test. The build script makes two tests of each block that shows a
//! change: the code before it and the code after it. So both sides compile and pass.

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
