//! Settings for a ring, and the making of one.

#[cfg(not(ephemera_loom))]
use core::alloc::Layout;

#[cfg(not(ephemera_loom))]
use allocator_api2::alloc::handle_alloc_error;

use super::chain::Chain;
use super::{Memory, RingAl};
use crate::CreateError;
use crate::geometry::{GRANULE, LINE, Plan};
use crate::parked::Parked;
use crate::store::StorePtr;

/// Settings for a [`RingAl`].
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
    /// A store of `bytes` bytes, aligned to a cache line of 64.
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, align: LINE }
    }

    /// The alignment of the store in bytes, rounded up to a power of two and to 64 at least; at
    /// most 512 MiB. The first buffer of the store is aligned to it, so what is as large as the
    /// ring can be as aligned. The store takes `align + 48` bytes more than its regions then.
    pub const fn align(self, align: usize) -> Self {
        Self { align, ..self }
    }

    /// The ring, over the global heap.
    ///
    /// # Aborts
    /// When there is no memory, by way of `handle_alloc_error`.
    #[cfg(not(ephemera_loom))]
    #[must_use]
    pub fn build(self) -> RingAl {
        match self.try_build() {
            Ok(ring) => ring,
            Err(_) => no_memory(self.bytes),
        }
    }

    /// The ring, over the global heap.
    ///
    /// # Errors
    /// [`CreateError`] when the heap has no memory for that many bytes, or no heap has. Before
    /// that, parked stores whose buffers are all gone are freed, unless another thread is looking
    /// at them at the moment.
    #[cfg(not(ephemera_loom))]
    pub fn try_build(self) -> Result<RingAl, CreateError> {
        // SAFETY: a static.
        unsafe { self.try_build_in(&crate::store::PARKED) }
    }

    /// The ring, with the lists in which its store will be parked.
    ///
    /// # Safety
    /// The lists outlive the ring and all its buffers.
    pub(crate) unsafe fn try_build_in(self, parked: &Parked) -> Result<RingAl, CreateError> {
        parked.look();
        let Some(plan) = Plan::new(self.bytes, self.align) else {
            return Err(CreateError::TooLarge { bytes: self.bytes, align: self.align });
        };
        // SAFETY: the lists outlive the store, by the caller.
        let mut made = unsafe { StorePtr::create(plan, parked) };
        if made.is_none() && parked.look_at_all() != 0 {
            // SAFETY: as above.
            made = unsafe { StorePtr::create(plan, parked) };
        }
        let (store, base) = made.ok_or(CreateError::NoMemory { bytes: plan.bytes(), align: plan.align })?;
        debug_assert_eq!((base.addr().get() + GRANULE) % plan.align, 0, "the first buffer is aligned");
        // SAFETY: formatted by `create`, of this store.
        let chain = unsafe { Chain::new(base, plan.end) };
        Ok(RingAl { chain, store, memory: Memory::Heap })
    }
}

/// There is no memory for a new ring, and the caller did not ask for a `Result`.
#[cfg(not(ephemera_loom))]
#[cold]
fn no_memory(bytes: usize) -> ! {
    let bytes = bytes.min(isize::MAX as usize);
    handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
}
