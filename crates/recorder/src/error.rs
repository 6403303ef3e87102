//! The errors of reading a trace and of starting a recording.

use core::fmt;
use std::io;

/// An error while reading a trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read.
    Read(io::Error),
    /// The file is not a trace.
    Foreign {
        /// The reason why the file is not a trace.
        why: &'static str,
    },
    /// The file has a version of the format that this crate does not read.
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The bytes at this offset are invalid.
    Corrupt {
        /// The offset in the file, in bytes.
        offset: u64,
        /// The reason why the bytes are invalid.
        why: &'static str,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the trace cannot be read: {error}"),
            Self::Foreign { why } => write!(f, "this is not a trace: {why}"),
            Self::Version { found } => {
                let (oldest, newest) = (crate::format::OLDEST, crate::format::VERSION);
                write!(f, "a trace of version {found}; this tool reads versions {oldest} to {newest}")
            }
            Self::Corrupt { offset, why } => write!(f, "corrupt at byte {offset}: {why}"),
        }
    }
}

impl core::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// The reason why a recording did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// This process records, or has recorded before.
    Twice,
    /// The path is empty or too long.
    Path {
        /// The length of the path in bytes.
        length: usize,
    },
    /// The limit is smaller than the header and one packet.
    Limit {
        /// The smallest valid limit, in bytes.
        least: u64,
    },
    /// A call to the kernel or to the C library failed.
    System {
        /// The name of the call.
        call: &'static str,
        /// The error number of the failure.
        errno: i32,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => write!(f, "this process already records"),
            Self::Path { length } => write!(f, "a path of {length} bytes cannot name a trace"),
            Self::Limit { least } => write!(f, "a trace needs at least {least} bytes"),
            Self::System { call, errno } => {
                write!(f, "{call} failed: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl core::error::Error for StartError {}
