//! Reports the memory that an arena holds, and how much of it is in use.

use core::fmt;

use ephemera_prim::summary;

use crate::group::PageGroupPtr;
use crate::shard::ShardPtr;
use crate::store::{ArenaStore, enter_patiently};

/// The memory that an arena holds from the global allocator, and how much of it is in use.
///
/// The numbers are exact while no other thread uses the arena. The arena does not count its slots,
/// so each call to `statistics` walks all pages.
///
/// # Examples
///
/// ```
/// use shared_arena::Pool;
///
/// let pool = Pool::new();
/// let boxed = pool.alloc([0_u8; 100]);
/// let stats = pool.statistics();
/// assert_eq!((stats.slots_live, stats.bytes_live), (1, 100));
/// assert!(stats.to_string().ends_with("KiB held, 100 B live"));
/// assert_eq!((stats.pages, stats.empty_pages), (1, 0));
/// drop(boxed);
/// assert_eq!(pool.statistics().slots_live, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of pages, including empty pages.
    pub pages: usize,
    /// The number of pages without a live slot.
    pub empty_pages: usize,
    /// The number of groups. The arena allocates and frees pages in groups.
    pub groups: usize,
    /// The number of slots in all pages.
    pub slots: usize,
    /// The number of live slots. A slot is live while it has a value or a weak handle.
    pub slots_live: usize,
    /// The bytes that the arena holds from the global allocator: its pages, the reference counts of
    /// `ArenaRc` and `ArenaArc` handles, and its own state.
    pub bytes_held: usize,
    /// The total size of the live slots' values in bytes: `slots_live` times the size of a value.
    pub bytes_live: usize,
    /// The limit on `bytes_held`, or `usize::MAX` if there is none.
    pub limit: usize,
    /// Whether this call could not read the pages, because another thread held the arena's internal
    /// lock for too long. The numbers of pages, groups and slots are then zero, as is `bytes_live`.
    /// A bare `clone`, without the C library's `fork`, can create a child process while another
    /// thread of the parent holds the lock. In that child, `unread` stays true.
    pub unread: bool,
}

/// Displays `bytes_held` and `bytes_live`, and the limit if there is one.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        summary::write(f, self.bytes_held, self.bytes_live, self.limit)
    }
}

impl Stats {
    /// Returns the number of free slots, which have neither a value nor a weak handle.
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots - self.slots_live
    }

    /// Returns the number of bytes that the arena holds beyond `bytes_live`.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.bytes_held.saturating_sub(self.bytes_live)
    }

    /// Returns whether the pages were read: the opposite of `unread`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.unread
    }

    /// Returns the statistics of a store whose arena is live. `value_size` is the size of a value
    /// in bytes.
    pub(crate) fn of(store: &ArenaStore, value_size: usize) -> Self {
        let account = &store.account.bytes;
        let mut this = Self { bytes_held: account.held(), limit: account.limit(), ..Self::default() };
        match enter_patiently(&store.gate) {
            Some(_pass) => store.walk(|shard, group| this.add(store, shard, group)),
            None => this.unread = true,
        }
        // The number can be too high: if another thread moves a free slot's bit from one word to
        // another during the walk, the walk can count the slot as live. But `add` never counts more
        // live slots than a page has, so this `min` only shows that `free` cannot wrap.
        this.slots_live = this.slots_live.min(this.slots);
        this.bytes_live = this.slots_live * value_size;
        this
    }

    fn add(&mut self, store: &ArenaStore, shard: Option<ShardPtr>, group: PageGroupPtr) {
        let geometry = &store.geometry;
        self.groups += 1;
        for page in 0..group.pages() {
            let front = shard.map_or(0, |shard| shard.front_slots(geometry, group, page));
            let free = group.near(geometry, page).bits().slots() | group.unbooked(geometry, page) | front;
            let used = geometry.slots - (free & geometry.all()).count_ones() as usize;
            self.pages += 1;
            self.slots += geometry.slots;
            self.slots_live += used;
            self.empty_pages += usize::from(used == 0);
        }
    }
}
