//! The errors of this crate.

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
    /// The request exceeds the capacity of the ring, so it fails even when no buffer is live.
    TooLarge {
        /// The requested size.
        asked: usize,
        /// The size of the largest buffer that the ring can serve when no buffer is live.
        capacity: usize,
    },
    /// No free run is long enough now. The request may succeed after buffers are freed.
    Exhausted {
        /// The requested size.
        asked: usize,
        /// The size of the largest buffer, aligned to 16, that the ring could have served.
        largest_free: usize,
        /// The bytes that live buffers occupy, their guards included.
        bytes_live: usize,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLarge { asked, capacity } => {
                write!(f, "{asked} bytes exceed the ring's capacity of {capacity} bytes")
            }
            Self::Exhausted { asked, largest_free, bytes_live } => write!(
                f,
                "no room for {asked} bytes: the largest possible buffer has {largest_free}, and live buffers occupy {bytes_live}"
            ),
        }
    }
}

impl Error for RequestError {}

/// The reason why a ring could not be created. All sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateError {
    /// The heap has no memory.
    NoMemory {
        /// The size of the store.
        bytes: usize,
        /// The alignment of the store.
        align: usize,
    },
    /// The size or the alignment exceeds its limit.
    TooLarge {
        /// The requested size.
        bytes: usize,
        /// The requested alignment.
        align: usize,
    },
    /// The caller's memory has no room for a ring.
    TooSmall {
        /// The size of the caller's memory.
        bytes: usize,
        /// A size that has room for an empty buffer wherever the memory starts.
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

/// The error that a buffer returns if it has too little room for an append and cannot grow. Nothing
/// was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Full {
    /// The number of bytes to append.
    pub asked: usize,
    /// The number of bytes that the buffer has room for.
    pub spare: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {} more bytes: the buffer has room for {}", self.asked, self.spare)
    }
}

impl Error for Full {}

/// Converts to an error of kind `StorageFull`. Does not allocate.
#[cfg(feature = "std")]
impl From<Full> for std::io::Error {
    fn from(_: Full) -> Self {
        Self::from(std::io::ErrorKind::StorageFull)
    }
}
