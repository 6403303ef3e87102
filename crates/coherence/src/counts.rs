//! Counts of events between caches.

use std::ops::{AddAssign, Index, IndexMut};

use crate::caches::Event;

/// The number of events of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The number of loads that another cache served.
    pub reads: u64,
    /// The number of stores that only told other caches to drop the line.
    pub upgrades: u64,
    /// The number of stores that took the line from another cache.
    pub transfers: u64,
}

impl EventCounts {
    /// Returns the number of lines that moved from one cache to another.
    #[must_use]
    pub fn moved(self) -> u64 {
        self.reads + self.transfers
    }

    /// Returns the number of events: the moved lines and the upgrades.
    #[must_use]
    pub fn events(self) -> u64 {
        self.moved() + self.upgrades
    }

    pub(crate) fn add(&mut self, event: Event) {
        *match event {
            Event::Read => &mut self.reads,
            Event::Upgrade => &mut self.upgrades,
            Event::Transfer => &mut self.transfers,
        } += 1;
    }
}

impl AddAssign for EventCounts {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.upgrades += other.upgrades;
        self.transfers += other.transfers;
    }
}

/// The memory that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRegion {
    /// Lines with bytes of blocks that the program used.
    Blocks,
    /// The other memory of the heap: headers, tables and records of the allocator.
    Headers,
    /// Static variables: global words, and records in static arrays.
    Statics,
    /// Stacks and thread-locals.
    Stacks,
}

impl LineRegion {
    /// All regions, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Blocks, Self::Headers, Self::Statics, Self::Stacks];
}

/// The number of events of each kind in each region of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts([EventCounts; LineRegion::ALL.len()]);

impl RegionCounts {
    /// Returns the counts of all regions together.
    #[must_use]
    pub fn total(&self) -> EventCounts {
        let mut total = EventCounts::default();
        for counts in self.0 {
            total += counts;
        }
        total
    }
}

impl Index<LineRegion> for RegionCounts {
    type Output = EventCounts;

    fn index(&self, region: LineRegion) -> &EventCounts {
        &self.0[region as usize]
    }
}

impl IndexMut<LineRegion> for RegionCounts {
    fn index_mut(&mut self, region: LineRegion) -> &mut EventCounts {
        &mut self.0[region as usize]
    }
}
