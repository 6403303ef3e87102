//! Compares allocators by paired, interleaved rounds, and reports ratios with intervals.
//!
//! A *contender* ([`contenders`]) is an allocator or pool that implements one of the harness's own
//! traits. It hands out blocks of any size (`blocks::RawAlloc`), byte buffers (`buffers::Source`),
//! objects of one type (`pools::RawPool`) or nodes (`nodes::NodeFamily`). A *workload*
//! ([`workloads`]) is generic over the contenders of one trait. The *runner* ([`runner`]) puts all
//! contenders of a workload into one process. In every round it takes a sample of each contender,
//! in random order. It repeats these rounds in several processes. The *statistics* ([`stats`]) are
//! medians of ratios within a round, with intervals from a hierarchical bootstrap. The *report*
//! ([`report`]) prints the medians and intervals. It also prints the measured memory, the cost of
//! the loop and the facts about the host ([`host`], [`calibrate`]).
//!
//! # Trade-offs
//!
//! * Every pointer passes through memory (`black_box`) after its allocation and before its free,
//!   for all contenders alike. That costs about a nanosecond, which a program would not pay. The
//!   columns called "net" subtract the cost of the whole loop.
//! * All contenders of a workload share a process, which makes paired samples possible. They also
//!   share caches, and one contender's trimming may cause another contender's page fault. Memory is
//!   measured in a separate process for each contender.
//! * Timed loops do not grow containers of their own and do not use dynamic dispatch. Their random
//!   numbers come from tables that are built before the loop starts, except in S13.

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
