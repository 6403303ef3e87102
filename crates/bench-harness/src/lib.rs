//! Compares allocators: paired, interleaved, as ratios with intervals.
//!
//! A *contender* ([`contenders`]) is an allocator behind one of the harness's own traits: it hands out blocks of any size
//! ([`blocks::RawAlloc`]), byte buffers ([`buffers::Source`]) or objects of one type ([`objects::Pool`]).
//! A *workload* ([`workloads`]) is a function generic over it. The *runner* ([`runner`]) puts all contenders of one
//! workload into one process, takes a sample of each in every round in random order, and repeats that in several
//! processes; the *statistics* ([`stats`]) are medians of the ratios of samples of the same round, with an interval from a
//! hierarchical bootstrap.
//! The *report* ([`report`]) prints them beside memory, the loop's own cost and a card of the host ([`host`],
//! [`calibrate`]).
//!
//! # Trade-offs
//!
//! * Every pointer goes through memory once on its way (`black_box`), for all contenders alike: about a nanosecond that
//!   a program would not pay. The rows called "net" take the whole loop off.
//! * All contenders of a workload share a process, which is what makes pairs possible; they also share caches, and one
//!   contender's trimming may be another one's page fault. Memory is measured in a process per contender.
//! * Timed loops make no random numbers, grow no container and dispatch nothing dynamically: tables are made before.

#![expect(
    clippy::std_instead_of_alloc,
    reason = "the harness is a program of a host; `alloc` is a module of it"
)]

pub mod backing;
pub mod blocks;
pub mod buffers;
pub mod calibrate;
pub mod card;
pub mod contenders;
pub mod host;
pub mod nodes;
pub mod objects;
pub mod replay;
pub mod report;
pub mod runner;
pub mod tally;
pub mod workloads;

pub use ephemera_measure::{os, stats};
