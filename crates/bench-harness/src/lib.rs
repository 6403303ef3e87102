//! Compares allocators by paired, interleaved rounds, and reports ratios with intervals.
//!
//! A *contender* ([`contenders`]) is an allocator behind one of the harness's own traits: it hands
//! out blocks of any size (`blocks::RawAlloc`), byte buffers (`buffers::Source`), objects of
//! one type (`pools::RawPool`) or nodes (`nodes::NodeFamily`). A *workload* ([`workloads`])
//! is a function generic over one of these. The *runner* ([`runner`]) puts all contenders of a
//! workload into one process. In every round it takes a sample of each in random order, and it
//! repeats that in several processes. The *statistics* ([`stats`]) are medians of ratios within a
//! round, with an interval from a hierarchical bootstrap. The *report* ([`report`]) prints them
//! beside memory, the cost of the loop and the facts of the host ([`host`], [`calibrate`]).
//!
//! # Trade-offs
//!
//! * Every pointer passes through memory once (`black_box`), for all contenders alike. That costs
//!   about a nanosecond, which a program would not pay. The rows called "net" subtract the whole
//!   loop.
//! * All contenders of a workload share a process, which makes pairs possible. They also share
//!   caches, and one contender's trimming may cause another one's page fault. Memory is measured in
//!   a separate process for each contender.
//! * Timed loops draw no random numbers, grow no container and have no dynamic dispatch. Their
//!   tables exist before.

#![expect(
    clippy::std_instead_of_alloc,
    reason = "the harness is a program of a host; `alloc` is a module of it"
)]
#![cfg_attr(
    test,
    expect(dead_code, reason = "only the cells of the registry use some methods, and unit tests have none")
)]

mod backing;
mod blocks;
mod buffers;
pub mod calibrate;
pub mod card;
pub mod contenders;
pub mod host;
mod nodes;
mod objects;
mod pools;
pub mod replay;
pub mod report;
pub mod runner;
mod tally;
pub mod workloads;

pub use ephemera_measure::{os, stats};
