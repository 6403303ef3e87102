//! What can be wrong with a trace, and what can keep a recording from starting.

use core::fmt;
use std::io;

/// What is wrong with a trace, and where.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    Read(io::Error),
    /// The file is no trace.
    Foreign {
        /// What was found.
        why: &'static str,
    },
    /// Another version of the format.
    Version {
        /// The file's.
        found: u32,
    },
    /// The bytes at this offset mean nothing.
    Corrupt {
        /// Offset in the file.
        offset: u64,
        /// What was found.
        why: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the trace cannot be read: {error}"),
            Self::Foreign { why } => write!(f, "no trace: {why}"),
            Self::Version { found } => {
                write!(f, "a trace of version {found}; this tool reads version {}", crate::format::VERSION)
            }
            Self::Corrupt { offset, why } => write!(f, "corrupt at byte {offset}: {why}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Why a recording did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// This process records already, or did.
    Twice,
    /// The path is empty or too long, by so many bytes.
    Path {
        /// Its length.
        length: usize,
    },
    /// The limit leaves no room for a chunk.
    Limit {
        /// The least that works.
        least: u64,
    },
    /// A call of the system failed.
    System {
        /// Which.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => write!(f, "this process records already"),
            Self::Path { length } => write!(f, "a path of {length} bytes cannot name a trace"),
            Self::Limit { least } => write!(f, "a trace needs at least {least} bytes"),
            Self::System { call, errno } => {
                write!(f, "{call} failed: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl core::error::Error for StartError {}
