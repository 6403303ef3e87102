//! Defines the errors of requests that got no slot.

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::fmt;

/// The error of a refused request for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The number of requested bytes; `usize::MAX` if it exceeds a `usize`.
    pub asked: usize,
    /// The bytes that the arena held when the request was refused.
    pub held: usize,
    /// The most bytes that the arena may hold; `usize::MAX` if it has no limit.
    pub limit: usize,
    /// Whether another copy of this crate in the process made the arena. Only that copy may put
    /// values into it.
    pub other_copy: bool,
}

/// The message for a claim from an arena that another copy of the crate made.
pub(crate) const ANOTHER_COPY: &str = "another copy of this crate in the process made the arena";

impl Refused {
    /// Returns whether the arena's own limit refused the request. Otherwise the global allocator
    /// refused it, the request exceeded `isize::MAX` bytes, which no allocator can serve, or
    /// [`Refused::other_copy`] is set.
    #[must_use]
    pub fn by_limit(&self) -> bool {
        let is_possible = self.asked <= isize::MAX as usize && !self.other_copy;
        is_possible && self.held.saturating_add(self.asked) > self.limit
    }

    /// Calls `handle_alloc_error`, as the infallible methods do after a refusal.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_up(self) -> ! {
        let layout = Layout::from_size_align(self.asked, 1);
        handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, held, limit, other_copy } = self;
        if *other_copy {
            f.write_str(ANOTHER_COPY)
        } else if *asked > isize::MAX as usize {
            write!(f, "{asked} bytes exceed the address space; {held} of at most {limit} bytes are held")
        } else if self.by_limit() {
            write!(f, "{asked} bytes, added to the {held} held, would exceed the limit of {limit}")
        } else {
            write!(f, "the global allocator refused {asked} bytes; {held} are held")
        }
    }
}

impl core::error::Error for Refused {}

/// The error of a request that got no slot. It gives the argument of the request back to the
/// caller.
///
/// `V` is the value or the initialiser that was passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TryAllocError<V> {
    value: V,
    refused: Refused,
}

impl<V> TryAllocError<V> {
    pub(crate) fn new(value: V, refused: Refused) -> Self {
        Self { value, refused }
    }

    /// Returns the value or initialiser that was passed.
    #[must_use]
    pub fn into_value(self) -> V {
        self.value
    }

    /// Returns the reason of the refusal.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }
}

impl<V> fmt::Debug for TryAllocError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryAllocError").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl<V> fmt::Display for TryAllocError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no slot: {}", self.refused)
    }
}

impl<V> core::error::Error for TryAllocError<V> {}

#[cfg(test)]
mod tests {
    use super::{Refused, TryAllocError};
    use alloc::string::ToString;

    #[test]
    fn errors_name_the_request_and_the_limit() {
        let limit = Refused { asked: 700, held: 900, limit: 1_000, other_copy: false };
        assert!(limit.by_limit());
        assert_eq!(limit.to_string(), "700 bytes, added to the 900 held, would exceed the limit of 1000");
        let heap = Refused { limit: usize::MAX, ..limit };
        assert!(!heap.by_limit());
        let beyond = Refused { asked: usize::MAX, ..limit };
        assert!(!beyond.by_limit() && !Refused { asked: usize::MAX, ..heap }.by_limit());
        let text = alloc::format!(
            "{} bytes exceed the address space; 900 of at most 1000 bytes are held",
            usize::MAX
        );
        assert_eq!(beyond.to_string(), text);
        let foreign = Refused { other_copy: true, ..limit };
        assert!(!foreign.by_limit());
        assert_eq!(foreign.to_string(), super::ANOTHER_COPY);
        let error = TryAllocError::new(7, heap);
        assert_eq!(error.to_string(), "no slot: the global allocator refused 700 bytes; 900 are held");
        assert_eq!((error.refused(), error.into_value()), (heap, 7));
    }
}
