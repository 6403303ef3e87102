//! Rings in given memory.
//!
//! Such a ring writes nothing outside that memory, and never frees it. Its buffers look at a static
//! header, which all such rings share. That header is never closed and never written.
#![cfg(not(ephemera_loom))]

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::chain::Chain;
use super::{Memory, RingAl};
use crate::CreateError;
use crate::geometry::{GRANULE, LARGEST, OVERHEAD};
use crate::store::{StorePtr, format};

impl RingAl {
    /// A ring in memory that is never freed: a static, or a leaked block. Of `n` bytes it serves
    /// one buffer of `n - 64` or more; what is cut off at both ends aligns it to 16. (With feature
    /// `checked`: `n - 128` or more, aligned to 32.)
    ///
    /// # Errors
    /// [`CreateError::TooSmall`] for memory without room for one region.
    ///
    /// # Examples
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use ringal::RingAl;
    ///
    /// static mut POOL: [MaybeUninit<u8>; 4096] = [MaybeUninit::uninit(); 4096];
    ///
    /// let pool = &raw mut POOL;
    /// // SAFETY: this is the only use of the static.
    /// let pool = unsafe { &mut *pool };
    /// let mut ring = RingAl::from_static(pool)?;
    /// # #[cfg(not(feature = "checked"))]
    /// assert!(ring.fixed(4096 - 64).is_some());
    /// # assert!(ring.fixed(4096 - 128).is_some());
    /// # Ok::<(), ringal::CreateError>(())
    /// ```
    pub fn from_static(memory: &'static mut [MaybeUninit<u8>]) -> Result<Self, CreateError> {
        let bytes = memory.len();
        // SAFETY: valid as long as the program runs, and nobody else's, since the reference is
        // consumed.
        unsafe { Self::from_raw_parts(NonNull::from(memory).cast(), bytes) }
    }

    /// A ring in `bytes` bytes from `memory` on. Of `n` bytes it serves one buffer of `n - 64` or
    /// more. (With feature `checked`: `n - 128` or more.)
    ///
    /// # Errors
    /// [`CreateError::TooSmall`] for memory without room for one region, [`CreateError::TooLarge`]
    /// for more than half the address space.
    ///
    /// # Safety
    /// The memory is valid for reads and writes, in one allocation, and nobody else uses it, until
    /// the ring and all its buffers are dropped. (When [`RingAl::stats`] says that none is held,
    /// they are.)
    pub unsafe fn from_raw_parts(memory: NonNull<u8>, bytes: usize) -> Result<Self, CreateError> {
        let too_small = CreateError::TooSmall { bytes, least: GRANULE + OVERHEAD };
        let lead = memory.as_ptr().align_offset(GRANULE);
        let end = bytes.saturating_sub(lead) & !(GRANULE - 1);
        if end < OVERHEAD {
            return Err(too_small);
        }
        if end > LARGEST {
            return Err(CreateError::TooLarge { bytes, align: GRANULE });
        }
        // SAFETY: `lead` is less than `bytes`, since `end` is not zero.
        let base = unsafe { memory.add(lead) };
        // SAFETY: the caller's memory, aligned and cut to the granule.
        unsafe { format(base, end) };
        // SAFETY: just formatted, and valid while the ring or a buffer lives.
        let chain = unsafe { Chain::new(base, end) };
        Ok(Self { chain, store: StorePtr::given(), memory: Memory::Given })
    }
}
