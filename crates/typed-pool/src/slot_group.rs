//! Slot groups: the words for remote frees, shared by up to 63 slots of a unit.
//!
//! ```text
//!  unit: | line 1 | line 2: slots, links, ... | group 0 | group 1 | ... | first slot | ...
//!  group:  foreign word: a bit for each slot, link in the inbox | home: a bit for each free slot
//!          other threads write here                             | only the owner writes here
//! ```
//!
//! A remote free sets a bit of the foreign word. It does not touch the slot, whose cache lines may
//! belong to another core. When the owner books the free, it links the slot only if the unit is the
//! front. Otherwise it sets the slot's `home` bit, and links the slot when the unit becomes the
//! front. If the unit becomes empty before that, the owner rewinds the unit, which clears the bits.

use core::mem::offset_of;
use core::ptr::{self, NonNull};

use ephemera_prim::foreign::{COMPLETE_BITS, COUNTDOWN, Foreign};
use ephemera_prim::poison::unpoison;
use ephemera_prim::word::OwnerU64;

use crate::geometry::{GROUP, UnitSpec, index_of, start_at};
use crate::local_frees::{LINK, linked, write_link};
use crate::unit::{UnitPtr, UnitState};
use crate::unit_header::{SlotGroup, Unit};

/// A pointer to a group: the group's unit, and its index in that unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotGroupPtr {
    unit: UnitPtr,
    number: usize,
}

impl SlotGroupPtr {
    // The group's unit is not freed while the pointer is used (U1).
    words! {
        fn foreign() -> &Foreign<SlotGroup> = foreign;
        fn home() -> &OwnerU64 = home;
    }

    /// Creates the pointer from the group's address and the alignment of its unit.
    ///
    /// # Safety
    /// U1 holds for the unit, and the pointer came from [`Self::as_non_null`].
    pub(crate) unsafe fn new(group: NonNull<SlotGroup>, unit_size: usize) -> Self {
        let base = group.as_ptr().map_addr(|addr| addr & !(unit_size - 1));
        // SAFETY: units are aligned to `unit_size`, and no unit is at address zero.
        let unit = unsafe { NonNull::new_unchecked(base.cast()) };
        // SAFETY: the caller's unit is live (U1), and the group's pointer may access the whole
        // unit.
        let unit = unsafe { UnitPtr::new(unit) };
        Self { unit, number: (group.addr().get() - unit.group(0).addr()) / size_of::<SlotGroup>() }
    }

    pub(crate) fn unit(self) -> UnitPtr {
        self.unit
    }

    #[inline]
    fn as_ptr(self) -> *mut SlotGroup {
        self.unit.group(self.number)
    }

    #[inline]
    pub(crate) fn as_non_null(self) -> NonNull<SlotGroup> {
        // SAFETY: the address is inside the unit, so it is not null.
        unsafe { NonNull::new_unchecked(self.as_ptr()) }
    }

    /// Returns the bits of all slots of the group.
    fn slots(self) -> u64 {
        let slots = (self.unit.slots() - self.number * GROUP).min(GROUP);
        (1 << slots) - 1
    }

    /// Returns the bits of the slots that were freed through the group's foreign word, given its
    /// value `word`. During a countdown, the word also has the bits of slots that were free before
    /// the countdown. Only groups of abandoned units count down.
    pub(crate) fn freed(self, word: u64) -> u64 {
        if word & COUNTDOWN == 0 { word } else { word & self.slots() & !self.home().get() }
    }

    /// Starts the group's countdown, if a slot of the group is live and no slot has been freed
    /// since the group left the inbox. The unit must be abandoned. Only the holder of its record
    /// may call this.
    pub(crate) fn start_countdown(self) {
        let live = self.slots() & !self.home().get();
        if live != 0 && !weakened!("no_countdown") {
            self.foreign().start_countdown(!live);
        }
    }

    /// Stops the group's countdown, if there is one, and sets the `home` bits of the slots that
    /// were freed during it. Returns the number of these slots, or 0 without a countdown. Returns
    /// `None` if the countdown is complete. The group is then in the heap's mail or lent, or is
    /// about to be pushed (I1). Only the owner may call this.
    pub(crate) fn stop_countdown(self) -> Option<usize> {
        match self.foreign().stop_countdown(COMPLETE_BITS) {
            Some(word) => {
                let freed = self.freed(word);
                self.keep_home(freed);
                Some(freed.count_ones() as usize)
            }
            None if self.foreign().unbooked() == COMPLETE_BITS && !weakened!("adopt_a_complete_group") => {
                None
            }
            None => Some(0),
        }
    }

    /// Returns whether the group is not counting down and has remote frees that the owner has not
    /// booked yet. The answer may be out of date.
    pub(crate) fn awaits_owner(self) -> bool {
        let word = self.foreign().unbooked();
        (word != 0 || weakened!("booked_groups_wait")) && word & COUNTDOWN == 0
    }

    /// Sets the `home` bits of these slots, which are then free and not linked. Only the owner may
    /// call this.
    pub(crate) fn keep_home(self, slots: u64) {
        ephemera_prim::invariant!(self.home().get() & slots == 0, "a slot is booked as free twice");
        self.home().set(self.home().get() | slots);
    }

    /// Links the free slots with these bits in front of the list `free`, and returns the first slot
    /// of the new list. Only the owner may call this.
    pub(crate) fn link(self, mut slots: u64, spec: UnitSpec, mut free: *mut u8) -> *mut u8 {
        while let Some(last) = slots.checked_ilog2() {
            slots &= !(1 << last);
            let index = self.number * GROUP + last as usize;
            let slot = self.unit.first_slot().wrapping_add(index * spec.stride);
            // SAFETY: the slot is inside the unit, so its address is not null.
            let place = unsafe { NonNull::new_unchecked(slot) };
            // SAFETY: the slot is free, and has room for a link.
            unsafe { unpoison(place, LINK) };
            // SAFETY: H3: the slot is free and on no list, and the caller owns the unit.
            unsafe { write_link(slot, free) };
            free = slot;
        }
        free
    }
}

impl UnitPtr {
    // The unit is not freed while the pointer is used (U1).
    words! {
        /// Returns the offset, in bytes, of the first slot in the unit.
        fn first() -> u32 = remote.first;
        fn number_of_groups() -> u32 = remote.groups;
        fn stride() -> u32 = remote.stride;
        fn inverse() -> u32 = remote.inverse;
    }

    #[inline]
    fn group(self, number: usize) -> *mut SlotGroup {
        self.at(offset_of!(Unit, remote.group)).cast::<SlotGroup>().wrapping_add(number)
    }

    #[inline]
    fn first_slot(self) -> *mut u8 {
        self.at(self.first() as usize)
    }

    pub(crate) fn groups(self) -> impl DoubleEndedIterator<Item = SlotGroupPtr> {
        (0..self.number_of_groups() as usize).map(move |number| SlotGroupPtr { unit: self, number })
    }

    /// Tells the model checker that the unit with these groups is about to be freed.
    pub(crate) fn end_groups(self) {
        self.groups().for_each(|group| group.foreign().end());
    }

    /// Returns the group of a slot of this unit, and the slot's bit in it.
    #[inline]
    pub(crate) fn group_of(self, slot: NonNull<u8>) -> (SlotGroupPtr, u64) {
        let index = index_of(slot.addr().get() - self.first_slot().addr(), self.inverse());
        (SlotGroupPtr { unit: self, number: index / GROUP }, 1 << (index % GROUP))
    }

    /// Returns the stride of the unit's slots, or `None` if no slot of the unit starts at `block`.
    /// The unit must belong to a size class. Any thread may call this.
    #[inline]
    pub(crate) fn stride_of_slot(self, block: NonNull<u8>) -> Option<usize> {
        let distance = block.addr().get().wrapping_sub(self.first_slot().addr());
        (start_at(distance, self.inverse())? < self.slots()).then_some(self.stride() as usize)
    }

    /// Returns the number of remote frees that are not booked yet.
    pub(crate) fn unbooked(self) -> usize {
        let count = |group: SlotGroupPtr| {
            group.foreign().touch();
            group.freed(group.foreign().unbooked()).count_ones() as usize
        };
        self.groups().map(count).sum()
    }

    /// Unlinks all free slots of a unit and sets their `home` bits. Slots that were never used get
    /// their bits too. The unit must not be the front. Only its owner may call this.
    pub(crate) fn fold(self, spec: UnitSpec) {
        // SAFETY: H1: the caller owns the unit. H3: linked slots are free.
        for slot in unsafe { linked(self.free().replace(ptr::null_mut())) } {
            let (group, bit) = self.group_of(slot);
            group.keep_home(bit);
        }
        let end = self.at(spec.end(self.slots()));
        let handed_out = (self.cursor().replace(end).addr() - self.first_slot().addr()) / spec.stride;
        for group in self.groups() {
            let old = handed_out.saturating_sub(group.number * GROUP).min(GROUP);
            group.keep_home(group.slots() & !((1 << old) - 1));
        }
    }

    /// Returns whether all slots are free. Returns `false` for the front and for a unit among the
    /// empties. Slots with an unbooked remote free count as free. The calling thread must not be
    /// the owner, and must have borrowed a group of the unit. The answer is only a hint, unless the
    /// thread has claimed the unit's slots and then run the fence of C3.
    ///
    /// After that fence, the answer `true` is exact. The owner allocates no slot of a unit that is
    /// not the front, except for a guest, which counts as live throughout. The number of live slots
    /// can therefore only fall. This function reads the count of live slots first, and a count that
    /// is out of date is too large. Each bit that it reads afterwards belongs to a slot in that
    /// count, so if the count equals the number of bits, no slot is live.
    pub(crate) fn all_free(self) -> bool {
        if matches!(self.observe_state(), UnitState::Front | UnitState::Empty)
            && !weakened!("fronts_are_purged")
        {
            return false;
        }
        let early = if weakened!("bits_before_live") { self.observe_freed() } else { 0 };
        let Some(live) = self.observe_live() else { return false };
        let freed = if weakened!("bits_before_live") { early } else { self.observe_freed() };
        freed == live
    }

    /// Returns the number of slots with an unbooked remote free. The caller then sees everything
    /// that the freeing threads did with these slots.
    fn observe_freed(self) -> usize {
        self.groups().map(|group| group.freed(group.foreign().observe()).count_ones() as usize).sum()
    }

    /// Returns the address of the first slot, and the total size of all slots in bytes. Any thread
    /// may call this.
    pub(crate) fn slot_bytes(self, spec: UnitSpec) -> (NonNull<u8>, usize) {
        // SAFETY: the address is inside the unit, so it is not null.
        (unsafe { NonNull::new_unchecked(self.first_slot()) }, self.slots() * spec.stride)
    }

    /// Tells the model checker that this thread purges the slots.
    pub(crate) fn note_purge(self) {
        self.claim().purge();
        self.groups().for_each(|group| group.foreign().reuse());
    }

    /// Restores a unit after a purge, which destroyed the links between free slots. All slots of
    /// the unit are free, so each slot without an unbooked remote free gets its `home` bit. Only
    /// the owner may call this.
    #[cold]
    pub(crate) fn rebuild(self, spec: UnitSpec) {
        self.free().set(ptr::null_mut());
        self.cursor().set(self.at(spec.end(self.slots())));
        for group in self.groups() {
            group.home().set(group.slots() & !group.freed(group.foreign().unbooked()));
        }
        self.claim().renew();
    }

    /// Links all free slots before the cursor into one list, and returns its head or null. The
    /// `home` bits are clear afterwards. The caller makes the unit the front.
    pub(crate) fn take_free(self, spec: UnitSpec) -> *mut u8 {
        let free = self.free().replace(ptr::null_mut());
        if weakened!("home_stays") {
            return free;
        }
        self.groups().rev().fold(free, |free, group| {
            let slots = group.home().get();
            group.home().set(0);
            group.link(slots, spec, free)
        })
    }

    /// Clears all `home` bits.
    pub(crate) fn forget_home(self) {
        self.groups().filter(|group| group.home().get() != 0).for_each(|group| group.home().set(0));
    }
}
