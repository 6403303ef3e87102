//! The store: the regions of a ring, and a header that every release reads. The header is written
//! when the ring is dropped, so it has a cache line of its own.
//!
//! ```text
//!  header: | closed, parked, block, plan, shares, link, swept |  one line, read-only
//!  block:  | (alignment) | guard | region ... | guard | region ... |
//!                        ^first                                    ^first + end
//! ```
//!
//! The two are separate blocks of the heap: the regions go with the last buffer, and the header
//! when the lists of parked stores let go of it (`end`, `parked`). A store in given memory has no
//! header in it: there is nothing to free, and its buffers share a static header that is never
//! closed.

#[cfg(feature = "alloc")]
use core::alloc::Layout;
#[cfg(feature = "alloc")]
use core::ptr;
use core::ptr::NonNull;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::sync::{AtomicBool, Ordering};
use ephemera_prim::witness::Witness;
#[cfg(feature = "alloc")]
use ephemera_prim::{
    raw,
    sync::{AtomicPtr, AtomicUsize},
    word::OwnerUsize,
};

use crate::checked;
#[cfg(feature = "alloc")]
use crate::geometry::{GRANULE, Plan};
use crate::geometry::{region_of, room};
use crate::guard::GuardPtr;
#[cfg(feature = "alloc")]
use crate::parked::Parked;

/// The header of a store. Never borrowed as a whole while other threads may free it: each field by
/// itself.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Store {
    /// Whether the ring was dropped. Set once, and read by each release before its last touch of
    /// its region: so a release that finds it set knows that the store is there, and one that does
    /// not touches the store no more.
    closed: AtomicBool,
    /// Whether one of the header's two halves has left (E2).
    #[cfg(feature = "alloc")]
    half_left: AtomicBool,
    witness: Witness,
    #[cfg(feature = "alloc")]
    heap: Heap,
}

/// What a store on the heap needs to be freed.
#[cfg(feature = "alloc")]
#[derive(Debug)]
struct Heap {
    /// Where the store is parked: outlives it.
    parked: *const Parked,
    /// The block that the regions are in, and its parts.
    block: NonNull<u8>,
    plan: Plan,
    /// E1. Zero while the ring lives.
    shares: AtomicUsize,
    /// The next header in the same list of parked stores.
    link: AtomicPtr<Store>,
    /// E3. Belongs to the ring, then to the thread behind the gate.
    swept: OwnerUsize,
    /// Stands for the regions.
    regions: Witness,
    /// Stands for what the drop of the ring leaves for looks: the plan, and `swept`.
    listed: Witness,
}

// SAFETY: the fields are atomics, and plain words that never change once the store is made; the
// lists are shared between threads.
unsafe impl Sync for Store {}

#[cfg(all(not(ephemera_loom), feature = "alloc", target_pointer_width = "64"))]
const _: () = assert!(size_of::<Store>() == 64, "the header is one cache line");

/// The parked stores of this process.
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
pub(crate) static PARKED: Parked = Parked::new();

/// The header of all stores in given memory.
#[cfg(not(ephemera_loom))]
static GIVEN: Store = Store {
    closed: AtomicBool::new(false),
    #[cfg(feature = "alloc")]
    half_left: AtomicBool::new(false),
    witness: Witness::new(),
    #[cfg(feature = "alloc")]
    heap: Heap {
        parked: ptr::null(),
        block: NonNull::dangling(),
        plan: Plan { end: 0, align: GRANULE },
        shares: AtomicUsize::new(0),
        link: AtomicPtr::new(ptr::null_mut()),
        swept: OwnerUsize::new(0),
        regions: Witness::new(),
        listed: Witness::new(),
    },
};

/// A pointer to a store's header.
///
/// # Invariant
/// **S1** It points at a header that is not freed for as long as the pointer is used: by the ring,
/// by the holder of a buffer that is not released yet, and by the lists of parked stores (E2).
/// Whoever makes one sees to that; methods rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorePtr(NonNull<Store>);

impl StorePtr {
    /// The header of stores that are not ours to free.
    #[cfg(not(ephemera_loom))]
    pub(crate) fn given() -> Self {
        Self(NonNull::from(&GIVEN))
    }

    /// Whether the memory is the caller's, who must not find marks for sanitizers in it when the
    /// ring is gone.
    #[inline]
    fn is_given(self) -> bool {
        #[cfg(not(ephemera_loom))]
        return self == Self::given();
        #[cfg(ephemera_loom)]
        false
    }

    fn closed(&self) -> &AtomicBool {
        // SAFETY: S1; a reference to the flag alone.
        unsafe { &(*self.0.as_ptr()).closed }
    }

    /// Whether its ring was dropped. A release reads it before its last touch of the store.
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.witness().touch();
        #[cfg(feature = "alloc")]
        self.regions().touch();
        cfg!(feature = "alloc") && self.closed().load(Ordering::Relaxed)
    }

    fn witness(&self) -> &Witness {
        // SAFETY: S1; a reference to the witness alone, which has no size outside loom.
        unsafe { &(*self.0.as_ptr()).witness }
    }
}

#[cfg(feature = "alloc")]
impl StorePtr {
    /// A store of this plan, parked in `parked` when its time comes, and its first guard: of one
    /// free region.
    ///
    /// # Safety
    /// `parked` outlives the store.
    pub(crate) unsafe fn create(plan: Plan, parked: *const Parked) -> Option<(Self, NonNull<u8>)> {
        let layout = Layout::from_size_align(plan.bytes(), plan.align).ok()?;
        let block = raw::acquire(&Global, layout).ok()?;
        let Ok(header) = raw::acquire(&Global, Layout::new::<Store>()) else {
            // SAFETY: acquired above, and not used.
            unsafe { raw::release(&Global, block, layout) };
            return None;
        };
        let heap = Heap {
            parked,
            block,
            plan,
            shares: AtomicUsize::new(0),
            link: AtomicPtr::new(ptr::null_mut()),
            swept: OwnerUsize::new(0),
            regions: Witness::new(),
            listed: Witness::new(),
        };
        let store = header.cast::<Store>();
        let header = Store {
            closed: AtomicBool::new(false),
            half_left: AtomicBool::new(false),
            witness: Witness::new(),
            heap,
        };
        // SAFETY: fresh memory for a header.
        unsafe { store.write(header) };
        // SAFETY: the plan's first guard is in the block.
        let base = unsafe { block.add(plan.first()) };
        // SAFETY: fresh memory of the plan's length.
        unsafe { format(base, plan.end) };
        Some((Self(store), base))
    }

    /// # Safety
    /// S1.
    pub(crate) unsafe fn from_raw(header: NonNull<Store>) -> Self {
        Self(header)
    }

    pub(crate) fn as_non_null(self) -> NonNull<Store> {
        self.0
    }

    pub(crate) fn as_ptr(self) -> *mut Store {
        self.0.as_ptr()
    }

    #[inline]
    fn heap(&self) -> *const Heap {
        // SAFETY: S1; no reference is made.
        unsafe { &raw const (*self.0.as_ptr()).heap }
    }

    /// The ring is dropped: from now on releases take their shares off.
    pub(crate) fn close(self) {
        self.closed().store(true, Ordering::Relaxed);
    }

    pub(crate) fn plan(self) -> Plan {
        // SAFETY: S1; the plan never changes.
        unsafe { (*self.heap()).plan }
    }

    pub(crate) fn block(self) -> NonNull<u8> {
        // SAFETY: S1; the pointer never changes.
        unsafe { (*self.heap()).block }
    }

    pub(crate) fn swept(&self) -> &OwnerUsize {
        // SAFETY: S1; a reference to the word alone.
        unsafe { &(*self.heap()).swept }
    }

    pub(crate) fn shares(&self) -> &AtomicUsize {
        // SAFETY: S1; a reference to the word alone.
        unsafe { &(*self.heap()).shares }
    }

    pub(crate) fn link(&self) -> &AtomicPtr<Store> {
        // SAFETY: S1; a reference to the word alone.
        unsafe { &(*self.heap()).link }
    }

    pub(crate) fn half_left(&self) -> &AtomicBool {
        // SAFETY: S1; a reference to the flag alone.
        unsafe { &(*self.0.as_ptr()).half_left }
    }

    fn regions(&self) -> &Witness {
        // SAFETY: S1; a reference to the witness alone, which has no size outside loom.
        unsafe { &(*self.heap()).regions }
    }

    pub(crate) fn listed(&self) -> &Witness {
        // SAFETY: S1; a reference to the witness alone, which has no size outside loom.
        unsafe { &(*self.heap()).listed }
    }

    /// Tells loom that the regions are freed.
    pub(crate) fn end_regions(self) {
        self.regions().end();
    }

    /// Tells loom that the header is freed.
    pub(crate) fn end_header(self) {
        self.witness().end();
    }

    /// The guard at an offset from the first one.
    ///
    /// # Safety
    /// A guard is there, and the regions are not freed while the pointer is used.
    pub(crate) unsafe fn guard(self, at: usize) -> GuardPtr {
        // SAFETY: in the block, by the caller.
        let place = unsafe { self.block().add(self.plan().first() + at) };
        // SAFETY: G1, by the caller.
        unsafe { GuardPtr::new(place) }
    }

    /// Where the store is parked, which outlives the store.
    pub(crate) fn parked(self) -> NonNull<Parked> {
        // SAFETY: S1; the pointer never changes.
        let parked = unsafe { (*self.heap()).parked };
        // SAFETY: only the header of given memory, which is never closed nor dropped, has none.
        unsafe { NonNull::new_unchecked(parked.cast_mut()) }
    }
}

/// Makes one free region of `len` bytes.
///
/// # Safety
/// `base` has `len` bytes that are the caller's alone, aligned to the granule; `len` is a multiple
/// of it and not zero.
pub(crate) unsafe fn format(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller's memory.
    unsafe { poison(base, len) };
    // SAFETY: as above; a store with this guard is about to be.
    let guard = unsafe { GuardPtr::new(base) };
    // SAFETY: as above.
    unsafe { guard.create(len) };
}

/// A region is handed out for a buffer of `bytes` bytes: marks it as usable, and what `checked`
/// wants of it.
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
/// The buffer is the caller's, who does not use it any more; its region has `region` bytes and is
/// in `store`'s regions.
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
        unsafe { release_late(store, guard, region) };
        return;
    }
    if !cfg!(ephemera_weaken = "closed_after_release") {
        guard.release(region);
    }
}

/// The same in a store whose ring was dropped: the last such release frees it.
///
/// # Safety
/// As for [`release`], and the store is closed.
#[cold]
#[inline(never)]
unsafe fn release_late(store: StorePtr, guard: GuardPtr, region: usize) {
    #[cfg(feature = "alloc")]
    {
        let parked = store.parked();
        // SAFETY: the lists of parked stores outlive all stores.
        let parked = unsafe { parked.as_ref() };
        // SAFETY: the caller's region, in a closed store.
        if unsafe { store.settle_late(guard, region) } {
            // SAFETY: that was the last share.
            unsafe { parked.end(store) };
            parked.look();
        }
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
