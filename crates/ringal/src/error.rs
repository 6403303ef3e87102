//! Defines the errors of this crate.

use core::error::Error;
use core::fmt;

/// The reason why a ring refused a request. All sizes are in bytes.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ringal::{RequestError, RingAl};
///
/// let mut ring = RingAl::new(1024);
/// assert!(matches!(ring.try_fixed(5000), Err(RequestError::TooLarge { asked: 5000, .. })));
/// let _held = ring.fixed(600);
/// assert!(matches!(ring.try_fixed(900), Err(RequestError::Exhausted { asked: 900, .. })));
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestError {
    /// The size exceeds the capacity of the ring for this alignment, so the request fails even when
    /// no buffer is live.
    TooLarge {
        /// The requested size, or `usize::MAX` if the size of the elements exceeds the address
        /// space.
        asked: usize,
        /// The size of the largest buffer of the requested alignment that the ring can serve when
        /// no buffer is live. For an alignment of at most 16, this is
        /// [`RingAl::capacity`](crate::RingAl::capacity).
        capacity: usize,
    },
    /// The alignment is so large that the ring cannot serve an empty buffer with it, even when no
    /// buffer is live.
    AlignTooLarge {
        /// The requested alignment.
        align: usize,
        /// The largest alignment that a buffer of this ring can have, at most 512 MiB. It depends
        /// on the size of the ring and on the address of its store.
        largest_align: usize,
    },
    /// No run of free regions is long enough. The request may succeed after the program frees
    /// buffers.
    Exhausted {
        /// The requested size.
        asked: usize,
        /// The size of the largest buffer of the requested alignment that the ring could have
        /// served. This is less than `asked`, unless both are 0. If it is 0, the ring may not even
        /// have room for an empty buffer.
        largest_free: usize,
        /// The number of bytes that live buffers occupy, including their guards.
        bytes_live: usize,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLarge { asked, capacity } => {
                write!(f, "{asked} bytes exceed the {capacity} bytes that the empty ring can serve")
            }
            Self::AlignTooLarge { align, largest_align } => write!(
                f,
                "no buffer of the ring can be aligned to {align}: the largest possible alignment is {largest_align}"
            ),
            Self::Exhausted { asked, largest_free, bytes_live } => write!(
                f,
                "no room for {asked} bytes: the largest possible buffer has {largest_free}, and live buffers occupy {bytes_live}"
            ),
        }
    }
}

impl Error for RequestError {}

/// The reason why a ring could not be created. All sizes are in bytes.
///
/// # Examples
///
/// ```
/// use ringal::{CreateError, RingAl};
///
/// let error = RingAl::try_new(usize::MAX).expect_err("the size exceeds the limit");
/// assert!(matches!(error, CreateError::TooLarge { bytes: usize::MAX, .. }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateError {
    /// The heap refused the memory for the store.
    NoMemory {
        /// The size of the store without its header.
        bytes: usize,
        /// The alignment of the store.
        align: usize,
    },
    /// The size or the alignment exceeds its limit.
    TooLarge {
        /// The requested size, or the size of the caller's memory.
        bytes: usize,
        /// The requested alignment, or the alignment of regions in the caller's memory.
        align: usize,
    },
    /// The caller's memory is too small for a ring.
    TooSmall {
        /// The size of the caller's memory.
        bytes: usize,
        /// A size that suffices for an empty buffer at any address of the memory.
        least: usize,
    },
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoMemory { bytes, align } => {
                write!(f, "no memory for a store of {bytes} bytes, aligned to {align}")
            }
            Self::TooLarge { bytes, align } => {
                write!(f, "a store of {bytes} bytes, aligned to {align}, is too large")
            }
            Self::TooSmall { bytes, least } => {
                write!(f, "{bytes} bytes are too few for a ring, which needs {least}")
            }
        }
    }
}

impl Error for CreateError {}

/// The error that a buffer returns if it has too little room for more bytes and cannot grow.
/// Nothing was written.
///
/// # Examples
///
/// ```
/// use ringal::{Full, RingAl};
///
/// let mut ring = RingAl::new(1 << 10);
/// let mut buffer = ring.fixed(4).expect("an empty ring has room");
/// let room = buffer.spare();
/// let full = buffer.try_extend_from_slice(&[0; 100]).expect_err("100 bytes are too many");
/// assert_eq!(full, Full { asked: 100, spare: room });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Full {
    /// The requested number of additional bytes.
    pub asked: usize,
    /// The number of additional bytes that the buffer has room for.
    pub spare: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {} more bytes: the buffer has room for {}", self.asked, self.spare)
    }
}

impl Error for Full {}

/// Converts the error to an `io::Error` of kind `StorageFull`. Does not allocate.
#[cfg(feature = "std")]
impl From<Full> for std::io::Error {
    fn from(_: Full) -> Self {
        Self::from(std::io::ErrorKind::StorageFull)
    }
}
