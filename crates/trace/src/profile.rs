//! Gathers the profile of a trace in one pass: everything that the advice and the pictures need.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::curve::LiveCurve;
use super::grown;
use super::histogram::LogHistogram;
use super::order::{FreeOrder, LiveBlocks};
use super::replay::Digest;
use super::rings::RingModel;
use ephemera_recorder::{Book, BookStep, Id, RunEnd, Timing, Trace, TraceError, TraceEvent, What};

/// The number of size classes: up to 16 bytes, up to 32 bytes, and so on. The last class has no
/// upper limit.
pub const CLASSES: usize = 24;
/// The maximum number of different sizes that are counted.
const SIZES: usize = 65_536;
/// The base-2 logarithm of the smallest alignment that counts as over-aligned.
const OVER_ALIGNED_LOG2: u8 = 5;

/// The counts of a set of blocks, such as a size class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BlockCounts {
    /// The number of allocated blocks.
    pub blocks: u64,
    /// The sum of the first requested sizes of these blocks, in bytes; `u64::MAX` if the sum is
    /// greater.
    pub bytes: u64,
    /// The number of freed blocks.
    pub freed: u64,
    /// The number of remote frees.
    pub elsewhere: u64,
    /// The number of freed blocks for each variant of [`FreeOrder`].
    pub orders: [u64; 4],
    /// The number of calls that resized one of these blocks.
    pub resizes: u64,
    /// Lifetimes, each as the number of blocks that all threads allocated while the block was live,
    /// including the block itself.
    #[serde(serialize_with = "median")]
    pub lives: LogHistogram,
    /// Lifetimes in nanoseconds.
    #[serde(serialize_with = "median")]
    pub times: LogHistogram,
}

/// Serialises the median of a histogram, which is all that templates need.
fn median<S: Serializer>(of: &LogHistogram, serializer: S) -> Result<S::Ok, S::Error> {
    of.quantile(0.5).serialize(serializer)
}

impl BlockCounts {
    /// Returns the number of blocks that were freed in this order.
    pub fn of(&self, order: FreeOrder) -> u64 {
        self.orders[order as usize]
    }

    /// Returns the share of the freed blocks that were freed in these orders.
    pub fn share(&self, orders: &[FreeOrder]) -> f64 {
        let count: u64 = orders.iter().map(|order| self.of(*order)).sum();
        part(count, self.freed)
    }

    /// Adds the counts of another set of blocks.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.freed += other.freed;
        self.elsewhere += other.elsewhere;
        self.resizes += other.resizes;
        self.orders.iter_mut().zip(other.orders).for_each(|(mine, theirs)| *mine += theirs);
        self.lives.merge(&other.lives);
        self.times.merge(&other.times);
    }
}

/// Returns `count` divided by `of`, or 0 if `of` is 0.
pub(crate) fn part(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// The figures that one pass over a trace gathers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceProfile {
    /// The command that was recorded.
    pub command: String,
    /// The digest of the trace's operations.
    #[serde(skip)]
    pub digest: Digest,
    /// The limitations that a reader must know before trusting the figures.
    pub caveats: Vec<String>,
    /// The number of events.
    pub events: u64,
    /// The number of threads that called the allocator.
    pub threads: u64,
    /// Nanoseconds from the start of the recording to the end of the program, or to the last event
    /// if the trace has no end.
    pub time: u64,
    /// The nanoseconds from each thread's first call to its last, summed over all threads.
    pub threads_time: u64,
    /// Processor times, and the times of the measured calls in the allocator and in the recorder.
    #[serde(skip)]
    pub timing: Timing,
    /// The end of the program, if the trace has it.
    #[serde(skip)]
    pub end: Option<RunEnd>,
    /// Processor time of the process at the start of the recording, in nanoseconds.
    pub start_processor: u64,
    /// Nanoseconds that two clock readings add to a measured interval.
    pub clock_cost: f64,
    /// Counts for each size class. A block belongs to the class of its first size.
    pub classes: Vec<BlockCounts>,
    /// The peak number of live bytes.
    pub peak_bytes: u64,
    /// The peak number of live blocks.
    pub peak_blocks: u64,
    /// The number of blocks that are live at the end.
    pub left: u64,
    /// The number of calls that freed or resized a block whose allocation is not in the trace.
    pub unknown: u64,
    /// The number of calls that freed or resized a block that was already freed, or that another
    /// thread was resizing.
    pub twice: u64,
    /// The number of blocks whose free is missing from the trace.
    pub lost: u64,
    /// The number of blocks with a larger alignment than `malloc` gives.
    pub over_aligned: u64,
    /// The most common sizes, at most 16, the most common first: the size, and the number of its
    /// blocks.
    pub sizes: Vec<(u64, u64)>,
    /// The live bytes over the run.
    #[serde(skip)]
    pub alive: LiveCurve,
    /// The peak number of bytes that `ring-alloc` would hold.
    pub ring_peak: u64,
}

/// Returns the class of a size.
pub(crate) fn class_of(size: u64) -> usize {
    // The base-2 logarithm, rounded up.
    let log2 = size.saturating_sub(1).checked_ilog2().map_or(0, |log2| log2 as usize + 1);
    log2.saturating_sub(4).min(CLASSES - 1)
}

/// Returns the largest size of a class in bytes; `None` for the last class, which has no upper
/// limit.
pub(crate) fn class_end(class: usize) -> Option<u64> {
    (class + 1 < CLASSES).then(|| 16 << class)
}

/// The class and the size of a live block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockLife {
    class: u8,
    size: u64,
}

/// The builder of a profile, which adds one event at a time.
#[derive(Default)]
struct ProfileBuilder {
    book: Book,
    lists: LiveBlocks,
    rings: RingModel,
    lives: Vec<BlockLife>,
    alive: u64,
    /// The number of blocks of each size.
    sizes: HashMap<u64, u64>,
    /// The times of each thread's first and last call.
    seen: Vec<Option<(u64, u64)>>,
    profile: TraceProfile,
}

impl TraceProfile {
    /// Gathers a trace's profile. Calls `progress` with the number of events at every millionth
    /// event.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`].
    pub fn of(trace: &Trace, mut progress: impl FnMut(u64)) -> Result<Self, TraceError> {
        let mut gatherer = ProfileBuilder::default();
        gatherer.profile.classes.resize_with(CLASSES, BlockCounts::default);
        gatherer.profile.command = trace.command.clone();
        gatherer.profile.caveats = trace.caveats();
        gatherer.profile.end = trace.end;
        gatherer.profile.start_processor = trace.start_processor;
        gatherer.profile.clock_cost = trace.clock_cost;
        let mut events = trace.events();
        for event in events.by_ref() {
            gatherer.add(&event?);
            if gatherer.profile.events.is_multiple_of(1_000_000) {
                progress(gatherer.profile.events);
            }
        }
        gatherer.profile.timing = events.timing().clone();
        Ok(gatherer.finish())
    }

    /// Returns the counts of all classes together.
    pub fn all(&self) -> BlockCounts {
        self.of_classes(|_| true)
    }

    /// Returns the classes that have blocks, each with its index.
    pub(crate) fn used(&self) -> impl Iterator<Item = (usize, &BlockCounts)> {
        self.classes.iter().enumerate().filter(|(_, counts)| counts.blocks > 0)
    }

    /// Returns the counts of the classes that `wanted` selects.
    pub fn of_classes(&self, wanted: impl Fn(usize) -> bool) -> BlockCounts {
        let mut sum = BlockCounts::default();
        let classes = self.classes.iter().enumerate().filter(|(class, _)| wanted(*class));
        classes.for_each(|(_, counts)| sum.merge(counts));
        sum
    }
}

impl ProfileBuilder {
    fn add(&mut self, event: &TraceEvent) {
        let profile = &mut self.profile;
        profile.events += 1;
        profile.digest.add(event);
        profile.time = profile.time.max(event.time);
        let seen = grown(&mut self.seen, event.thread as usize);
        let (first, last) = seen.get_or_insert((event.time, event.time));
        (*first, *last) = ((*first).min(event.time), (*last).max(event.time));
        let step = self.book.apply(event);
        if let Some(lost) = step.lost() {
            self.profile.lost += 1;
            self.gone(lost);
        }
        match step {
            BookStep::Alloc { id, .. } => self.born(id, event),
            BookStep::Found { id, .. } => {
                self.profile.unknown += 1;
                self.born(id, event);
            }
            BookStep::Free { id } => self.freed(id, event),
            BookStep::Resize { id, .. } => self.resized(id),
            BookStep::Unknown if !matches!(event.what, What::Resize { .. }) => self.profile.unknown += 1,
            BookStep::Twice => self.profile.twice += 1,
            BookStep::Unknown | BookStep::Refused { .. } | BookStep::Pending => {}
        }
        self.profile.alive.add(self.alive);
    }

    fn born(&mut self, id: Id, event: &TraceEvent) {
        let block = self.book.block(id);
        let size = block.size;
        let class = class_of(size);
        let counts = &mut self.profile.classes[class];
        counts.blocks += 1;
        counts.bytes = counts.bytes.saturating_add(size);
        self.profile.over_aligned += u64::from(block.align_log2 >= OVER_ALIGNED_LOG2);
        *grown(&mut self.lives, id as usize) = BlockLife { class: class as u8, size };
        self.lists.born(id, event.thread);
        let align = if block.align_log2 == 0 { 16 } else { 1 << block.align_log2 };
        self.rings.born(id, event.thread, size, align);
        self.grow(size);
        if self.sizes.len() < SIZES || self.sizes.contains_key(&size) {
            *self.sizes.entry(size).or_default() += 1;
        }
    }

    fn grow(&mut self, size: u64) {
        self.alive = self.alive.saturating_add(size);
        self.profile.peak_bytes = self.profile.peak_bytes.max(self.alive);
        self.profile.peak_blocks = self.profile.peak_blocks.max(self.book.live());
    }

    /// Removes a block, and returns its class and the order of its free.
    fn gone(&mut self, id: Id) -> (usize, FreeOrder) {
        let BlockLife { class, size } = self.lives[id as usize];
        self.rings.gone(id);
        self.alive = self.alive.saturating_sub(size);
        (usize::from(class), self.lists.gone(id))
    }

    fn freed(&mut self, id: Id, event: &TraceEvent) {
        let (class, order) = self.gone(id);
        let block = self.book.block(id);
        let counts = &mut self.profile.classes[class];
        counts.freed += 1;
        counts.elsewhere += u64::from(block.thread != event.thread);
        counts.orders[order as usize] += 1;
        counts.lives.add(self.book.births() - block.birth);
        counts.times.add(event.time.saturating_sub(block.time));
    }

    fn resized(&mut self, id: Id) {
        let block = *self.book.block(id);
        let life = &mut self.lives[id as usize];
        self.profile.classes[usize::from(life.class)].resizes += 1;
        self.alive = self.alive.saturating_sub(core::mem::replace(&mut life.size, block.size));
        self.grow(block.size);
        // For the model of the chunks, a resize is a free and an allocation.
        self.rings.gone(id);
        let align = if block.align_log2 == 0 { 16 } else { 1 << block.align_log2 };
        self.rings.born(id, block.thread, block.size, align);
    }

    fn finish(mut self) -> TraceProfile {
        let mut sizes: Vec<_> = self.sizes.into_iter().collect();
        sizes.sort_unstable_by_key(|&(size, blocks)| (core::cmp::Reverse(blocks), size));
        sizes.truncate(16);
        self.profile.sizes = sizes;
        self.profile.threads = self.seen.iter().flatten().count() as u64;
        let times = self.seen.iter().flatten().map(|(first, last)| last - first);
        self.profile.threads_time = times.fold(0, u64::saturating_add);
        self.profile.time = self.profile.end.map_or(0, |end| end.time).max(self.profile.time);
        self.profile.left = self.book.live();
        self.profile.ring_peak = self.rings.peak;
        self.profile
    }
}
