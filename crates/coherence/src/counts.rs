//! Counts of events between caches.

use std::ops::{AddAssign, Index, IndexMut};

use crate::caches::Event;

/// Counts by kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads that another cache served.
    pub reads: u64,
    /// Stores that only told other caches to drop the line.
    pub upgrades: u64,
    /// Stores that took the line from another cache.
    pub transfers: u64,
}

impl Counts {
    /// Returns the number of lines that moved from one cache to another.
    #[must_use]
    pub fn moved(self) -> u64 {
        self.reads + self.transfers
    }

    /// Returns the number of events: moved lines, and upgrades.
    #[must_use]
    pub fn events(self) -> u64 {
        self.moved() + self.upgrades
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, event: Event) {
        *match event {
            Event::Read => &mut self.reads,
            Event::Upgrade => &mut self.upgrades,
            Event::Transfer => &mut self.transfers,
        } += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.upgrades += other.upgrades;
        self.transfers += other.transfers;
    }
}

/// The memory that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Lines with bytes of blocks that the program used.
    Blocks,
    /// The other memory of the heap: headers, tables and records that the allocator made.
    Headers,
    /// Static variables: global words, and records in static arrays.
    Statics,
    /// Stacks and thread-locals.
    Stacks,
}

impl Region {
    /// All regions, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Blocks, Self::Headers, Self::Statics, Self::Stacks];
}

/// Counts by region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts([Counts; Region::ALL.len()]);

impl RegionCounts {
    /// Returns the counts of all regions together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in self.0 {
            total += counts;
        }
        total
    }
}

impl Index<Region> for RegionCounts {
    type Output = Counts;

    fn index(&self, region: Region) -> &Counts {
        &self.0[region as usize]
    }
}

impl IndexMut<Region> for RegionCounts {
    fn index_mut(&mut self, region: Region) -> &mut Counts {
        &mut self.0[region as usize]
    }
}
