//! What an arena holds, and what of it is used.

use crate::group::GroupPtr;
use crate::shard::ShardPtr;
use crate::store::Store;

/// What an arena holds from the heap and what of it is used.
///
/// Exact at rest: when no operation is in progress on another thread. Gathered by going through the pages, so that nothing is
/// counted for it while values come and go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Pages held.
    pub pages: usize,
    /// Of these, pages without a value.
    pub empty_pages: usize,
    /// Groups of pages: what is taken from the heap and given back at once.
    pub groups: usize,
    /// Slots in all pages.
    pub slots: usize,
    /// Slots with a value, or with a weak handle.
    pub used: usize,
    /// Bytes of the values themselves: `used` times their size.
    pub bytes_used: usize,
    /// Bytes held from the heap: pages, counts of shared handles, and the arena's own state.
    pub bytes_held: usize,
    /// The limit on `bytes_held`, in bytes; `usize::MAX` for none.
    pub limit: usize,
    /// Whether the pages could not be read, since somebody stood in the way for long: what is said of them above is then zero. So it stays
    /// in the child of a fork, if a thread that it does not have was there.
    pub unread: bool,
}

impl Statistics {
    /// Slots without a value.
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots - self.used
    }

    /// Bytes held beyond those of the values.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.bytes_held.saturating_sub(self.bytes_used)
    }

    /// Goes through a store whose arena lives.
    pub(crate) fn of(store: &Store, value_size: usize) -> Self {
        let account = store.account();
        let mut this = Self { bytes_held: account.held(), limit: account.limit(), ..Self::default() };
        match store.enter_patiently() {
            Some(_pass) => store.walk(|shard, group| this.add(store, shard, group)),
            None => this.unread = true,
        }
        // In between, slots may have been seen twice, or not at all.
        this.used = this.used.min(this.slots);
        this.bytes_used = this.used * value_size;
        this
    }

    fn add(&mut self, store: &Store, shard: Option<ShardPtr>, group: GroupPtr) {
        let geometry = store.geometry();
        self.groups += 1;
        for page in 0..group.pages() {
            let front = shard.map_or(0, |shard| shard.front_slots(geometry, group, page));
            let free = group.near(geometry, page).bits().slots() | group.unbooked(geometry, page) | front;
            let used = geometry.slots - (free & geometry.all()).count_ones() as usize;
            self.pages += 1;
            self.slots += geometry.slots;
            self.used += used;
            self.empty_pages += usize::from(used == 0);
        }
    }
}
