//! Guests: freed slots that a heap allocates next although their units are not the front.
//!
//! A program that replaces blocks frees a block and then allocates one of the same class. The freed
//! slot is in the caches of the core, but its unit is often not the front, and the slots of the
//! front were freed long ago. A heap may therefore *host* the freed slot: it moves the free list of
//! the front to `behind`, and pushes the guest to the list from which allocations pop. A heap that
//! does not host returns each such slot to its unit.
//!
//! ```text
//!   at first            free --> f1 --> f2 --> null     behind: null     slots of the front
//!   a free of g         free --> g --> null             behind --> f1 --> f2 --> null
//!   an allocation: g    free --> null                   behind --> f1 --> f2 --> null
//!   a free of h         free --> h --> null             behind --> f1 --> f2 --> null
//! ```
//!
//! This is the heap of a `TypedPool`. A heap whose frees may select moves slots to `behind` before
//! it has a guest, and leaves `f1` in the free list.
//!
//! While the heap hosts, the free list has at most one guest, because a free adds a guest only to
//! an empty list. The list may also contain slots of the front. A guest's unit counts the guest as
//! live. An allocation that finds neither a guest nor a slot of the front *misses*: it then gets
//! one of the slots of the front that the heap withholds.
//!
//! Two kinds of heap host:
//!
//! * A heap whose frees may select (`selection`) hosts while they select. It begins when the record
//!   begins to select, or with a later front. Each free then chooses its list without a branch on
//!   its unit or on the room. After the record branches again, the heap adds no guest, and closes
//!   at its next miss or with its next front.
//! * The heap of a `TypedPool`, whose frees always branch, *opens* to guests if a unit without
//!   never-used slots becomes its front and no pause covers that front. It stays open until it
//!   closes at a miss or an inspection, or gets its next front. A free to another unit then leaves
//!   the fast path (`host`), and the heap begins to host if the front has a linked free slot.
//!
//! `give_up_front`, `take_scraped` and `trim_keeping` dismiss the guest before the front changes or
//! is set aside, without a call to the backing allocator between the two steps. The invariants are
//! H3, H5, H8 and H9.
//!
//! Guests *pay* only if an allocation of the same class usually follows a free. They do harm if
//! most units are sparse: a heap that reuses the slots of sparse units keeps these units from
//! becoming empty. [`GuestCredit`](super::guest_credit::GuestCredit) says whether guests pay, and
//! when to look for sparse units.

use core::ptr::{self, NonNull};

use ephemera_prim::account::Account;
use ephemera_prim::raw::{base_addr, header_of};

use super::{PoolEnv, UnitHeap};
use crate::local_frees::{Freed, LINK, Reach, link_of, linked, write_link};
use crate::unit::{Unit, UnitPtr};

/// The size, in bytes, of the largest unit from which a heap hosts a slot. A guest pins its unit
/// until an allocation takes the guest, or until the heap dismisses it.
const LARGEST_UNIT: usize = 64 << 10;

/// The divisor that defines sparse units: less than 1/`SPARSE` of their slots are live.
const SPARSE: usize = 4;

/// The value of `behind` if the heap hosts and the list `behind` is empty.
const NOTHING: *mut u8 = ptr::without_provenance_mut(1);

impl UnitHeap {
    /// Returns whether the free list of a heap that hosts has room for a guest.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        if weakened!("heaps_have_no_room") {
            return false;
        }
        self.local.free.get().is_null() || weakened!("guests_of_any_number")
    }

    /// Returns whether the heap is open to guests.
    #[inline]
    pub(crate) fn is_open_to_guests(&self) -> bool {
        self.is_open.get()
    }

    /// Returns the first slot in `behind`, or null. Only the owner may call this.
    #[inline]
    pub(super) fn first_behind(&self) -> *mut u8 {
        let first = self.behind.get();
        if first == NOTHING { ptr::null_mut() } else { first }
    }

    /// Closes the heap. The caller has moved the slots in `behind` to the free list.
    fn close_to_guests(&self) {
        if self.is_hosting() {
            self.end.set(self.end_of_front());
            self.behind.set(ptr::null_mut());
            self.show_front();
        }
        self.is_open.set(false);
    }

    /// Begins to host, or opens the heap to guests if its frees always branch. Does so only if
    /// the heap may host, its units have at most [`LARGEST_UNIT`] bytes, and no pause covers this
    /// front. The caller has changed the front, or whether the heap selects.
    ///
    /// A heap whose frees may select begins only while they do. A heap whose frees always branch
    /// stays closed if the front has slots that were never used, because the program does not need
    /// the free slots of other units yet.
    #[inline]
    pub(crate) fn open_to_guests<E: PoolEnv>(&self, env: E) {
        let wants = if E::MAY_SELECT { self.selects() } else { self.cursor.get() == self.end.get() };
        let is_small = self.spec.unit <= LARGEST_UNIT || weakened!("guests_of_any_size");
        let may_begin = wants && is_small && self.has_front() && !self.is_hosting();
        if !(may_begin && env.may_host() && self.guests.begins()) {
            return;
        }
        if E::MAY_SELECT {
            self.leave_one(self.local.free.get());
        } else {
            self.is_open.set(true);
        }
    }

    /// Leaves `first`, the first linked free slot of the front, to allocations, and withholds the
    /// other free slots of the front. Slots after `first` move to `behind`, and `end` withholds
    /// slots that were never used. If `first` is null, leaves one slot that was never used, if
    /// there is one.
    fn leave_one(&self, first: *mut u8) {
        let (mut second, mut end) = (ptr::null_mut(), self.cursor.get());
        if first.is_null() && end != self.end_of_front() {
            end = end.wrapping_add(self.spec.stride);
        } else if !first.is_null() {
            // SAFETY: H1: the caller owns the heap. H3: linked slots are free.
            second = unsafe { link_of(first) };
            // SAFETY: H1: the caller owns the heap. H3: `first` is free. `second` points to the
            // slots after `first`, so `first` is now the last slot of its list.
            unsafe { write_link(first, ptr::null_mut()) };
        }
        self.local.free.set(first);
        self.end.set(end);
        let keeps = !second.is_null() || weakened!("fronts_without_free_slots_host_no_guest");
        self.behind.set(if keeps { second } else { NOTHING });
        self.show_front();
    }

    /// Makes room for a guest in the free list. An open heap that does not host begins to host.
    /// Returns `false` if the heap cannot host another guest now: the slot must then return to its
    /// unit.
    #[inline]
    pub(super) fn makes_room<E: PoolEnv>(&self, env: E) -> bool {
        let first = self.local.free.get();
        if self.is_hosting() {
            return self.has_room();
        }
        // If the free list is empty, the front of an open heap has no free slot, so the heap is
        // about to take another front.
        if first.is_null() || !self.is_open.get() || !env.may_host() {
            return false;
        }
        self.behind.set(first);
        self.local.free.set(ptr::null_mut());
        true
    }

    /// Inspects a unit. If the unit is sparse, closes the heap for a long pause. Also closes the
    /// heap if it may no longer host, because its family now has a limit. Otherwise, if the heap
    /// hosts, notes that hosting pays. Does not note it for the front, because the heap does not
    /// know how many slots of the front are live.
    pub(super) fn close_if_sparse<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        self.guests.inspected();
        let is_sparse = !self.is_front(unit) && unit.live() < unit.slots() / SPARSE;
        if is_sparse && !weakened!("guests_of_sparse_units") {
            self.guests.pause_for_sparse_units();
            self.dismiss_guest(env);
        } else if !env.may_host() {
            self.dismiss_guest(env);
        } else if self.is_hosting() && !self.is_front(unit) {
            self.guests.succeed();
        }
    }

    /// Handles a miss: leaves another slot of the front to allocations. If guests do not pay,
    /// closes the heap, so that allocations get all slots of the front. Closes the heap without a
    /// pause if its frees may select but no longer do, or if they always branch and the slot is the
    /// last one. Returns `false` if the front has no free slot. The free list must be empty.
    pub(super) fn miss(&self) -> bool {
        let first = self.first_behind();
        let has_unused = self.cursor.get() != self.end_of_front();
        if first.is_null() && !has_unused {
            return false;
        }
        let selects = self.selects() || weakened!("branching_heaps_pause");
        if self.selects() {
            self.credit_listed_frees();
        }
        // SAFETY: H1: the caller owns the heap. H3: the slots in `behind` are free. `first` is not
        // null here: if it were, this function would have returned above, because the front has no
        // unused slot.
        let is_last = !has_unused && unsafe { link_of(first) }.is_null();
        let must_close = !selects && (is_last || !self.is_open.get());
        if must_close || !self.guests.misses(self.is_open.get()) {
            self.local.free.set(first);
            self.close_to_guests();
        } else {
            self.leave_one(first);
        }
        true
    }

    /// Returns the guest, if there is one. Only the owner may call this.
    pub(crate) fn guest(&self) -> Option<NonNull<u8>> {
        let is_hosting = self.is_hosting() && !weakened!("guests_count_as_live");
        let first = if is_hosting { self.local.free.get() } else { ptr::null_mut() };
        // SAFETY: H1: the caller owns the heap. H3: linked slots are free.
        unsafe { linked(first) }.find(|&slot| !self.is_in_front(slot))
    }

    /// Returns the number of guests, 0 or 1. Only the owner may call this.
    pub(crate) fn guests(&self) -> usize {
        usize::from(self.guest().is_some())
    }

    /// Returns whether `slot`, a slot of this heap, is in `unit`.
    pub(crate) fn is_in(&self, unit: UnitPtr, slot: NonNull<u8>) -> bool {
        base_addr(slot, self.spec.unit) == unit.as_ptr().addr()
    }

    fn is_in_front(&self, slot: NonNull<u8>) -> bool {
        self.front().is_some_and(|front| self.is_in(front, slot))
    }

    /// Closes the heap to guests, and returns the guest to its unit. The slots in `behind` return
    /// to the free list. This function never calls the backing allocator: if the guest's unit
    /// becomes empty, the heap keeps it.
    #[inline]
    pub(super) fn dismiss_guest<E: PoolEnv>(&self, env: E) {
        if self.is_hosting() {
            self.dismiss(env);
        } else {
            self.close_to_guests();
        }
    }

    #[cold]
    #[inline(never)]
    fn dismiss<E: PoolEnv>(&self, env: E) {
        let (mut all, mut guest) = (self.first_behind(), None);
        if weakened!("slots_behind_are_lost") {
            all = ptr::null_mut();
        }
        // SAFETY: H1: the caller owns the heap. H3: linked slots are free.
        for slot in unsafe { linked(self.local.free.get()) } {
            if self.is_in_front(slot) {
                // SAFETY: H1: the caller owns the heap. H3: the slot is free, and was just taken
                // off the list.
                unsafe { write_link(slot.as_ptr(), all) };
                all = slot.as_ptr();
            } else {
                guest = Some(slot);
            }
        }
        self.local.free.set(all);
        self.close_to_guests();
        let Some(guest) = guest.filter(|_| !weakened!("guests_are_lost")) else { return };
        // SAFETY: units are aligned to `spec.unit`, start with a `Unit`, and were exposed when they
        // were created. The unit counts its guest as live, so the unit is not freed (H4).
        let header = unsafe { header_of::<Unit>(guest, self.spec.unit) };
        // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
        let unit = unsafe { UnitPtr::new(header) };
        // SAFETY: H1: the caller owns the unit. H3: the guest is free and is on no list any more.
        // The pointers in a free list may access their whole slots.
        unsafe { unit.local().push(Freed { block: guest, size: LINK, reach: Reach::Slot }) };
        unit.claim().touch();
        let until = unit.local().count();
        env.sub_live(1);
        let live = unit.live();
        if until == 0 && live != 0 {
            self.enqueue(unit, live);
        } else if until == 0 {
            // If the heap now has too many empty units, it frees the surplus when the next unit
            // becomes empty.
            self.unlist(unit);
            unit.rewind(self.spec);
            self.push_empty(unit);
            env.account().spare();
        }
    }
}
