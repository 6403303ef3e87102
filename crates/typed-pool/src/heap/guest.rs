//! Guests: freed slots that the next allocation takes although they are slots of other units.
//!
//! A program that replaces blocks frees one, and then allocates one of the same class. The freed
//! slot is in the caches of the core. It is usually a slot of a unit other than the front, though,
//! and the slots of the front were freed long ago. So a heap may *host* the freed slot: it moves
//! the free slots of the front *behind* the guest, and pushes the guest to the list from which an
//! allocation takes its slot.
//!
//! ```text
//!   closed              free --> f1 --> f2 --> null     behind: null     slots of the front
//!   a free of g         free --> g --> null             behind --> f1 --> f2
//!   an allocation: g    free --> null                   behind --> f1 --> f2
//!   a free of h         free --> h --> null             behind --> f1 --> f2
//! ```
//!
//! While the heap hosts, the list has at most one guest, because a free adds one only to an empty
//! list. The list may also have slots of the front that were freed since. The unit of a guest
//! counts it as live.
//!
//! Guests pay only if a free is usually followed by an allocation of its class. They do harm if
//! most units are sparse: those would become empty if their slots were not allocated again and
//! again. [`GuestCredit`](super::guest_credit::GuestCredit) finds out both, and closes a heap to
//! guests.

use core::ptr::{self, NonNull};

use ephemera_prim::account::Account;
use ephemera_prim::header::{base_addr, header_of};

use super::{PoolEnv, UnitHeap};
use crate::local_frees::{LINK, Reach, link_of, linked, write_link};
use crate::unit::{Unit, UnitPtr};

/// The largest unit, in bytes, whose slots may be guests. A guest keeps its unit from being freed
/// until the next allocation of its class, or a trim.
const LARGEST_UNIT: usize = if cfg!(ephemera_weaken = "guests_of_any_size") { usize::MAX } else { 64 << 10 };

/// A unit is sparse if less than 1/`SPARSE` of its slots are live.
const SPARSE: usize = 4;

impl UnitHeap {
    /// Returns whether a free of a slot of a unit with this owner word writes the words of the
    /// unit: this heap owns the unit, and is closed to guests.
    #[inline]
    pub(crate) fn frees_to(&self, owner: *const ()) -> bool {
        self.direct.get() == owner
    }

    /// Returns whether the heap is closed to guests. A heap that never had a front is not.
    #[inline]
    pub(crate) fn is_closed_to_guests(&self) -> bool {
        !self.direct.get().is_null()
    }

    /// Returns whether the heap hosts, on any thread. It may have a guest then.
    pub(crate) fn is_hosting(&self) -> bool {
        !self.behind.get().is_null()
    }

    fn close_to_guests(&self) {
        self.behind.set(ptr::null_mut());
        self.direct.set(ptr::from_ref(self).cast());
    }

    /// Opens the heap to guests after a unit became the front, unless they do not pay. A front with
    /// slots that were never used hosts none, because the program does not need the free slots of
    /// other units yet.
    #[inline]
    pub(super) fn open_to_guests<E: PoolEnv>(&self, env: E) {
        let is_used_up = self.cursor.get() == self.end.get();
        if is_used_up && self.spec.unit <= LARGEST_UNIT && env.may_host() && self.guests.begins() {
            self.direct.set(ptr::null());
        }
    }

    /// Makes room for a guest. Returns `false` if the heap does not host one now.
    #[inline]
    pub(super) fn makes_room<E: PoolEnv>(&self, env: E) -> bool {
        let first = self.local.free.get();
        if self.is_hosting() {
            return first.is_null() || cfg!(ephemera_weaken = "guests_of_any_number");
        }
        // The next allocation of a heap without a free slot takes the slow path.
        if self.is_closed_to_guests() || first.is_null() || !env.may_host() {
            return false;
        }
        self.behind.set(first);
        self.local.free.set(ptr::null_mut());
        true
    }

    /// Closes the heap to guests, for a pause, if this unit is sparse or a limit was set.
    pub(super) fn close_if_sparse<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        self.guests.inspected();
        let is_sparse = unit.live() < unit.slots() / SPARSE;
        if is_sparse && !cfg!(ephemera_weaken = "guests_of_sparse_units") || !env.may_host() {
            self.guests.pause();
            self.dismiss_guest(env);
        }
    }

    /// Moves slots of the front to the empty free list: one slot if the heap goes on hosting, or
    /// else all of them. `first` is the first slot behind the guest.
    pub(super) fn move_from_behind(&self, first: *mut u8) {
        self.local.free.set(first);
        // SAFETY: H9: the slots behind a guest are free, and the caller owns the heap.
        let second = unsafe { link_of(first) };
        if second.is_null() || !self.guests.misses() {
            self.close_to_guests();
            return;
        }
        // SAFETY: H9: the slot is free, and it was just taken off its list.
        unsafe { write_link(first, ptr::null_mut()) };
        self.behind.set(second);
    }

    /// Returns the guest, if the free list has one. Only the owner may call this.
    pub(crate) fn guest(&self) -> Option<NonNull<u8>> {
        let is_hosting = self.is_hosting() && !cfg!(ephemera_weaken = "guests_count_as_live");
        let mut slots = linked(if is_hosting { self.local.free.get() } else { ptr::null_mut() });
        slots.find_map(|slot| NonNull::new(slot).filter(|&slot| !self.is_in_front(slot)))
    }

    /// Returns the number of guests, 0 or 1. Only the owner may call this.
    pub(crate) fn guests(&self) -> usize {
        usize::from(self.guest().is_some())
    }

    /// Returns whether a slot of this heap is one of this unit.
    pub(crate) fn is_in(&self, unit: UnitPtr, slot: NonNull<u8>) -> bool {
        base_addr(slot, self.spec.unit) == unit.as_ptr().addr()
    }

    fn is_in_front(&self, slot: NonNull<u8>) -> bool {
        base_addr(slot, self.spec.unit) == self.front.get().addr()
    }

    /// Closes the heap to guests, and gives the guest to its unit. The slots behind the guest
    /// return to the free list. This calls no backing allocator: if the unit becomes empty, the
    /// heap keeps it.
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
        if cfg!(ephemera_weaken = "slots_behind_are_lost") {
            all = ptr::null_mut();
        }
        let mut at = self.local.free.get();
        while let Some(slot) = NonNull::new(at) {
            // SAFETY: H3: linked slots are free, and the caller owns the heap.
            at = unsafe { link_of(slot.as_ptr()) };
            if self.is_in_front(slot) {
                // SAFETY: the slot was just taken off the list.
                unsafe { write_link(slot.as_ptr(), all) };
                all = slot.as_ptr();
            } else {
                guest = Some(slot);
            }
        }
        self.local.free.set(all);
        self.close_to_guests();
        let Some(guest) = guest.filter(|_| !cfg!(ephemera_weaken = "guests_are_lost")) else { return };
        // SAFETY: units are aligned to their mask, start with a `Unit`, and were exposed when they
        // were created. The unit of a guest counts it as live, so it is not freed (H4).
        let header = unsafe { header_of::<Unit>(guest, self.spec.unit) };
        // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
        let unit = unsafe { UnitPtr::new(header) };
        // SAFETY: the guest is a slot of this unit and on no list any more. The pointers of a
        // list may access their whole slots.
        let until = unsafe { unit.push(guest, (LINK, Reach::Slot)) };
        env.sub_live(1);
        let live = unit.live();
        if until == 0 && live != 0 {
            self.enqueue(unit, live);
        } else if until == 0 {
            // The next unit that becomes empty frees the surplus.
            self.unlist(unit);
            unit.rewind(self.spec);
            self.push_empty(unit);
            env.account().spare();
        }
    }
}
