//! The front of a heap: how a unit becomes the front, and how the heap counts its slots afterwards.
//!
//! Neither allocations from the front nor frees to it update a count of live slots. (A heap that
//! selects counts the frees to its list, but only for `selection` and for the credits of guests.)
//! The heap counts the unit's live slots when the unit stops being the front. If the unit became
//! full, all of its slots are live. If the heap replaces the unit before the unit is full, the heap
//! counts the free list. From then on, each free decrements `until`.
//!
//! At the end of a scope, the front may be *set aside*: its free slots move from the heap to the
//! unit without being counted, and the unit stays the front. The first slow path of the next scope
//! returns the slots to the heap, and counts the unit for that scope if the unit has a free slot.
//! Until that slow path, only slots that were freed to the front after it was set aside serve
//! allocations.

use core::ptr;

use super::{FrontScope, LeftUnits, PoolEnv, UnitHeap};
use crate::local_frees::{linked, write_link};
use crate::unit::{UnitPtr, UnitState};

/// The divisor for full units: a heap queues a full unit when 1/`SHARE` of its slots are free. A
/// front thus usually serves at least that share of its slots before the heap needs another front.
const SHARE: usize = 8;

/// The number of units that makes a heap large. A large heap reuses the free slots of full units
/// earlier, at the price of more slow paths. The price matters little if the frees go to random
/// units, because most of these frees miss the caches anyway.
const LARGE_HEAP: usize = 256;

/// The [`SHARE`] of a large heap. The number of slots that must be free is at least `LEAST_FREES`,
/// but not more than in a small heap.
const LARGE_HEAP_SHARE: usize = 64;
const LEAST_FREES: usize = 4;

impl UnitHeap {
    /// Makes `unit` the front, in place of the current one. The unit must have a free slot, and
    /// must not be on any list except the list of all units.
    #[inline]
    pub(super) fn install<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        // There may be a front even if the caller gave up the front before it requested `unit`: the
        // backing allocator may have allocated from this heap during the request.
        self.give_up_front(env);
        env.sub_live(unit.live());
        unit.set_state(UnitState::Front);
        unit.claim().touch();
        self.front.set(unit.as_ptr());
        self.local.free.set(unit.take_free(self.spec));
        self.cursor.set(unit.cursor().get());
        self.end.set(self.end_of_front());
        if self.selects() == env.selects() && !weakened!("new_fronts_restart_the_count") {
            self.show_front();
        } else {
            self.set_selects(env.selects());
        }
        self.open_to_guests(env);
    }

    /// Returns the number of free slots of the front: linked slots, and slots that were never used.
    /// A guest does not count. Only the owner may call this.
    #[inline]
    pub(crate) fn free_in_front(&self) -> usize {
        let (mut cursor, mut aside) = (self.cursor.get(), 0);
        if let Some(unit) = self.front_aside() {
            cursor = unit.cursor().get();
            // SAFETY: H1: the caller owns the heap, and so the front. H3: linked slots are free.
            aside = unsafe { linked(unit.free().get()) }.count();
        }
        let unused = (self.end_of_front().addr() - cursor.addr()) / self.spec.stride.max(1);
        // SAFETY: H1: the caller owns the heap. H3: linked slots are free.
        let own = unsafe { linked(self.local.free.get()) }.count() - self.guests();
        // SAFETY: as above.
        let behind = unsafe { linked(self.first_behind()) }.count();
        unused + own + behind + aside
    }

    /// Returns the front if it is set aside.
    #[inline]
    fn front_aside(&self) -> Option<UnitPtr> {
        if self.scope_of_front.get() == FrontScope::Aside { self.front() } else { None }
    }

    /// Sets the front aside if it has at most `most` bytes and `left` says so: `left.aside` for a
    /// front of the current scope, `left.unused` for a front that is aside already. Such a front
    /// stays aside, together with the slots that were freed to it since. Returns the size of the
    /// front in bytes, or `None` if the front must not stay aside.
    pub(super) fn set_front_aside(&self, most: usize, left: LeftUnits) -> Option<usize> {
        let unit = self.front()?;
        let bytes = self.bytes_of(unit);
        let is_aside = self.front_aside().is_some();
        let leaves = if is_aside { left.unused } else { left.aside };
        if !leaves || bytes > most {
            return None;
        }
        if is_aside {
            if self.local.free.get().is_null() || weakened!("freed_slots_are_not_set_aside") {
                return Some(bytes);
            }
            self.take_front_back(unit);
        }
        unit.free().set(self.local.free.replace(ptr::null_mut()));
        unit.cursor().set(self.cursor.replace(self.end_of_front()));
        self.end.set(self.end_of_front());
        self.scope_of_front.set(FrontScope::Aside);
        Some(bytes)
    }

    /// Moves the free slots of a front that is set aside back to the heap. Slots that were freed
    /// while the front was aside are already on the heap's list.
    #[cold]
    fn take_front_back(&self, unit: UnitPtr) {
        let aside = unit.free().replace(ptr::null_mut());
        // SAFETY: H1: the caller owns the heap. H3: linked slots are free.
        match unsafe { linked(self.local.free.get()) }.last() {
            Some(_) if weakened!("slots_aside_are_lost") => {}
            // SAFETY: H1: the caller owns the heap. H3: the last linked slot is free, and links to
            // nothing.
            Some(last) => unsafe { write_link(last.as_ptr(), aside) },
            None => self.local.free.set(aside),
        }
        self.cursor.set(unit.cursor().get());
        self.scope_of_front.set(FrontScope::Own);
    }

    /// Lets the current scope allocate from the front, if an earlier scope set the front aside. If
    /// the front has a free slot, its unit counts for the current scope from now on.
    #[inline]
    pub(super) fn inherit_front<E: PoolEnv>(&self, env: E) {
        if let Some(unit) = self.front_aside() {
            self.take_front_back(unit);
            let has_free = !self.local.free.get().is_null() || self.cursor.get() != self.end_of_front();
            let counts = !weakened!("inherited_fronts_do_not_count");
            if has_free && counts && !env.is_current(unit.birth()) {
                unit.set_birth(env.count_unit(self.bytes_of(unit)));
                self.scope_of_front.set(FrontScope::Earlier);
            }
        }
    }

    /// Subtracts an inherited front from the bytes of the scope that ends, because all live slots
    /// of the unit may belong to earlier scopes.
    pub(super) fn disown_front<E: PoolEnv>(&self, env: E) {
        if let Some(unit) = self.front().filter(|_| self.scope_of_front.get() == FrontScope::Earlier) {
            env.uncount_unit(self.bytes_of(unit), unit.birth());
            unit.set_birth(0);
            self.scope_of_front.set(FrontScope::Own);
        }
    }

    /// Dismisses the guest, then makes the front an ordinary unit: full, in the queue, or empty.
    #[inline]
    pub(super) fn give_up_front<E: PoolEnv>(&self, env: E) {
        self.dismiss_guest(env);
        let Some(unit) = self.front() else { return };
        if self.front_aside().is_some() {
            self.take_front_back(unit);
        }
        let (mut free, slots) = (self.free_in_front(), unit.slots());
        if weakened!("front_counts_the_unbooked") {
            free += unit.unbooked();
        }
        env.add_live(slots - free);
        unit.free().set(self.local.free.replace(ptr::null_mut()));
        unit.cursor().set(self.cursor.replace(ptr::null_mut()));
        self.end.set(ptr::null_mut());
        self.front.set(ptr::null_mut());
        self.show_front();
        if free == 0 {
            unit.set_live(slots, self.awaited_frees(slots));
            self.push_full(unit);
        } else if free == slots {
            unit.rewind(self.spec);
            self.push_empty(unit);
        } else {
            unit.set_live(slots - free, slots - free);
            self.queue_first(unit);
        }
        self.scope_of_front.set(FrontScope::Own);
    }

    /// Returns the number of frees after which a full unit of `slots` slots is queued.
    #[inline]
    fn awaited_frees(&self, slots: usize) -> usize {
        let most = slots.div_ceil(SHARE);
        if self.units_len.get() < LARGE_HEAP || weakened!("large_heaps_await_an_eighth") {
            most
        } else {
            most.min((slots / LARGE_HEAP_SHARE).max(LEAST_FREES))
        }
    }

    /// Queues every full unit that has a free slot.
    ///
    /// Each visit takes a unit off the list of full units, and only units that become full join
    /// this list. Scrapes therefore visit at most as many units as became full. If a visited unit
    /// has no free slot, the next free of one of its slots queues the unit.
    #[inline]
    pub(super) fn scrape(&self) {
        while let Some(unit) = self.pop_full() {
            #[cfg(test)]
            self.scraped.set(self.scraped.get() + 1);
            let live = unit.live();
            if live < unit.slots() {
                self.enqueue(unit, live);
            } else {
                unit.look_after_next_free(live);
            }
        }
    }
}
