//! The store: the memory of one ring. A store on the heap consists of a block of regions and a
//! separate header.
//!
//! ```text
//!  header: | closed, half_left, parked, base, plan, shares, .. |  read-only while the ring lives
//!  block:  | (alignment) | guard | payload .. | guard | payload .. |
//!                        ^first                                    ^first + end
//! ```
//!
//! Every release of a buffer reads the header. The header is not written until the ring is dropped,
//! so the header's cache line stays shared between processors. After the drop of the ring, the last
//! buffer usually frees the regions. The header is freed after the regions, and after it has left
//! the lists of parked stores (see `end` and `parked`).
//!
//! Caller-provided memory does not contain a header, because the ring never frees that memory. All
//! rings in caller-provided memory share one static header, which is never closed.

#[cfg(feature = "alloc")]
use core::alloc::Layout;
use core::ptr::{self, NonNull};

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use ephemera_prim::poison::{poison, unpoison};
#[cfg(feature = "alloc")]
use ephemera_prim::raw;
use ephemera_prim::sync::{AtomicBool, AtomicPtr, AtomicUsize};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerUsize;

#[cfg(not(ephemera_loom))]
use crate::geometry::GRANULE;
use crate::geometry::{StorePlan, region_of, room};
use crate::guard::GuardPtr;

/// The header of a store. As soon as a release has made its last access, another thread can free
/// the header, so code borrows single fields, never the whole header.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingStore {
    /// Whether the ring was dropped. Only the drop of a ring on the heap sets the flag, because the
    /// rings in caller-provided memory share one header. A release reads the flag before its last
    /// access to its region. If the flag is set, the store stays until this release subtracts its
    /// share. Otherwise, the release does not access the store after it frees the region.
    closed: AtomicBool,
    /// Whether one half of the header is already given up (E2).
    half_left: AtomicBool,
    /// The address of the `ParkedStores` in which this store is parked after its ring is dropped.
    /// The `ParkedStores` outlives the store. `ParkedStores::of` casts the address back.
    parked: *const (),
    /// The address of the first guard.
    base: NonNull<u8>,
    plan: StorePlan,
    /// The number of shares (E1). Zero while the ring lives.
    shares: AtomicUsize,
    /// The next header in the same list of parked stores.
    link: AtomicPtr<RingStore>,
    /// The offset where the next sweep continues (E3). Until the store is parked, only the ring
    /// accesses this field. After that, only the thread that holds the gate does.
    swept: OwnerUsize,
    /// Lets loom check the accesses to this header.
    witness: Witness,
    /// Lets loom check the accesses to the regions.
    regions: Witness,
    /// Lets loom check that a sweep sees the plan and `swept` as the drop of the ring left them.
    listed: Witness,
}

// SAFETY: every field is an atomic, or never changes after the store is created. `parked` points at
// a `ParkedStores`, which threads may share.
unsafe impl Sync for RingStore {}

#[cfg(all(not(ephemera_loom), target_pointer_width = "64"))]
const _: () = assert!(size_of::<RingStore>() == 64, "the header is one cache line");

impl RingStore {
    ephemera_prim::const_unless_loom! {
        fn new(parked: *const (), base: NonNull<u8>, plan: StorePlan) -> Self {
            Self {
                closed: AtomicBool::new(false),
                half_left: AtomicBool::new(false),
                parked,
                base,
                plan,
                shares: AtomicUsize::new(0),
                link: AtomicPtr::new(ptr::null_mut()),
                swept: OwnerUsize::new(0),
                witness: Witness::new(),
                regions: Witness::new(),
                listed: Witness::new(),
            }
        }
    }
}

/// The header that all rings in caller-provided memory share.
#[cfg(not(ephemera_loom))]
static GIVEN: RingStore =
    RingStore::new(ptr::null(), NonNull::dangling(), StorePlan { end: 0, align: GRANULE });

/// A pointer to a store's header.
///
/// # Invariant
/// **S1** The header is not freed while the pointer is used. The ring, each buffer that is not
/// released yet and the lists of parked stores keep it alive (E2). The creator of a `RingStorePtr`
/// guarantees S1, and the methods rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct RingStorePtr(NonNull<RingStore>);

impl RingStorePtr {
    // The header is not freed while the pointer is used (S1).
    words! {
        pub(crate) fn plan() -> StorePlan = plan;
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut RingStore {
        self.0.as_ptr()
    }

    /// Returns the static header that all rings in caller-provided memory share.
    #[cfg(not(ephemera_loom))]
    pub(crate) fn given() -> Self {
        Self(NonNull::from(&GIVEN))
    }

    /// Returns whether the caller provided the memory. After the ring is dropped, no part of such
    /// memory may stay poisoned.
    #[inline]
    pub(crate) fn is_given(self) -> bool {
        #[cfg(not(ephemera_loom))]
        return self == Self::given();
        #[cfg(ephemera_loom)]
        false
    }

    /// Returns the number of bytes that the store takes from the heap.
    pub(crate) fn bytes_held(self) -> usize {
        if self.is_given() { 0 } else { self.plan().bytes() + size_of::<RingStore>() }
    }
}

#[cfg(feature = "alloc")]
impl RingStorePtr {
    // The header is not freed while the pointer is used (S1).
    words! {
        pub(crate) fn closed() -> &AtomicBool = closed;
        pub(crate) fn half_left() -> &AtomicBool = half_left;
        /// Returns the address of the `ParkedStores` for this store, or null for caller-provided
        /// memory.
        pub(crate) fn parked() -> *const () = parked;
        /// Returns the address of the first guard.
        pub(crate) fn base() -> NonNull<u8> = base;
        pub(crate) fn shares() -> &AtomicUsize = shares;
        pub(crate) fn link() -> &AtomicPtr<RingStore> = link;
        pub(crate) fn swept() -> &OwnerUsize = swept;
        pub(crate) fn witness() -> &Witness = witness;
        pub(crate) fn regions() -> &Witness = regions;
        pub(crate) fn listed() -> &Witness = listed;
    }

    /// Creates a store of one free region. Returns `None` if the heap refuses the memory.
    ///
    /// # Safety
    /// `parked` is the address of a `ParkedStores` that outlives the store.
    pub(crate) unsafe fn create(plan: StorePlan, parked: *const ()) -> Option<Self> {
        let layout = Layout::from_size_align(plan.bytes(), plan.align).ok()?;
        let block = raw::acquire(&Global, layout).ok()?;
        let Ok(header) = raw::acquire(&Global, Layout::new::<RingStore>()) else {
            // SAFETY: `block` was acquired above with this layout, and nothing points into the
            // block.
            unsafe { raw::release(&Global, block, layout) };
            return None;
        };
        // SAFETY: the block has `plan.first() + plan.end` bytes.
        let base = unsafe { block.add(plan.first()) };
        // SAFETY: `plan.end` bytes follow `base` in the fresh block. `plan.first()` aligns `base`
        // to the granule, and `plan.end` is a positive multiple of it.
        unsafe { format(base, plan.end) };
        let header = header.cast::<RingStore>();
        // SAFETY: `header` points at a fresh block with the layout of a header.
        unsafe { header.write(RingStore::new(parked, base, plan)) };
        Some(Self(header))
    }

    /// Creates a pointer to a header.
    ///
    /// # Safety
    /// S1 holds for `header`.
    pub(crate) unsafe fn from_raw(header: NonNull<RingStore>) -> Self {
        Self(header)
    }

    /// Frees the regions.
    ///
    /// # Safety
    /// No other code uses the regions: either no region is taken and the store was never parked, or
    /// the caller subtracted the last share.
    pub(crate) unsafe fn free_regions(self) {
        self.regions().end();
        let plan = self.plan();
        // SAFETY: `create` made a valid layout from the same size and alignment.
        let layout = unsafe { Layout::from_size_align_unchecked(plan.bytes(), plan.align) };
        // SAFETY: `create` placed the first guard at this distance from the start of the block.
        let block = unsafe { self.base().sub(plan.first()) };
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that no
        // other code uses it.
        unsafe { raw::release(&Global, block, layout) };
    }

    /// Frees the header.
    ///
    /// # Safety
    /// No other code uses the header.
    pub(crate) unsafe fn free_header(self) {
        self.witness().end();
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that no
        // other code uses it.
        unsafe { raw::release(&Global, self.0.cast(), Layout::new::<RingStore>()) };
    }

    /// Returns the guard at offset `at` from the first guard.
    ///
    /// # Safety
    /// A guard is at `at`, and the regions are not freed while the pointer is used.
    pub(crate) unsafe fn guard(self, at: usize) -> GuardPtr {
        // SAFETY: the caller guarantees that a guard is at this offset, so the offset is in the
        // block.
        let place = unsafe { self.base().add(at) };
        // SAFETY: the caller guarantees that a guard is at `place`, and that the store is not freed
        // (G1).
        unsafe { GuardPtr::new(place) }
    }
}

/// Formats memory as one free region of `len` bytes.
///
/// # Safety
/// The caller has exclusive access to `len` bytes from `base` on. `base` is aligned to the granule,
/// and `len` is a positive multiple of it.
pub(crate) unsafe fn format(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller has exclusive access to these bytes.
    unsafe { poison(base, len) };
    // SAFETY: the caller has exclusive access to the memory, so the memory is not freed (G1).
    // `create` is the next call.
    let guard = unsafe { GuardPtr::new(base) };
    // SAFETY: the caller has exclusive access to the `len` bytes from `base` on, which are the
    // whole chain.
    unsafe { guard.create(len) };
}

/// Prepares a taken region for a buffer of `bytes` bytes. Unpoisons the buffer and, in builds with
/// checks (see `checked`), fills the margin.
///
/// # Safety
/// The region is taken and lies in `store`, its length is `region_of(bytes)`, and only the caller
/// accesses it.
#[inline]
pub(crate) unsafe fn hand_out(store: RingStorePtr, guard: GuardPtr, bytes: usize) {
    let (data, region) = (guard.payload(), region_of(bytes));
    // In caller-provided memory, also unpoison the bytes that rounding adds: when the ring is
    // dropped, the region of a live buffer must not be poisoned.
    let usable = if store.is_given() { room(region) } else { bytes };
    // SAFETY: `usable` bytes are in the region, which only the caller accesses.
    unsafe { unpoison(data, usable) };
    // SAFETY: the region is taken, its length is `region_of(bytes)`, and only the caller accesses
    // it.
    unsafe { guard.hand_out(bytes, region) };
}
