//! The store: what a ring and its buffers share besides the regions. Its header is read by every release and written once, when
//! the ring is dropped, so it has a cache line of its own.
//!
//! ```text
//!  | closed, lot, link, plan, swept | (alignment) | guard | region ... | guard | region ... |
//!    the header: one line, read-only                ^first                                  ^first + end
//! ```
//!
//! A store on the heap is freed by the drop of its ring if nothing is held, else by a sweep (`ephemera_prim::park`). One in
//! given memory has no header in it: there is nothing to free, and its buffers share a static header that is never
//! closed.

use core::ptr::NonNull;
#[cfg(feature = "alloc")]
use core::{alloc::Layout, ptr};

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use ephemera_prim::park::Closed;
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::witness::Witness;
#[cfg(feature = "alloc")]
use ephemera_prim::{
    park::{Effort, Lot, Park},
    raw,
    sync::AtomicPtr,
    word::OwnerUsize,
};

use crate::checked;
#[cfg(feature = "alloc")]
use crate::geometry::{GRANULE, Plan};
use crate::geometry::{region_of, room};
use crate::guard::GuardPtr;

/// The header of a store. Never borrowed as a whole while other threads may free it: each field by itself.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Store {
    closed: Closed,
    witness: Witness,
    #[cfg(feature = "alloc")]
    heap: Heap,
}

/// What a store on the heap needs to be freed.
#[cfg(feature = "alloc")]
#[derive(Debug)]
struct Heap {
    /// Where the store is parked: outlives it.
    lot: *const Lot<Store>,
    link: AtomicPtr<Store>,
    plan: Plan,
    /// How far sweeps have found everything free. Behind the gate.
    swept: OwnerUsize,
}

// SAFETY: the fields are atomics, and plain words that never change once the store is made; the lot is shared between threads.
unsafe impl Sync for Store {}

#[cfg(all(not(ephemera_loom), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Store>() == 64, "the header is one cache line");

/// The parked stores of this process.
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
pub(crate) static LOT: Lot<Store> = Lot::new();

/// The header of all stores in given memory.
#[cfg(not(ephemera_loom))]
static GIVEN: Store = Store {
    closed: Closed::new(),
    witness: Witness::new(),
    #[cfg(feature = "alloc")]
    heap: Heap {
        lot: ptr::null(),
        link: AtomicPtr::new(ptr::null_mut()),
        plan: Plan { bytes: 0, align: 1, first: 0, end: 0 },
        swept: OwnerUsize::new(0),
    },
};

/// Up to so many parked stores, each release into one of them sweeps, and each ring that is made or dropped.
#[cfg(feature = "alloc")]
const FEW: usize = 8;

/// Frees parked stores whose buffers are all gone. One guard of each is looked at: as long as they are few, each is freed at its last
/// release, and what that one missed at the next call; beyond, with back-off.
#[cfg(feature = "alloc")]
#[inline]
pub(crate) fn sweep(lot: &Lot<Store>) {
    if lot.count() != 0 {
        lot.sweep(if lot.count() <= FEW { Effort::Full } else { Effort::Passing });
    }
}

/// A pointer to a store's header.
///
/// # Invariant
/// **S1** It points at a header that is not freed for as long as the pointer is used: by the ring, and by who holds a
/// buffer that is not released yet. Whoever makes one sees to that; methods rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorePtr(NonNull<Store>);

impl StorePtr {
    /// The header of stores that are not ours to free.
    #[cfg(not(ephemera_loom))]
    pub(crate) fn given() -> Self {
        Self(NonNull::from(&GIVEN))
    }

    /// Whether the memory is not ours, so that nobody may find marks of ours in it once it is given back.
    #[inline]
    fn is_given(self) -> bool {
        #[cfg(not(ephemera_loom))]
        return self == Self::given();
        #[cfg(ephemera_loom)]
        false
    }

    /// Whether its ring was dropped. Read before a release (P4).
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.witness().touch();
        // SAFETY: S1; a reference to the flag alone.
        let closed = unsafe { &(*self.0.as_ptr()).closed };
        cfg!(feature = "alloc") && closed.get()
    }

    fn witness(&self) -> &Witness {
        // SAFETY: S1; a reference to the witness alone, which has no size outside loom.
        unsafe { &(*self.0.as_ptr()).witness }
    }
}

#[cfg(feature = "alloc")]
impl StorePtr {
    /// A store of this plan, parked in `lot` when its time comes, and its first guard: of one free region.
    ///
    /// # Safety
    /// `lot` outlives the store.
    pub(crate) unsafe fn create(plan: Plan, lot: *const Lot<Store>) -> Option<(Self, NonNull<u8>)> {
        let layout = Layout::from_size_align(plan.bytes, plan.align).ok()?;
        let memory = raw::acquire(&Global, layout).ok()?;
        let heap = Heap { lot, link: AtomicPtr::new(ptr::null_mut()), plan, swept: OwnerUsize::new(0) };
        let header = Store { closed: Closed::new(), witness: Witness::new(), heap };
        let store = memory.cast::<Store>();
        // SAFETY: fresh memory; the plan has room for a header, and a store is aligned to a line at least.
        unsafe { store.write(header) };
        // SAFETY: the plan's first guard is in the store.
        let base = unsafe { memory.add(plan.first) };
        // SAFETY: fresh memory of the plan's length, behind the header.
        unsafe { format(base, plan.end) };
        Some((Self(store), base))
    }

    #[inline]
    fn heap(&self) -> *const Heap {
        // SAFETY: S1; no reference is made.
        unsafe { &raw const (*self.0.as_ptr()).heap }
    }

    fn plan(self) -> Plan {
        // SAFETY: S1; the plan never changes.
        unsafe { (*self.heap()).plan }
    }

    fn swept(&self) -> &OwnerUsize {
        // SAFETY: S1; a reference to the word alone.
        unsafe { &(*self.heap()).swept }
    }

    /// The lot, which outlives the store.
    fn lot(self) -> NonNull<Lot<Store>> {
        // SAFETY: S1; `lot` never changes.
        let lot = unsafe { (*self.heap()).lot };
        // SAFETY: only the header of given memory, which is never closed nor dropped, has none.
        unsafe { NonNull::new_unchecked(lot.cast_mut()) }
    }

    /// The end of the ring: frees the store if nothing is held, else parks it. Waits for nothing.
    ///
    /// # Safety
    /// The store is from [`StorePtr::create`], and its ring does nothing any more.
    pub(crate) unsafe fn retire(self) {
        let lot = self.lot();
        // SAFETY: the lot outlives all stores.
        let lot = unsafe { lot.as_ref() };
        // SAFETY: all regions are in the store, and nobody allocates any more.
        if unsafe { self.is_home() } {
            // SAFETY: every region is free, so nobody touches the store any more.
            unsafe { self.free() };
            sweep(lot);
            return;
        }
        // SAFETY: S1; a reference to the flag alone.
        let closed = unsafe { &(*self.0.as_ptr()).closed };
        closed.set();
        // SAFETY: alive, closed, not parked yet; from here only sweeps free it (P3).
        unsafe { lot.park(self.0) };
        lot.sweep(Effort::Full);
    }

    /// Whether all regions are free, from where the last look stopped: a free one is not taken again.
    ///
    /// # Safety
    /// The ring allocates no more, and the caller is the ring or behind the gate.
    unsafe fn is_home(self) -> bool {
        let plan = self.plan();
        let base = self.0.cast::<u8>();
        let mut at = self.swept().get();
        while at < plan.end {
            // SAFETY: `first + at` is the offset of a guard, as the words say.
            let place = unsafe { base.add(plan.first + at) };
            // SAFETY: G1: the store is alive.
            let word = unsafe { GuardPtr::new(place) }.look();
            if word.is_taken() {
                break;
            }
            at += word.len();
        }
        self.swept().set(at);
        at >= plan.end
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// All regions are free, and the ring is gone.
    unsafe fn free(self) {
        let plan = self.plan();
        self.witness().end();
        // SAFETY: made of this size and alignment in `create`.
        let layout = unsafe { Layout::from_size_align_unchecked(plan.bytes, plan.align) };
        // SAFETY: acquired in `create`; all holders' last touches, their releases, happened before the looks that found them.
        unsafe { raw::release(&Global, self.0.cast(), layout) };
    }
}

#[cfg(feature = "alloc")]
// SAFETY: the address of one field; the sweep returns `true` where it freed the store and does not unwind; the global heap
// takes memory back on any thread.
unsafe impl Park for Store {
    unsafe fn link(pool: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
        // SAFETY: the store is alive, by the caller; no reference is made.
        let link = unsafe { &raw mut (*pool.as_ptr()).heap.link };
        // SAFETY: a field of what is not null.
        unsafe { NonNull::new_unchecked(link) }
    }

    unsafe fn sweep(pool: NonNull<Self>) -> bool {
        let store = StorePtr(pool);
        store.witness().touch();
        // SAFETY: closed, and behind the gate, by the caller.
        if !unsafe { store.is_home() } {
            return false;
        }
        // SAFETY: every region is free, and the store is parked, so its ring is gone.
        unsafe { store.free() };
        true
    }
}

/// Makes one free region of `len` bytes.
///
/// # Safety
/// `base` has `len` bytes that are the caller's alone, aligned to the granule; `len` is a multiple of it and not zero.
pub(crate) unsafe fn format(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller's memory.
    unsafe { poison(base, len) };
    // SAFETY: as above; a store with this guard is about to be.
    let guard = unsafe { GuardPtr::new(base) };
    // SAFETY: as above.
    unsafe { guard.create(len) };
}

/// A region is handed out for a buffer of `bytes` bytes: marks it as usable, and what `checked` wants of it.
///
/// # Safety
/// The region is taken, of this store, the caller's alone, and that of so many bytes.
#[inline]
pub(crate) unsafe fn hand_out(store: StorePtr, guard: GuardPtr, bytes: usize) {
    let (data, region) = (guard.payload(), region_of(bytes));
    // In given memory with what it is rounded by, since no marks are set there at the release.
    let usable = if store.is_given() { room(region) } else { bytes };
    // SAFETY: in the caller's region.
    unsafe { unpoison(data, usable) };
    // SAFETY: the same.
    unsafe { checked::hand_out(guard, data, bytes, region) };
}

/// Gives back the region of a buffer of `bytes` at `data`.
///
/// # Safety
/// The buffer is the caller's, who holds nothing of it any more; its region has `region` bytes and is in `store`'s regions.
#[inline]
pub(crate) unsafe fn release(store: StorePtr, data: NonNull<u8>, bytes: usize, region: usize) {
    // SAFETY: G1: the region is not released yet, so the store is there.
    let guard = unsafe { GuardPtr::of(data) };
    // SAFETY: the caller's region.
    unsafe { checked::release(guard, data, bytes, region) };
    guard.end_use();
    if !store.is_given() {
        // SAFETY: the caller's region, without its guard; nobody reads it again.
        unsafe { poison(data, bytes) };
    }
    if cfg!(ephemera_weaken = "closed_after_release") {
        guard.release(region);
    }
    if store.is_closed() {
        // SAFETY: the same.
        unsafe { release_parked(store, guard, region) };
        return;
    }
    if !cfg!(ephemera_weaken = "closed_after_release") {
        guard.release(region);
    }
}

/// The same in a store whose ring was dropped: somebody has to free it.
///
/// # Safety
/// As for [`release`], and the store is closed.
#[cold]
#[inline(never)]
unsafe fn release_parked(store: StorePtr, guard: GuardPtr, region: usize) {
    #[cfg(feature = "alloc")]
    {
        let lot = store.lot();
        guard.release(region);
        // SAFETY: the lot outlives all stores.
        let lot = unsafe { lot.as_ref() };
        sweep(lot);
    }
    // Without a heap no store is closed.
    #[cfg(not(feature = "alloc"))]
    {
        let _ = store;
        guard.release(region);
    }
}

#[cfg(feature = "alloc")]
const _: () = assert!(GRANULE >= 16, "buffers are aligned to 16 bytes");
