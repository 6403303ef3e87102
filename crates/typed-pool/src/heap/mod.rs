//! The heap: the units of one owner, which all have the same layout, and their free slots.
//!
//! ```text
//!   free, cursor, end        the guest, and the free slots of the front: linked, and never used
//!   behind                   linked free slots of the front that the heap withholds while it hosts
//!   front    --> unit        the heap allocates from it until no slot is free
//!   queue    --> units       the next fronts: each unit has a free slot
//!   full     --> units       full units: too few of their slots are free again (`SHARE`)
//!   empties  --> units       units without a live slot
//!   units    <-> all units, whether they are on another list or not
//! ```
//!
//! Each file uses `mod.rs` and the files to its left:
//!
//! ```text
//!   kept, guest_credit, list, selection   rest, shown_front   guest   front   supply
//!   abandon, inspect   fast   host   slow
//! ```
//!
//! `fast` contains the fast paths, and `slow` the slow path of an allocation. `supply` requests
//! units and frees them, and `kept` finds empty units that the load does not need. `rest` delays
//! the reuse of units that other threads emptied. `list` contains the owner's lists. `front`
//! manages the unit that the heap allocates from. `selection` decides whether frees branch on the
//! front, and `shown_front` is the switch. `guest`, `guest_credit` and `host` let an allocation
//! take a freed slot of another unit. `inspect` contains the slow path of a local free. `abandon`
//! handles the units of threads that ended or left their scope.

pub(crate) mod abandon;
pub(crate) mod fast;
mod front;
mod guest;
mod guest_credit;
mod host;
mod inspect;
mod kept;
mod list;
mod rest;
pub(crate) mod selection;
mod shown_front;
pub(crate) mod slow;
pub(crate) mod supply;

pub(crate) use fast::give;
pub(crate) use slow::{refill, reserve};
pub(crate) use supply::trim;

use core::cell::Cell;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::Allocator;
use ephemera_prim::account::Account;
use ephemera_prim::unit_list::UnitList;
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerPtr;

use crate::geometry::{UNIT_MIN, UnitSpec};
use crate::local_frees::{LocalFrees, Reach};
use crate::slot_group::SlotGroupPtr;
use crate::unit::{Unit, UnitPtr};
use guest_credit::GuestCredit;
use kept::KeptUnits;
use selection::RecentFrees;

/// The number of slots that a heap requests at a time from its backing allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkLen {
    /// 64 slots at first. The number doubles with each unit that the heap holds, up to a whole
    /// unit. Some heaps request whole units from the start ([`UnitHeap::next_chunk`]).
    Grows,
    /// A fixed number of slots; 0 means 1. Each request is for one unit, or for several whole units
    /// if the slots do not fit in one.
    Fixed(usize),
}

/// The relation of a heap's front to the current scope. For a heap outside of scopes, this is
/// always [`Own`](Self::Own).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrontScope {
    /// The current scope made this unit the front, or inherited it when it had no free slot, or the
    /// heap has no front.
    Own,
    /// An earlier scope set the front aside, and the current one has not inherited it.
    Aside,
    /// An earlier scope set the front aside, and the current one inherited it with a free slot.
    Earlier,
}

/// Says which units a heap leaves for the next scope when its scope ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftUnits {
    /// Whether the heap sets its front aside without counting it. A finished scope counts its
    /// fronts, because it reports how many bytes it still holds. To count a front, the heap follows
    /// the links of all freed slots in it.
    pub(crate) aside: bool,
    /// Whether the heap also keeps the units that earlier scopes left and that this scope did not
    /// use.
    pub(crate) unused: bool,
}

/// The maximum number of units in one request.
pub(crate) const CHUNK_UNITS: usize = 64;

/// The number of slots in the first unit of a heap with [`ChunkLen::Grows`], unless it starts with
/// whole units.
pub(crate) const FIRST_LEN: usize = 64;

/// A heap: the units of one owner, and the free slots from which it allocates. Dropping a heap does
/// not free its units. Units that the owner has not freed before the drop are leaked.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct UnitHeap {
    // The words of the fast paths.
    local: LocalFrees,
    cursor: Cell<*mut u8>,
    end: Cell<*mut u8>,
    front: Cell<*mut Unit>,
    /// The pointer with which a free first compares the address of its unit: the front, or, while
    /// frees select, an address that no unit has (`shown_front`).
    shown: Cell<*mut Unit>,
    /// While the heap hosts, the list of the front's linked slots that allocations get after a
    /// miss, or a marker that there are none. Otherwise null.
    behind: OwnerPtr<u8>,
    spec: UnitSpec,
    // The words of the slow path.
    guests: GuestCredit,
    /// Whether the heap is open to guests. A heap whose frees may select is never open.
    is_open: Cell<bool>,
    scope_of_front: Cell<FrontScope>,
    /// The largest number of units, up to 255, that the heap had when a scope was dropped. A trim
    /// resets it to zero, and so does the end of a scope that leaves the heap without units.
    grown: Cell<u8>,
    /// The list of full units that no scrape has visited since they became full.
    full: Cell<*mut Unit>,
    queue: Cell<*mut Unit>,
    queue_end: Cell<*mut Unit>,
    empties: Cell<*mut Unit>,
    empties_len: Cell<usize>,
    kept: KeptUnits,
    units_len: Cell<usize>,
    /// The total number of slots in all units.
    slots_len: Cell<usize>,
    chunk_len: ChunkLen,
    units: UnitList<Unit>,
    /// The number of full units that scrapes have visited.
    #[cfg(test)]
    pub(crate) scraped: Cell<usize>,
    /// The witness of the words above: a model fails if an owner's writes are not ordered after the
    /// writes of the previous owner.
    owned: Witness,
}

impl UnitHeap {
    ephemera_prim::const_unless_loom! {
        /// Creates a heap without units.
        pub(crate) fn new(spec: UnitSpec, chunk_len: ChunkLen) -> Self {
            Self {
                local: LocalFrees::new(),
                cursor: Cell::new(ptr::null_mut()),
                end: Cell::new(ptr::null_mut()),
                front: Cell::new(ptr::null_mut()),
                shown: Cell::new(ptr::null_mut()),
                behind: OwnerPtr::null(),
                spec,
                guests: GuestCredit::new(),
                is_open: Cell::new(false),
                scope_of_front: Cell::new(FrontScope::Own),
                full: Cell::new(ptr::null_mut()),
                queue: Cell::new(ptr::null_mut()),
                queue_end: Cell::new(ptr::null_mut()),
                empties: Cell::new(ptr::null_mut()),
                empties_len: Cell::new(0),
                kept: KeptUnits::new(spec.kept()),
                units_len: Cell::new(0),
                slots_len: Cell::new(0),
                chunk_len,
                grown: Cell::new(0),
                units: UnitList::new(),
                #[cfg(test)]
                scraped: Cell::new(0),
                owned: Witness::new(),
            }
        }
    }

    /// Calls `visit` for every unit. Any thread may call this function. Returns `false` if the walk
    /// missed some units, because another walker blocked it for too long or the list changed too
    /// fast.
    pub(crate) fn walk(&self, mut visit: impl FnMut(UnitPtr)) -> bool {
        // SAFETY: U1: the walk protects the unit that it visits, and a protected unit is not freed
        // (W2).
        self.units.walk(|unit| visit(unsafe { UnitPtr::new(unit) }))
    }

    /// Returns the number of slots of all units. Only the owner may call this.
    pub(crate) fn slots_len(&self) -> usize {
        self.slots_len.get()
    }

    /// Returns the number of live slots of the front, or 0 if there is no front. Only the owner may
    /// call this.
    pub(crate) fn live_in_front(&self) -> usize {
        self.front().map_or(0, |unit| unit.slots() - self.free_in_front())
    }

    /// Returns whether the heap hosts, and may therefore have a guest. Any thread may call this
    /// function, but only the owner's answer is up to date.
    pub(crate) fn is_hosting(&self) -> bool {
        !self.behind.get().is_null()
    }

    /// Returns whether there is a front. Only the owner may call this.
    pub(crate) fn has_front(&self) -> bool {
        !self.front.get().is_null()
    }

    pub(crate) fn spec(&self) -> UnitSpec {
        self.spec
    }

    pub(crate) fn kept(&self) -> &KeptUnits {
        &self.kept
    }

    #[inline]
    fn front(&self) -> Option<UnitPtr> {
        // SAFETY: U1: a unit is not freed while it is the front (H2).
        unsafe { UnitPtr::from_raw(self.front.get()) }
    }

    /// Returns the size of a unit of this heap in bytes.
    fn bytes_of(&self, unit: UnitPtr) -> usize {
        self.spec.end(unit.slots())
    }

    /// Returns the end of the last slot of the front, or null if there is no front.
    fn end_of_front(&self) -> *mut u8 {
        self.front().map_or(ptr::null_mut(), |unit| unit.at(self.bytes_of(unit)))
    }

    /// Returns the number of slots in each unit of the next request, and the number of units.
    ///
    /// A heap that requests whole units from the start has few units, so most frees are to the
    /// front. Units above [`UNIT_MIN`] start short, because the front of a sleeping thread is not
    /// purged, and because a whole unit has few more slots.
    #[inline]
    fn next_chunk<E: PoolEnv>(&self, env: E) -> (usize, usize) {
        let whole = self.spec.slots;
        let is_small = self.spec.unit <= UNIT_MIN || weakened!("large_units_start_whole");
        match self.chunk_len {
            ChunkLen::Grows if is_small && env.requests_whole_units() => (whole, 1),
            ChunkLen::Grows => {
                let units = self.units_len.get().max(usize::from(self.grown.get()));
                (whole.min(FIRST_LEN << units.min(16)), 1)
            }
            ChunkLen::Fixed(len) if len <= whole => (len.max(1), 1),
            ChunkLen::Fixed(len) => (whole, len.div_ceil(whole).min(CHUNK_UNITS)),
        }
    }
}

#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod guest_tests;
#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests;

/// The environment of a heap: its owner, and the allocator from which its units come.
///
/// # Safety
/// `heap` always returns the same heap, which the calling thread owns (H1), and all of its units
/// came from `backing`. `frees_to` returns `true` only for units of that heap. The allocator that
/// `backing` returns stays valid, and is always the same or an equivalent one.
pub(crate) unsafe trait PoolEnv: Copy {
    type Backing: Allocator;
    type Account: Account;

    fn heap(&self) -> &UnitHeap;
    fn backing(&self) -> &Self::Backing;
    fn account(&self) -> &Self::Account;
    /// Returns the owner word of this heap's units.
    fn identity(&self) -> *const ();
    /// Counts a unit of this size, in bytes, for the heap's scope. Returns the number of that
    /// scope, which becomes the unit's birth, or 0 if the heap has no scope.
    fn count_unit(&self, _bytes: usize) -> u64 {
        0
    }
    /// Subtracts a unit of this size, in bytes, and this birth from the scope that the unit counts
    /// for.
    fn uncount_unit(&self, _bytes: usize, _birth: u64) {}
    /// Returns whether the heap has no scope, or a unit with this birth counts for the heap's
    /// scope.
    #[inline]
    fn is_current(&self, _birth: u64) -> bool {
        true
    }
    /// Returns whether the heap may allocate from a unit that has this birth and live slots.
    #[inline]
    fn serves(&self, _birth: u64) -> bool {
        true
    }
    /// Adds to the number of live slots outside the front, including a guest, if the owner keeps
    /// that count.
    #[inline]
    fn add_live(&self, _slots: usize) {}
    /// Subtracts from the number of live slots outside the front, including a guest, if the owner
    /// keeps that count.
    #[inline]
    fn sub_live(&self, _slots: usize) {}
    /// Returns whether the fast path of a free may push a slot of `unit`. It may if the unit
    /// belongs to this heap and is neither abandoned nor counted, and the heap is not open to
    /// guests.
    fn frees_to(&self, unit: UnitPtr) -> bool;
    /// Whether frees may select their list without a branch ([`selection`]). The frees of a
    /// `TypedPool` always branch, because only a free to a unit other than the front changes the
    /// number of live slots outside the front ([`Self::sub_live`]).
    const MAY_SELECT: bool = false;
    /// Returns whether the heap's frees select.
    #[inline]
    fn selects(&self) -> bool {
        false
    }
    /// Notes where the heap's recent frees went. This may change the answer of
    /// [`Self::selects`].
    #[inline]
    fn note_frees(&self, _frees: RecentFrees) {}
    /// Returns whether the heap may host guests. It may not while its family has a limit: a guest
    /// pins its unit, and the request of another thread may need the memory of that unit.
    #[inline]
    fn may_host(&self) -> bool {
        true
    }
    /// Returns whether a short unit would save no memory, so that a heap with [`ChunkLen::Grows`]
    /// may request whole units from the start.
    #[inline]
    fn requests_whole_units(&self) -> bool {
        false
    }
    /// Returns whether the heap may grow to let its units rest.
    #[inline]
    fn may_rest(&self) -> bool {
        false
    }
    /// Books the remote frees that wait for this heap.
    fn book_mail(self);
    /// Takes the unbooked remote frees: each group with the value of its foreign word. The caller
    /// must book all of them.
    fn mail(self) -> impl Iterator<Item = (SlotGroupPtr, u64)>;
}

/// The environment of a heap from which a program allocates. It adds operations on other heaps to
/// [`PoolEnv`].
pub(crate) trait AllocEnv: PoolEnv {
    /// Returns whether a unit of this size would exceed the limit of the heap's scope, and a trim
    /// might prevent that.
    fn is_at_limit(&self, _bytes: usize) -> bool {
        false
    }
    /// Frees the empty units of all heaps on the same record.
    fn trim_all(self) {}
    /// Does the work for other threads that is part of a slow path.
    fn visit(self) {}
    /// Frees empty units, also units of other heaps, before the caller refuses a request.
    fn last_resort(self);
    /// Frees a slot that the fast path must not push ([`PoolEnv::frees_to`]).
    ///
    /// # Safety
    /// `block` is a live slot of `unit`, for a value of `freed.0` bytes, and `freed.1` is the reach
    /// of `block`. `mark_free` has poisoned the slot, and nothing uses it after this call.
    /// `frees_to(unit)` is false.
    unsafe fn give_back(self, unit: UnitPtr, block: NonNull<u8>, freed: (usize, Reach));
}
