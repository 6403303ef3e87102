//! The heap: slots of one kind, of one owner.
//!
//! ```text
//!   free, cursor, end        the free slots of the front, linked, and those never handed out
//!   front    --> unit        what is allocated from, until nothing in it is free
//!   queue    --> units       the next fronts, oldest first: as a rule an eighth of each is free
//!   full     --> units       less than an eighth of each is free
//!   empties  --> units       nothing in them is alive
//!   units    <-> all units, wherever else they are or are not
//! ```
//!
//! `fast` has what every allocation and free goes through, `slow` how fronts are found and units come and go, `list` the
//! owner's lists, `abandon` the units of ended threads, `large` what has no units.

#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
mod abandon;
mod fast;
mod large;
mod list;
mod slow;

#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
pub(crate) use abandon::drain;
pub(crate) use fast::give;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
pub(crate) use fast::mark_free;
pub(crate) use large::{allocate_large, deallocate_large};
#[cfg(all(feature = "std", not(ephemera_loom)))]
pub(crate) use large::{deallocate_unbooked, grow_large, shrink_large};
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
pub(crate) use slow::book;
#[cfg(all(feature = "std", not(ephemera_loom), target_has_atomic = "64"))]
pub(crate) use slow::refill_beyond;
pub(crate) use slow::{refill, reserve, reserved, trim};

use core::cell::Cell;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::Allocator;
use ephemera_prim::unit_list::UnitList;
use ephemera_prim::witness::Witness;

use crate::account::Account;
use crate::geometry::Spec;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
use crate::group::GroupPtr;
use crate::unit::{Unit, UnitPtr};

/// Empty units that a heap keeps at least, before it gives others back.
pub(crate) const RETAIN: usize = 4;

/// How many slots are taken from the backing allocator at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkLen {
    /// 64, then with each unit held twice as many, up to what fits a unit.
    Grows,
    /// Always so many: a shorter unit, or several whole ones. None are one.
    Fixed(usize),
}

/// No more units are taken at once, however long a chunk is to be.
pub(crate) const CHUNK_UNITS: usize = 64;

/// Slots of the first unit of a pool that grows by itself.
pub(crate) const FIRST_LEN: usize = 64;

/// The heap's own words. They hold no memory by themselves: whoever has the heap gives units back first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Heap {
    // What every allocation and free looks at.
    free: Cell<*mut u8>,
    cursor: Cell<*mut u8>,
    end: Cell<*mut u8>,
    front: Cell<*mut Unit>,
    spec: Spec,
    // What the slow path looks at.
    /// Units that no scrape has visited since they ran full.
    full: Cell<*mut Unit>,
    queue: Cell<*mut Unit>,
    queue_end: Cell<*mut Unit>,
    empties: Cell<*mut Unit>,
    empties_len: Cell<usize>,
    /// Empty units to keep: `RETAIN`, those that were there from the start, and one more for each that was given back and then missed.
    keep: Cell<usize>,
    given_back: Cell<usize>,
    units_len: Cell<usize>,
    chunk_len: ChunkLen,
    units: UnitList<Unit>,
    /// How many full units scrapes have visited.
    #[cfg(test)]
    pub(crate) scraped: Cell<usize>,
    /// Of the words above, for models: what one owner writes is ordered behind what the last one wrote.
    owned: Witness,
}

impl Heap {
    ephemera_prim::const_unless_loom! {
        /// A heap without units.
        pub(crate) fn new(spec: Spec, chunk_len: ChunkLen) -> Self {
            Self {
                free: Cell::new(ptr::null_mut()),
                cursor: Cell::new(ptr::null_mut()),
                end: Cell::new(ptr::null_mut()),
                front: Cell::new(ptr::null_mut()),
                spec,
                full: Cell::new(ptr::null_mut()),
                queue: Cell::new(ptr::null_mut()),
                queue_end: Cell::new(ptr::null_mut()),
                empties: Cell::new(ptr::null_mut()),
                empties_len: Cell::new(0),
                keep: Cell::new(RETAIN),
                given_back: Cell::new(0),
                units_len: Cell::new(0),
                chunk_len,
                units: UnitList::new(),
                #[cfg(test)]
                scraped: Cell::new(0),
                owned: Witness::new(),
            }
        }
    }

    /// A slot of the front given back last, or else one never handed out. For a value of `size` bytes.
    #[inline]
    pub(crate) fn take(&self, size: usize) -> Option<NonNull<u8>> {
        fast::take(self, size)
    }

    /// Calls `visit` for every unit, on any thread. Returns `false` if some were not visited: another walker stood in
    /// the way for long, or units came and went too fast.
    pub(crate) fn walk(&self, mut visit: impl FnMut(UnitPtr)) -> bool {
        // SAFETY: U1: a unit lives while it is visited (W2).
        self.units.walk(|unit| visit(unsafe { UnitPtr::new(unit) }))
    }

    /// Where its slots lie in their units.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    pub(crate) fn spec(&self) -> Spec {
        self.spec
    }

    #[inline]
    fn front(&self) -> Option<UnitPtr> {
        // SAFETY: U1: a front is not freed before it stops being the front (H2).
        unsafe { UnitPtr::from_raw(self.front.get()) }
    }

    /// Slots of each of the next units, and how many units come at once.
    #[inline]
    fn next_chunk(&self) -> (usize, usize) {
        let whole = self.spec.slots;
        match self.chunk_len {
            ChunkLen::Grows => (whole.min(FIRST_LEN << self.units_len.get().min(16)), 1),
            ChunkLen::Fixed(len) if len <= whole => (len.max(1), 1),
            ChunkLen::Fixed(len) => (whole, len.div_ceil(whole).min(CHUNK_UNITS)),
        }
    }
}

#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests;

/// What a heap stands in: whose it is and where its units come from.
///
/// # Safety
/// `heap` returns one heap, which the calling thread owns (H1); its units all came from `backing`. `owns` is true exactly of units of that
/// heap. `backing` stays valid and equivalent throughout.
pub(crate) unsafe trait Env: Copy {
    type Backing: Allocator;
    type Account: Account;

    fn heap(&self) -> &Heap;
    fn backing(&self) -> &Self::Backing;
    fn account(&self) -> &Self::Account;
    /// The identity that units of this heap carry.
    fn identity(&self) -> *const ();
    /// Whether this heap's owner may write the words of `unit`.
    fn owns(&self, unit: UnitPtr) -> bool;
    /// Books what other threads gave back.
    fn settle(self);
    /// What other threads gave back, group by group. The caller books all of it.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    fn mail(self) -> impl Iterator<Item = (GroupPtr, u64)>;
    /// Gives back the empty units of other heaps, before a request is refused.
    fn last_resort(self);
    /// Gives back a slot of a unit that another owner has.
    ///
    /// # Safety
    /// `block` is a slot of `unit`, which the caller has and gives up; `unit` is not owned.
    unsafe fn give_back(self, unit: UnitPtr, block: NonNull<u8>);
}
