//! What a call costs where nothing was measured: a small table, and where its figures are from.
#![forbid(unsafe_code)]

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A replay of this very trace.
    Replay,
    /// The table of the README's quick run: synthetic loops on another machine.
    Table,
    /// Nobody measured it: half of what the system's allocator takes.
    Assumed,
}

impl Source {
    /// How a report says it.
    #[must_use]
    pub fn said(self) -> &'static str {
        match self {
            Self::Replay => "the replay of this trace",
            Self::Table => "the quick run in README.md (S2, S3, S8): loops, on another machine",
            Self::Assumed => "an assumption (half), since no figure of such a program is at hand",
        }
    }
}

/// Nanoseconds that the system's allocator takes for a block and its end: to 1 KiB, above, and where another thread ends
/// it. From a window of 1,024 live blocks, from single large blocks, and from a producer and a consumer.
pub(crate) const SYSTEM: (f64, f64, f64) = (11.0, 21.0, 45.0);

/// What an allocator of ours takes of that, as ratios.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Blocks that go at once, as LIFO or as FIFO.
    pub ordered: f64,
    /// Blocks that go in no order.
    pub unordered: f64,
    /// Blocks that go on another thread.
    pub elsewhere: f64,
    /// Where the figures are from.
    pub source: Source,
}

/// `OneRingAlloc`: S2, S3 and S8 of the README's quick run.
pub(crate) const RING: Cost = Cost { ordered: 0.35, unordered: 0.68, elsewhere: 0.38, source: Source::Table };

/// The others, until the README has their figures.
pub(crate) const ASSUMED: Cost =
    Cost { ordered: 0.5, unordered: 0.5, elsewhere: 0.5, source: Source::Assumed };
