//! Hostile backing allocators, a naive oracle and one property suite, for the tests of this workspace.
//!
//! Not published: a development dependency only.
//!
//! * [`backing`]: allocators to put **under** the one that is tested. They count, refuse, align as badly as
//!   they may, and check every layout that comes back.
//! * [`oracle`]: what is true of all live blocks, kept in the most naive way there is.
//! * [`ops`] and [`program`]: what a test does, drawn from bytes, from a seed or by proptest.
//! * [`subject`] and [`suite`]: the allocator that is tested, and the loop that runs programs on it.
//! * [`child`]: tests that must end their process. On Unix, `forked`: tests that fork theirs.
//! * [`allocator_suite!`]: stamps a module of tests for one subject.
//!
//! The trait is `allocator_api2::alloc::Allocator` of version 0.2 throughout.
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
//! /// Stands for the allocator that is tested: here it only passes every call on.
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
pub mod child;
pub mod config;
pub mod errand;
#[cfg(all(unix, not(miri)))]
pub mod forked;
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
