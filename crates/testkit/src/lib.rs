//! Test support for the allocators of this workspace: hostile backing allocators, a naive oracle,
//! and one property suite.
//!
//! This crate is not published. The other crates use it only in tests, examples and fuzz targets.
//!
//! * [`backing`]: allocators to put **below** the allocator under test. They count calls, refuse
//!   calls, align blocks as badly as the contract allows, and check the layout of every block that
//!   is freed or resized.
//! * [`oracle`]: a check of the properties of all live blocks, by the simplest possible code.
//! * [`ops`] and [`program`]: sequences of operations, generated from bytes, from a seed, or by
//!   proptest.
//! * [`subject`] and [`suite`]: the allocator under test, and the loop that runs programs on it.
//! * [`handover`]: values that one thread makes and another thread frees.
//! * [`child`]: support for tests that must end their process.
//! * `fork`: support for tests that fork their process, on Unix.
//! * `bursts`: measurements of the resident memory around a burst of blocks, on Linux.
//! * [`allocator_suite!`]: creates a module of tests for one subject.
//!
//! An allocator under test implements the `Allocator` trait of `allocator-api2` 0.2.
//!
//! # Examples
//!
//! ```
//! use allocator_api2::alloc::Allocator;
//! use ephemera_testkit::backing::Hostile;
//! use ephemera_testkit::program::{Profile, Program};
//! use ephemera_testkit::subject::Subject;
//! use ephemera_testkit::suite;
//!
//! /// A subject that tests the hostile allocator itself.
//! #[derive(Default)]
//! struct PassOn(Hostile);
//!
//! impl Subject for PassOn {
//!     type Alloc<'s> = &'s Hostile;
//!
//!     fn fresh(&self) -> Self::Alloc<'_> {
//!         &self.0
//!     }
//!
//!     fn finish(&self, _alloc: Self::Alloc<'_>) -> usize {
//!         self.0.held().bytes
//!     }
//! }
//!
//! let report = suite::run(&PassOn::default(), &Program::from_seed(1, 40, Profile::Mixed));
//! assert!(report.served > 0);
//! ```

extern crate alloc;

pub mod backing;
pub mod block;
#[cfg(target_os = "linux")]
pub mod bursts;
pub mod child;
pub mod config;
#[cfg(unix)]
pub mod fork;
pub mod handover;
pub mod job;
pub mod ops;
pub mod oracle;
mod pattern;
pub mod program;
mod rng;
pub mod stamp;
pub mod subject;
pub mod suite;
pub mod violation;

pub use rng::SplitMix;
