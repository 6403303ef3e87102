//! Workloads over data structures whose nodes the contender holds.

pub(crate) mod ast;
mod corpus;
pub(crate) mod json;
pub(crate) mod set;
mod sources;
pub(crate) mod store;
mod ticks;
mod words;

pub use self::corpus::Corpus;
pub use self::sources::Sources;
pub use self::ticks::ticks_per_ns;
