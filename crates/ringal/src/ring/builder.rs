//! Defines [`Builder`], the settings of a ring over the global heap.

#[cfg(not(ephemera_loom))]
use core::alloc::Layout;

#[cfg(not(ephemera_loom))]
use allocator_api2::alloc::handle_alloc_error;

use super::RingAl;
use super::chain::Chain;
use crate::CreateError;
use crate::geometry::{GRANULE, LINE, StorePlan};
#[cfg(not(ephemera_loom))]
use crate::parked::PARKED;
use crate::parked::ParkedStores;
use crate::store::RingStorePtr;

/// The settings of a [`RingAl`].
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ringal::RingAl;
///
/// let mut ring = RingAl::builder(1 << 20).align(4096).try_build()?;
/// let buffer = ring.fixed(64 << 10).expect("an empty ring has room");
/// assert_eq!(buffer.as_ptr().addr() % 4096, 0);
/// # }
/// # Ok::<(), ringal::CreateError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "settings make no ring by themselves"]
pub struct Builder {
    bytes: usize,
    align: usize,
}

impl Builder {
    /// Creates settings for a store of `bytes` bytes, aligned to a cache line of 64 bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, align: LINE }
    }

    /// Sets the alignment of the store in bytes. The alignment is rounded up to a power of two.
    /// Values below 64 are raised to 64. Values above 512 MiB are refused when the ring is created.
    /// The first buffer of the store has the same alignment, so even a buffer as large as the ring
    /// can have that alignment. The store takes `align + 48` bytes in addition to its regions, or
    /// `align + 32` with feature `checked`.
    pub const fn align(self, align: usize) -> Self {
        Self { align, ..self }
    }

    /// Creates the ring over the global heap.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if [`Builder::try_build`] fails.
    #[cfg(not(ephemera_loom))]
    #[must_use]
    pub fn build(self) -> RingAl {
        self.try_build().unwrap_or_else(|_| no_memory(self.bytes))
    }

    /// Creates the ring over the global heap.
    ///
    /// # Errors
    /// Returns [`CreateError`] if the heap refuses the memory for the store, or if the size or
    /// alignment is above its limit. Before this function fails for lack of memory, it frees the
    /// parked stores without live buffers, unless another thread is sweeping them. If it freed one,
    /// it tries again.
    #[cfg(not(ephemera_loom))]
    pub fn try_build(self) -> Result<RingAl, CreateError> {
        // SAFETY: `PARKED` is a static, so it outlives the ring.
        unsafe { self.try_build_in(&PARKED) }
    }

    /// Creates the ring. If buffers outlive the ring, its store is parked in `parked`.
    ///
    /// # Safety
    /// `parked` outlives the store, that is, the ring and all its buffers.
    pub(crate) unsafe fn try_build_in(self, parked: &ParkedStores) -> Result<RingAl, CreateError> {
        parked.sweep();
        let Some(plan) = StorePlan::new(self.bytes, self.align) else {
            return Err(CreateError::TooLarge { bytes: self.bytes, align: self.align });
        };
        // SAFETY: the caller guarantees that `parked` outlives the store.
        let mut made = unsafe { RingStorePtr::create(plan, parked.as_ptr()) };
        if made.is_none() && parked.sweep_all() != 0 {
            // SAFETY: the caller guarantees that `parked` outlives the store.
            made = unsafe { RingStorePtr::create(plan, parked.as_ptr()) };
        }
        let store = made.ok_or(CreateError::NoMemory { bytes: plan.bytes(), align: plan.align })?;
        let base = store.base();
        debug_assert_eq!((base.addr().get() + GRANULE) % plan.align, 0, "the first buffer is aligned");
        // SAFETY: `create` formatted one free region of `plan.end` bytes at `base`, in a store that
        // lives as long as the ring (C1).
        let chain = unsafe { Chain::new(base, plan.end) };
        Ok(RingAl { store, chain })
    }
}

impl RingAl {
    /// Creates a ring over `bytes` bytes of the global heap.
    ///
    /// The size is rounded up to a multiple of 16, and is at least 32. Without live buffers, the
    /// ring can serve one buffer of [`RingAl::capacity`] bytes, which is the rounded size less 16.
    /// A header and the alignment of the first buffer take another 112 bytes.
    ///
    /// With feature `checked`, the size is rounded up to a multiple of 32, and is at least 128. The
    /// capacity is then the rounded size less 64, and the header and the alignment take 96 bytes.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if [`RingAl::try_new`] fails.
    #[cfg(not(ephemera_loom))]
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Builder::new(bytes).build()
    }

    /// Creates a ring like [`RingAl::new`], in a store aligned to `align` bytes. The alignment is
    /// rounded up to a power of two, and values below 64 are raised to 64. The first buffer of the
    /// store has this alignment too. [`RingAl::fixed_aligned`] aligns any buffer.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the ring cannot be created.
    #[cfg(not(ephemera_loom))]
    #[must_use]
    pub fn new_with_align(bytes: usize, align: usize) -> Self {
        Builder::new(bytes).align(align).build()
    }

    /// Creates a ring like [`RingAl::new`].
    ///
    /// # Errors
    /// Returns [`CreateError`] if the heap refuses the memory for the store, or
    /// if `bytes` exceeds the largest possible size.
    #[cfg(not(ephemera_loom))]
    pub fn try_new(bytes: usize) -> Result<Self, CreateError> {
        Builder::new(bytes).try_build()
    }

    /// Returns a [`Builder`] for a ring over `bytes` bytes of the global heap.
    pub const fn builder(bytes: usize) -> Builder {
        Builder::new(bytes)
    }
}

/// Calls `handle_alloc_error` for a ring of `bytes` bytes.
///
/// # Aborts
/// Always.
#[cfg(not(ephemera_loom))]
#[cold]
fn no_memory(bytes: usize) -> ! {
    let bytes = bytes.min(isize::MAX as usize);
    handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
}
