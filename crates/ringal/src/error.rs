//! What can be refused, and why.

use core::error::Error;
use core::fmt;

/// Why a ring did not serve a request. All sizes are bytes.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ringal::{Refused, RingAl};
///
/// let mut ring = RingAl::new(1024);
/// assert!(matches!(ring.try_fixed(5000), Err(Refused::TooLarge { asked: 5000, .. })));
/// let _held = ring.fixed(600);
/// assert!(matches!(ring.try_fixed(900), Err(Refused::Exhausted { asked: 900, .. })));
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// The ring would be too small even with nothing held.
    TooLarge {
        /// What was asked for.
        asked: usize,
        /// The largest buffer that the ring serves with nothing held.
        capacity: usize,
    },
    /// The ring has no free run that is long enough now. Try again when buffers came home.
    Exhausted {
        /// What was asked for.
        asked: usize,
        /// The largest buffer that would have been served, aligned to 16.
        largest_free: usize,
        /// What the buffers in use occupy, their guards included.
        held: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLarge { asked, capacity } => {
                write!(f, "{asked} bytes are more than the ring can ever serve ({capacity})")
            }
            Self::Exhausted { asked, largest_free, held } => write!(
                f,
                "no room for {asked} bytes: the largest free run has {largest_free}, buffers in use hold {held}"
            ),
        }
    }
}

impl Error for Refused {}

/// Why a ring could not be made. All sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateError {
    /// The heap has no memory.
    NoMemory {
        /// What the store would take.
        bytes: usize,
        /// Its alignment.
        align: usize,
    },
    /// No heap has that much memory, or such an alignment.
    TooLarge {
        /// What was asked for.
        bytes: usize,
        /// The alignment that was asked for.
        align: usize,
    },
    /// The given memory has no room for a ring.
    TooSmall {
        /// What was given.
        bytes: usize,
        /// What always suffices for an empty buffer.
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
                write!(f, "a store of {bytes} bytes, aligned to {align}, cannot be addressed")
            }
            Self::TooSmall { bytes, least } => {
                write!(f, "{bytes} bytes are too few for a ring: it takes {least}")
            }
        }
    }
}

impl Error for CreateError {}

/// A buffer has no room for what was to be appended, and cannot get it. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Full {
    /// Bytes that were to be appended.
    pub asked: usize,
    /// Bytes that there is room for.
    pub spare: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {} more bytes: there is room for {}", self.asked, self.spare)
    }
}

impl Error for Full {}

/// The error has the kind `StorageFull`, and needs no memory.
#[cfg(feature = "std")]
impl From<Full> for std::io::Error {
    fn from(_: Full) -> Self {
        Self::from(std::io::ErrorKind::StorageFull)
    }
}
