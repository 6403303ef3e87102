//! Guests: freed slots that a heap allocates next although their units are not the front.
//!
//! A program that replaces blocks frees a block and then allocates one of the same class. The freed
//! slot is in the caches of the core, but its unit is often not the front, and the slots of the
//! front were freed long ago. A heap that is *open* to guests may therefore *host* the freed slot:
//! it moves the free list of the front to `behind`, and pushes the guest to the list from which
//! allocations pop. A heap that is *closed* returns each such slot to its unit.
//!
//! ```text
//!   open                free --> f1 --> f2 --> null     behind: null     slots of the front
//!   a free of g         free --> g --> null             behind --> f1 --> f2
//!   an allocation: g    free --> null                   behind --> f1 --> f2
//!   a free of h         free --> h --> null             behind --> f1 --> f2
//! ```
//!
//! While the heap hosts, the free list has at most one guest, because a free adds a guest only to
//! an empty list. The list may also contain slots of the front. A guest's unit counts the guest as
//! live.
//!
//! `install` may open a heap. `give_up_front`, `take_scraped` and `trim_keeping` dismiss the guest
//! before the front changes or is set aside, without a call to the backing allocator between the
//! two steps. `host` has the frees and allocations of an open heap. The invariants are H3, H5, H8
//! and H9.
//!
//! Guests *pay* only if an allocation of the same class usually follows a free. They do harm if
//! most units are sparse: a heap that reuses the slots of sparse units keeps these units from
//! becoming empty. [`GuestCredit`](super::guest_credit::GuestCredit) says whether guests pay, and
//! when to look for sparse units.

use core::ptr::{self, NonNull};

use ephemera_prim::account::Account;
use ephemera_prim::raw::{base_addr, header_of};

use super::{PoolEnv, UnitHeap};
use crate::local_frees::{LINK, Reach, link_of, linked, write_link};
use crate::unit::{Unit, UnitPtr};

/// The size, in bytes, of the largest unit from which a heap hosts a slot. A guest pins its unit
/// until an allocation takes the guest, or until the heap dismisses it.
const LARGEST_UNIT: usize = 64 << 10;

/// The divisor that defines sparse units: less than 1/`SPARSE` of their slots are live.
const SPARSE: usize = 4;

impl UnitHeap {
    /// Returns whether the fast path of a free may push a slot to a unit with this owner word: the
    /// word is the address of this heap, without a tag, and the heap is closed to guests.
    #[inline]
    pub(crate) fn frees_to(&self, owner: *const ()) -> bool {
        self.direct.get() == owner
    }

    /// Returns whether the heap is closed to guests. A new heap is open.
    #[inline]
    pub(crate) fn is_closed_to_guests(&self) -> bool {
        !self.direct.get().is_null()
    }

    /// Returns whether the heap hosts, and may therefore have a guest. Any thread may call this
    /// function, but only the owner's answer is up to date.
    pub(crate) fn is_hosting(&self) -> bool {
        !self.behind.get().is_null()
    }

    fn close_to_guests(&self) {
        self.behind.set(ptr::null_mut());
        self.direct.set(ptr::from_ref(self).cast());
    }

    /// Opens the heap to guests after a unit became the front, if the heap may host, its units have
    /// at most [`LARGEST_UNIT`] bytes, and no pause covers this front. If the front has slots that
    /// were never used, the heap stays closed, because the program does not need the free slots of
    /// other units yet.
    #[inline]
    pub(super) fn open_to_guests<E: PoolEnv>(&self, env: E) {
        let is_used_up = self.cursor.get() == self.end.get();
        let is_small = self.spec.unit <= LARGEST_UNIT || weakened!("guests_of_any_size");
        if is_used_up && is_small && env.may_host() && self.guests.begins() {
            self.direct.set(ptr::null());
        }
    }

    /// Makes room for a guest in the free list. A heap that is open and does not host begins to
    /// host. Returns `false` if the heap cannot host another guest now: the slot must then return
    /// to its unit.
    #[inline]
    pub(super) fn makes_room<E: PoolEnv>(&self, env: E) -> bool {
        let first = self.local.free.get();
        if self.is_hosting() {
            return first.is_null() || weakened!("guests_of_any_number");
        }
        // If the free list is empty, `behind` would stay null, as in a heap that does not host.
        if self.is_closed_to_guests() || first.is_null() || !env.may_host() {
            return false;
        }
        self.behind.set(first);
        self.local.free.set(ptr::null_mut());
        true
    }

    /// Inspects a unit. If the unit is sparse, closes the heap for a long pause. The front is never
    /// sparse, because the heap does not know how many of its slots are live. Also closes the heap
    /// if it may no longer host, because its family now has a limit.
    pub(super) fn close_if_sparse<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        self.guests.inspected();
        let is_sparse = !self.is_front(unit) && unit.live() < unit.slots() / SPARSE;
        if is_sparse && !weakened!("guests_of_sparse_units") {
            self.guests.pause_for_sparse_units();
            self.dismiss_guest(env);
        } else if !env.may_host() {
            self.dismiss_guest(env);
        }
    }

    /// Handles a miss: moves `first`, the first slot in `behind`, to the empty free list. If guests
    /// do not pay, moves all slots and closes the heap. If `first` is the only slot, closes the
    /// heap without a pause.
    pub(super) fn move_from_behind(&self, first: *mut u8) {
        self.local.free.set(first);
        // SAFETY: H1: the caller owns the heap. H3: the slots in `behind` are free.
        let second = unsafe { link_of(first) };
        if second.is_null() || !self.guests.misses() {
            self.close_to_guests();
            return;
        }
        // SAFETY: H1: the caller owns the heap. H3: the slot is free, and was just taken off its
        // list.
        unsafe { write_link(first, ptr::null_mut()) };
        self.behind.set(second);
    }

    /// Returns the guest, if there is one. Only the owner may call this.
    pub(crate) fn guest(&self) -> Option<NonNull<u8>> {
        let is_hosting = self.is_hosting() && !weakened!("guests_count_as_live");
        let mut slots = linked(if is_hosting { self.local.free.get() } else { ptr::null_mut() });
        slots.find_map(|slot| NonNull::new(slot).filter(|&slot| !self.is_in_front(slot)))
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
        let (mut all, mut guest) = (self.behind.get(), None);
        if weakened!("slots_behind_are_lost") {
            all = ptr::null_mut();
        }
        let mut at = self.local.free.get();
        while let Some(slot) = NonNull::new(at) {
            // SAFETY: H3: linked slots are free, and the caller owns the heap.
            at = unsafe { link_of(slot.as_ptr()) };
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
        let until = unsafe { unit.push(guest, (LINK, Reach::Slot)) };
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
