//! Reads traces of the recorder, advises whether another allocator would help, and replays traces.
//!
//! `ephemera-recorder` writes trace files and reads them. One pass over a trace gathers a
//! [`TraceProfile`]. [`advise`] turns the profile into a verdict, which [`text`] and [`page`]
//! print. [`replay`] runs a trace over any allocators that its caller passes in, so this crate does
//! not depend on an allocator.

#![expect(
    clippy::std_instead_of_alloc,
    reason = "the crate is a program of a host; most modules use `std` for files and threads"
)]

#[macro_use]
extern crate ephemera_prim;

pub mod advise;
mod costs;
mod curve;
pub mod figures;
mod histogram;
mod offers;
mod order;
pub mod output;
pub mod page;
mod profile;
mod render;
pub mod replay;
mod rings;
pub mod share;
pub mod text;
pub mod units;

pub use ephemera_recorder::*;

pub use self::costs::{Cost, CostSource};
pub use self::curve::LiveCurve;
pub use self::histogram::LogHistogram;
pub use self::order::FreeOrder;
pub use self::profile::{BlockCounts, CLASSES, TraceProfile};

/// Returns the entry at `index`. Adds default entries first if the list is shorter.
#[inline]
fn grown<T: Clone + Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

#[cfg(test)]
mod tests;
