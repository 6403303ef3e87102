//! Rings in memory that the caller provides.
//!
//! These rings write only to that memory and never free it. They share one static header, which
//! their buffers read and no thread writes.
#![cfg(not(ephemera_loom))]

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::RingAl;
use super::chain::Chain;
use crate::CreateError;
use crate::geometry::{GRANULE, LARGEST, OVERHEAD};
use crate::store::{RingStorePtr, format};

impl RingAl {
    /// Creates a ring in memory that is never freed, such as a static or a leaked block. In `n`
    /// bytes of memory, the ring can serve one buffer of at least `n - 64` bytes. The ring may
    /// leave bytes at both ends unused to align its regions to 16. With feature `checked`, the
    /// regions are aligned to 32, and the ring can serve at least `n - 128` bytes.
    ///
    /// # Errors
    /// Returns [`CreateError::TooSmall`] if the memory is too small for one region.
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
        // SAFETY: the memory is valid for the rest of the program. No other code uses it, because
        // this function consumes the only reference.
        unsafe { Self::from_raw_parts(NonNull::from(memory).cast(), bytes) }
    }

    /// Creates a ring in `bytes` bytes from `memory` on. The ring can serve one buffer of at least
    /// `bytes - 64` bytes, or `bytes - 128` with feature `checked`.
    ///
    /// # Errors
    /// Returns [`CreateError::TooSmall`] if the memory is too small for one region, and
    /// [`CreateError::TooLarge`] if the memory is almost half of the address space, or larger.
    ///
    /// # Safety
    /// The memory is in one allocation and valid for reads and writes. No other code uses the
    /// memory until the ring and all its buffers are dropped. [`RingAl::stats`] shows whether
    /// buffers are live.
    pub unsafe fn from_raw_parts(memory: NonNull<u8>, bytes: usize) -> Result<Self, CreateError> {
        let lead = memory.as_ptr().align_offset(GRANULE);
        let end = bytes.saturating_sub(lead) & !(GRANULE - 1);
        if end < OVERHEAD {
            return Err(CreateError::TooSmall { bytes, least: GRANULE + OVERHEAD });
        }
        if end > LARGEST {
            return Err(CreateError::TooLarge { bytes, align: GRANULE });
        }
        // SAFETY: `lead` is less than `bytes`, because `end` is not zero. So the result is in the
        // memory.
        let base = unsafe { memory.add(lead) };
        // SAFETY: the caller guarantees exclusive access to `end` bytes from `base` on. `base` is
        // aligned to the granule, and `end` is a positive multiple of it.
        unsafe { format(base, end) };
        // SAFETY: `format` made one free region of `end` bytes at `base`. The memory stays valid
        // while the ring or a buffer lives (C1).
        let chain = unsafe { Chain::new(base, end) };
        Ok(Self { store: RingStorePtr::given(), chain })
    }
}
