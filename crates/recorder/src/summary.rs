//! Sums up a trace in a few numbers.
#![forbid(unsafe_code)]

use core::fmt;
use std::collections::BTreeSet;

use crate::book::{Book, BookStep};
use crate::error::TraceError;
use crate::format::Stop;
use crate::reader::Trace;

/// The counts of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of events.
    pub events: u64,
    /// The number of allocated blocks, with the unknown blocks that `realloc` returned.
    pub blocks: u64,
    /// The number of freed blocks.
    pub frees: u64,
    /// The number of calls to `realloc` that succeeded.
    pub resizes: u64,
    /// The number of threads that called the allocator.
    pub threads: u64,
    /// The sum of all requested sizes, in bytes; `u64::MAX` if the sum is greater.
    pub bytes: u64,
    /// The maximum number of bytes that are live at one time.
    pub peak_bytes: u64,
    /// The maximum number of blocks that are live at one time.
    pub peak_blocks: u64,
    /// Nanoseconds from the start of the recording to the last event.
    pub time: u64,
    /// The number of frees and resizes of unknown blocks, such as blocks that were allocated before
    /// the recording.
    pub unknown: u64,
    /// The number of frees and resizes of blocks that had been freed already, or that were inside
    /// `realloc`.
    pub twice: u64,
    /// The number of blocks whose free is missing from the trace: their address was allocated again
    /// while they were live.
    pub lost: u64,
    /// The number of live blocks at the end.
    pub left: u64,
}

impl Summary {
    /// Reads a whole trace and counts its events.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`].
    pub fn of(trace: &Trace) -> Result<Self, TraceError> {
        let mut book = Book::new();
        let mut sum = Self::default();
        let mut threads = BTreeSet::new();
        let mut last = 0;
        // In a damaged trace, the sum of the live sizes may exceed 64 bits.
        let mut live: u128 = 0;
        let mut sizes: Vec<u64> = Vec::new();
        for event in trace.events() {
            let event = event?;
            sum.events += 1;
            sum.time = sum.time.max(event.time);
            if event.thread != last {
                last = event.thread;
                threads.insert(last);
            }
            let mut goes = |id: u32| live -= u128::from(core::mem::take(&mut sizes[id as usize]));
            let step = book.apply(&event);
            if let Some(lost) = step.lost() {
                sum.lost += 1;
                goes(lost);
            }
            let comes = match step {
                BookStep::Alloc { id, .. } => Some(id),
                BookStep::Found { id, .. } => {
                    sum.resizes += 1;
                    Some(id)
                }
                BookStep::Free { id } => {
                    sum.frees += 1;
                    goes(id);
                    None
                }
                BookStep::Resize { id, .. } => {
                    sum.resizes += 1;
                    goes(id);
                    Some(id)
                }
                BookStep::Unknown => {
                    sum.unknown += 1;
                    None
                }
                BookStep::Twice => {
                    sum.twice += 1;
                    None
                }
                BookStep::Refused { .. } | BookStep::Pending => None,
            };
            if let Some(id) = comes {
                let size = book.block(id).size;
                if sizes.len() <= id as usize {
                    sizes.resize(id as usize + 1, 0);
                }
                sizes[id as usize] = size;
                live += u128::from(size);
                sum.bytes = sum.bytes.saturating_add(size);
                sum.peak_bytes = sum.peak_bytes.max(u64::try_from(live).unwrap_or(u64::MAX));
                sum.peak_blocks = sum.peak_blocks.max(book.live());
            }
        }
        sum.threads = threads.len() as u64;
        sum.blocks = book.births();
        sum.left = book.live();
        Ok(sum)
    }
}

/// Formats a number with commas between groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "events      {:>15}   in {:.3} s", grouped(self.events), self.time as f64 / 1e9)?;
        writeln!(f, "blocks      {:>15}   {} bytes", grouped(self.blocks), grouped(self.bytes))?;
        writeln!(f, "resized     {:>15}", grouped(self.resizes))?;
        writeln!(f, "threads     {:>15}", grouped(self.threads))?;
        writeln!(f, "peak live   {:>15}   {} bytes", grouped(self.peak_blocks), grouped(self.peak_bytes))?;
        write!(f, "left        {:>15}   at the end", grouped(self.left))?;
        for (count, what) in [
            (self.unknown, "frees of blocks that were allocated before the recording"),
            (self.twice, "blocks freed twice"),
            (self.lost, "blocks whose free is missing"),
        ] {
            if count > 0 {
                write!(f, "\n            {:>15}   {what}", grouped(count))?;
            }
        }
        Ok(())
    }
}

impl Trace {
    /// Returns the limitations that a reader must know before trusting the figures of this trace.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let mut said = Vec::new();
        match self.stop {
            Some(Stop::Limit) => said.push(format!(
                "the trace reached its limit of {} bytes: later calls are not in it (raise --max-bytes)",
                grouped(self.limit)
            )),
            Some(Stop::Disk) => said.push(
                "the trace could not grow (no space left on its disk?): later calls are not in it".to_owned(),
            ),
            Some(Stop::FileSize) => said.push(
                "the program may not write files as large as its trace: later calls are not in it (raise \
                 `ulimit -f`)"
                    .to_owned(),
            ),
            Some(Stop::Path) => said.push(
                "the trace could not be opened again by its path (did the program give up its privileges, change \
                 its root, use all its descriptors, or is the directory gone?): later calls are not in it"
                    .to_owned(),
            ),
            Some(Stop::Threads) => {
                said.push("more threads ran than can be recorded: the trace ends there".to_owned());
            }
            Some(Stop::Sandbox) => said.push(
                "the program entered a sandbox (seccomp), which may forbid the recorder's system calls: later \
                 calls are not in it"
                    .to_owned(),
            ),
            Some(Stop::Memory) => said.push(
                "the trace could not be mapped (no address space left?): later calls are not in it (raise \
                 `ulimit -v`)"
                    .to_owned(),
            ),
            None => {}
        }
        if self.dropped > 0 {
            said.push(format!(
                "{} calls are missing: signal handlers made them while the recorder ran on their thread",
                grouped(self.dropped)
            ));
        }
        if self.origin == Some(crate::format::Origin::Fork) {
            said.push("the process is a fork: blocks of its parent are unknown".to_owned());
        }
        if self.origin == Some(crate::format::Origin::Bypassed) {
            said.push(
                "the executable has a malloc of its own: the trace has only the calls that this malloc passes on"
                    .to_owned(),
            );
        }
        if let Some(at) = self.truncated {
            said.push(format!("the file ends within a packet, at byte {}: it was cut off", grouped(at)));
        }
        said
    }
}
