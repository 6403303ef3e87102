//! Why there was no slot.

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::fmt;

/// Memory that was asked for and not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// Bytes that were asked for; `usize::MAX` if their number is beyond that.
    pub asked: usize,
    /// Bytes that the arena held when it asked.
    pub held: usize,
    /// The most bytes it may hold; `usize::MAX` for no limit.
    pub limit: usize,
    /// Whether another copy of this crate in the process made the arena. Only that copy may put values into it.
    pub other_copy: bool,
}

/// Why a thread may not claim from an arena.
pub(crate) const ANOTHER_COPY: &str = "another copy of this crate in the process made the arena";

impl Refused {
    /// Whether the arena's own limit refused; else it was the global heap, or the request was beyond `isize::MAX` bytes, which no heap has.
    #[must_use]
    pub fn by_limit(&self) -> bool {
        self.held.checked_add(self.asked).is_none_or(|sum| sum > self.limit)
    }

    /// What the forms that cannot fail do last.
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
            write!(f, "{asked} bytes are more than there are addresses; {held} are held of at most {limit}")
        } else if self.by_limit() {
            write!(f, "{asked} bytes more than the {held} held would exceed the limit of {limit}")
        } else {
            write!(f, "the global heap refused {asked} bytes; {held} are held")
        }
    }
}

impl core::error::Error for Refused {}

/// There was no slot; gives back what was to be put into it.
///
/// `V` is the value, or the initialiser, that was passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TryAllocError<V> {
    value: V,
    refused: Refused,
}

impl<V> TryAllocError<V> {
    pub(crate) fn new(value: V, refused: Refused) -> Self {
        Self { value, refused }
    }

    /// What was passed.
    #[must_use]
    pub fn into_value(self) -> V {
        self.value
    }

    /// What was asked for in vain.
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
    fn errors_say_what_and_how_much() {
        let limit = Refused { asked: 700, held: 900, limit: 1_000, other_copy: false };
        assert!(limit.by_limit());
        assert_eq!(limit.to_string(), "700 bytes more than the 900 held would exceed the limit of 1000");
        let heap = Refused { limit: usize::MAX, ..limit };
        assert!(!heap.by_limit());
        let beyond = Refused { asked: usize::MAX, ..limit };
        assert!(beyond.by_limit());
        let text = alloc::format!(
            "{} bytes are more than there are addresses; 900 are held of at most 1000",
            usize::MAX
        );
        assert_eq!(beyond.to_string(), text);
        let foreign = Refused { other_copy: true, ..heap };
        assert_eq!(foreign.to_string(), super::ANOTHER_COPY);
        let error = TryAllocError::new(7, heap);
        assert_eq!(error.to_string(), "no slot: the global heap refused 700 bytes; 900 are held");
        assert_eq!((error.refused(), error.into_value()), (heap, 7));
    }
}
