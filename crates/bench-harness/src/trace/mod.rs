//! Traces of programs: what they show, and what they cost over other allocators.
//!
//! `ephemera-recorder` writes and reads the files. A [`Profile`] is what one pass over a trace gathers; [`advise`] turns it
//! into a verdict, [`text`] and [`page`] into something to read; [`replay`] runs a trace over a contender.

pub mod advise;
mod costs;
mod curve;
mod histogram;
mod order;
pub mod page;
mod profile;
pub mod replay;
mod rings;
pub mod share;
pub mod text;
mod verdict;

pub use ephemera_recorder::*;

pub use self::costs::{Cost, Source};
pub use self::curve::Curve;
pub use self::histogram::Histogram;
pub use self::order::Order;
pub use self::profile::{CLASSES, Class, Counts, Profile};

#[cfg(test)]
mod tests;
