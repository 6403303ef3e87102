//! A unit: its header, and the pointer by which the heap reaches it.
//!
//! ```text
//!  base (aligned to the mask of its slots)
//!  | line 1: free list, until, slack, | line 2: owner, slots, | more   | slot | slot | slot | not handed out yet ...
//!  |         cursor, links            |         group of bits  | groups |                    ^cursor
//!    the owner alone writes here        other threads write to the groups
//! ```
//!
//! A slot has no header. A free slot that is linked starts with the pointer to the next one.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use ephemera_prim::poison::poison;
use ephemera_prim::raw;
use ephemera_prim::unit_list::Listed;
use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use crate::geometry::{LINK, Spec};
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
use crate::group::Groups;

/// The header of a unit. Never borrowed as a whole: each field by itself, through [`UnitPtr`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Unit {
    free: Cell<*mut u8>,
    until: OwnerUsize,
    slack: OwnerUsize,
    place: OwnerUsize,
    cursor: Cell<*mut u8>,
    after: Cell<*mut Unit>,
    before: Cell<*mut Unit>,
    next: OwnerPtr<Unit>,
    remote: Remote,
}

// SAFETY: the addresses of two fields; `&raw` makes no reference.
unsafe impl Listed for Unit {
    unsafe fn next(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is alive.
        let field = unsafe { &raw mut (*unit.as_ptr()).next };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }

    unsafe fn prev(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is alive.
        let field = unsafe { &raw mut (*unit.as_ptr()).remote.prev };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }
}

/// The line that other threads write to. It also holds words that hardly ever change, because remote frees read
/// this line anyway, and `prev`, for which the owner's line has no room.
#[derive(Debug)]
#[repr(C, align(64))]
struct Remote {
    /// The address of a heap, and [`ABANDONED`].
    owner: OwnerPtr<()>,
    slots: usize,
    prev: OwnerPtr<Unit>,
    /// The first group; others stand behind it. In a pool for one thread it is of no use.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    groups: Groups,
}

/// The bit of a unit's owner word that marks an abandoned unit. Its heap's owner then frees its slots as other
/// threads do, because countdowns count the frees that arrive in the foreign words.
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
const ABANDONED: usize = 1;

/// Bytes of a unit that its header takes, with one group.
const HEADER_OF_ONE: usize = size_of::<Unit>();

/// Bytes of a unit that its header takes, with so many groups.
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
pub(crate) const fn header(groups: usize) -> usize {
    let bytes = core::mem::offset_of!(Unit, remote.groups) + Groups::bytes(groups);
    if bytes < HEADER_OF_ONE { HEADER_OF_ONE } else { bytes }
}

/// As above; here all pools are for one thread.
#[cfg(not(all(any(feature = "std", ephemera_loom), target_has_atomic = "64")))]
pub(crate) const fn header(_: usize) -> usize {
    HEADER_OF_ONE
}

#[cfg(not(ephemera_loom))]
const _: () = assert!(HEADER_OF_ONE == 128, "a header is two cache lines");

/// Where a unit is in its heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The front: its free slots are the heap's.
    Front = 0,
    /// It had no free slot when it stopped being the front, and fewer than an eighth are free now.
    /// On the list of full units.
    Full = 1,
    /// The same, but a scrape has visited it and found no free slot: its next free slot queues it.
    /// On none of the lists here.
    Visited = 2,
    /// In the queue of units to become the front.
    Partial = 3,
    /// It has no live slot. On the stack of empties.
    Empty = 4,
    /// In the queue too. Its thread ended, and some of its groups may count down.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    Abandoned = 5,
}

/// A pointer to a unit.
///
/// # Invariant
/// **U1** It points at the header of a unit that is not freed for as long as the pointer is used, and it may access the
/// whole unit. Whoever makes one sees to that; methods rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitPtr(NonNull<Unit>);

impl UnitPtr {
    /// # Safety
    /// U1.
    #[inline]
    pub(crate) unsafe fn new(unit: NonNull<Unit>) -> Self {
        Self(unit)
    }

    /// # Safety
    /// U1, unless the pointer is null.
    #[inline]
    pub(crate) unsafe fn from_raw(unit: *mut Unit) -> Option<Self> {
        NonNull::new(unit).map(Self)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Unit {
        self.0.as_ptr()
    }

    /// Makes an empty unit of fresh memory.
    ///
    /// # Safety
    /// `memory` was acquired with the layout of `spec` for that many slots and is the caller's alone.
    pub(crate) unsafe fn create(memory: NonNull<u8>, spec: Spec, slots: usize, owner: *const ()) -> Self {
        let unit = memory.cast::<Unit>();
        raw::expose(unit.as_ptr());
        let header = Unit {
            free: Cell::new(ptr::null_mut()),
            until: OwnerUsize::new(0),
            slack: OwnerUsize::new(0),
            place: OwnerUsize::new(Place::Empty as usize),
            cursor: Cell::new(ptr::null_mut()),
            after: Cell::new(ptr::null_mut()),
            before: Cell::new(ptr::null_mut()),
            next: OwnerPtr::null(),
            remote: Remote {
                owner: OwnerPtr::new(owner.cast_mut()),
                slots,
                prev: OwnerPtr::null(),
                #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
                groups: Groups::new(spec, slots),
            },
        };
        // SAFETY: the memory is the caller's, aligned to the unit's size and larger than a header.
        unsafe { unit.write(header) };
        let this = Self(unit);
        #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
        this.make_groups();
        this.rewind(spec);
        this
    }

    /// The free slots that are linked. Null while the unit is a front, whose free slots are the heap's.
    #[inline]
    pub(crate) fn free(&self) -> &Cell<*mut u8> {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).free }
    }

    /// The first slot that was never handed out. Of no meaning while the unit is a front.
    pub(crate) fn cursor(&self) -> &Cell<*mut u8> {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).cursor }
    }

    /// How many slots must still come home until something is to be done with this unit, which is no front.
    #[inline]
    pub(crate) fn until(&self) -> &OwnerUsize {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).until }
    }

    /// How many slots are out beyond those of `until`. Zero in all units that are not full.
    pub(crate) fn slack(&self) -> &OwnerUsize {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).slack }
    }

    /// The next full unit, unit in the queue, or empty unit, by the list that this unit is on.
    pub(crate) fn after(&self) -> &Cell<*mut Unit> {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).after }
    }

    /// The unit before it, among the full units or in the queue.
    pub(crate) fn before(&self) -> &Cell<*mut Unit> {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).before }
    }

    /// The unit as [`UnitList`](ephemera_prim::unit_list::UnitList) takes it.
    pub(crate) fn as_non_null(self) -> NonNull<Unit> {
        self.0
    }

    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    fn owner_word(&self) -> &OwnerPtr<()> {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).remote.owner }
    }

    /// Whether the unit is of the heap at this address, and not abandoned: the heap's owner may then write its words.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    pub(crate) fn is_owned_by(self, heap: *const ()) -> bool {
        self.owner_word().get().cast_const() == heap
    }

    /// The address of the heap that the unit is of.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    pub(crate) fn owner(self) -> *const () {
        self.owner_word().get().map_addr(|addr| addr & !ABANDONED)
    }

    /// Marks the unit as abandoned, or as not abandoned any more.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    pub(crate) fn set_abandoned(self, abandoned: bool) {
        let tagged = abandoned && !cfg!(ephemera_weaken = "abandoned_units_are_owned");
        let tag = if tagged { ABANDONED } else { 0 };
        self.owner_word().set(self.owner().cast_mut().map_addr(|addr| addr | tag));
    }

    /// How many slots it has.
    #[inline]
    pub(crate) fn slots(self) -> usize {
        // SAFETY: U1; `slots` never changes.
        unsafe { (*self.as_ptr()).remote.slots }
    }

    /// What it has for other threads.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    pub(crate) fn remote_groups(self) -> *mut Groups {
        // SAFETY: U1; the field's address, no reference.
        unsafe { &raw mut (*self.as_ptr()).remote.groups }
    }

    fn place_word(&self) -> &OwnerUsize {
        // SAFETY: U1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).place }
    }

    pub(crate) fn place(self) -> Place {
        match self.place_word().get() {
            0 => Place::Front,
            1 => Place::Full,
            2 => Place::Visited,
            3 => Place::Partial,
            #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
            5 => Place::Abandoned,
            _ => Place::Empty,
        }
    }

    pub(crate) fn set_place(self, place: Place) {
        self.place_word().set(place as usize);
    }

    /// How many slots are out, foreign frees that are not booked yet among them. Not for a front.
    pub(crate) fn live(self) -> usize {
        self.until().get() + self.slack().get()
    }

    /// `until` and `slack` for a unit with that many slots out, of which `until` must come home until it is looked at.
    pub(crate) fn set_live(self, live: usize, until: usize) {
        self.until().set(until);
        self.slack().set(live - until);
    }

    /// How many slots other threads gave back that are not booked yet: none of a pool for one thread.
    #[cfg(not(all(any(feature = "std", ephemera_loom), target_has_atomic = "64")))]
    pub(crate) fn unbooked(self) -> usize {
        0
    }

    /// All slots of it that are free and were handed out before, linked: the unit becomes the front.
    pub(crate) fn take_free(self, spec: Spec) -> *mut u8 {
        let free = self.free().replace(ptr::null_mut());
        #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
        let free = if cfg!(ephemera_weaken = "home_stays") { free } else { self.link_home(spec, free) };
        let _ = spec;
        free
    }

    /// A pointer to this offset of the unit, with the right to all of it.
    #[inline]
    pub(crate) fn at(self, offset: usize) -> *mut u8 {
        self.as_ptr().cast::<u8>().wrapping_add(offset)
    }

    /// Nothing in it is alive: all of its slots are as if never handed out.
    pub(crate) fn rewind(self, spec: Spec) {
        self.free().set(ptr::null_mut());
        #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
        self.forget_home();
        let first = spec.first(self.slots());
        self.cursor().set(self.at(first));
        self.set_live(0, 0);
        self.set_place(Place::Empty);
        // SAFETY: an address behind the header is not null.
        let place = unsafe { NonNull::new_unchecked(self.at(first)) };
        // SAFETY: behind the header lie the slots, none of which anybody has.
        unsafe { poison(place, self.slots() * spec.stride) };
    }

    /// The unit goes back to the backing allocator: nobody else may touch it from here.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        ephemera_prim::invariant!(self.place() == Place::Empty, "a unit with live slots goes back");
        #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
        self.end_groups();
        self.0.cast()
    }
}

/// The slot that a free slot links to.
///
/// # Safety
/// `slot` is a free slot, linked, and the caller owns the list that it is on.
#[inline]
pub(crate) unsafe fn link_of(slot: *mut u8) -> *mut u8 {
    // SAFETY: a free slot starts with its link; slots are aligned to that.
    unsafe { slot.cast::<*mut u8>().read() }
}

/// Makes a free slot link to `next`.
///
/// # Safety
/// `slot` is a slot of a unit that nobody has, by a pointer that may write to it, and the caller owns its unit.
#[inline]
pub(crate) unsafe fn write_link(slot: *mut u8, next: *mut u8) {
    // SAFETY: the slot has room for a link, is aligned to it, and is the caller's.
    unsafe { slot.cast::<*mut u8>().write(next) };
}

/// What a pointer to a block that is given back may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All that later values of its slot will be: the slots of its heap are for values of one type.
    Slot,
    /// The block alone, which may be smaller than the next one in its slot.
    #[cfg(all(feature = "std", not(ephemera_loom), target_has_atomic = "64"))]
    Block,
}

/// Makes `block` a free slot that links to `next`. Returns the slot, by a pointer with the right to all that it will hold.
///
/// The link goes through the caller's own pointer where that may write one: it may be all that the rules of borrowing let touch the block. For
/// the slot the caller's pointer will do where it reaches that far. Else it is one made of the address: the same bits, and nothing to compute.
///
/// # Safety
/// `block` is a slot of a unit, of a value of `size` bytes, which the caller has and gives up; `reach` is true of it.
#[inline]
pub(crate) unsafe fn link(block: NonNull<u8>, size: usize, reach: Reach, next: *mut u8) -> *mut u8 {
    let own = if size >= LINK && reach == Reach::Slot {
        block.as_ptr()
    } else {
        // SAFETY: the unit was exposed when it was made, and is not freed (H4).
        unsafe { raw::with_exposed(block.addr().get()) }
    };
    let through = if size >= LINK { block.as_ptr() } else { own };
    // SAFETY: nobody has the slot any more, its unit is the caller's (H1), and a block of a link's size may be written by its own pointer, any other by
    // the exposed one.
    unsafe { write_link(through, next) };
    own
}
