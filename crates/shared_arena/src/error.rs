//! Defines the errors of requests that an arena refused.

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::fmt;

/// The reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The bytes held, plus the requested bytes, exceed the arena's limit.
    Limit,
    /// The global allocator refused the request.
    GlobalAllocator,
    /// No allocator can serve a request of this size.
    AddressSpace,
    /// There is no memory for the thread's record. Records do not count toward the limit.
    Record,
    /// Another copy of this crate made the arena.
    OtherCopy,
}

/// The error returned when an arena refuses a request for memory.
///
/// # Examples
///
/// ```
/// use shared_arena::Pool;
///
/// let pool = Pool::<[u8; 1_000]>::builder().limit(4 << 10).build();
/// let refused = pool.try_alloc([0; 1_000]).expect_err("a page has 63 slots").refused();
/// assert!(refused.by_limit() && refused.held + refused.asked > 4 << 10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The number of requested bytes: `usize::MAX` if that number overflows, and 0 if `other_copy`
    /// is set.
    pub asked: usize,
    /// The bytes that the arena held when the request was refused.
    pub held: usize,
    /// The maximum number of bytes that the arena may hold, or `usize::MAX` if there is no limit.
    pub limit: usize,
    /// Whether another copy of this crate in the process made the arena. Only that copy may put
    /// values into the arena.
    pub other_copy: bool,
    pub(crate) cause: RefusalCause,
}

/// The message of the error for an arena that another copy of the crate made.
pub(crate) const ANOTHER_COPY: &str = "another copy of this crate in the process made the arena";

impl Refused {
    /// Returns whether the arena's own limit refused the request. If so, the sum of
    /// [`held`](Refused::held) and [`asked`](Refused::asked) exceeds [`limit`](Refused::limit).
    ///
    /// Otherwise, one of the following holds:
    ///
    /// * The global allocator refused the request.
    /// * The request exceeded the address space.
    /// * There was no memory to register the thread.
    /// * [`Refused::other_copy`] is set.
    #[must_use]
    pub fn by_limit(&self) -> bool {
        self.cause == RefusalCause::Limit
    }

    /// Calls `handle_alloc_error` for a layout of the requested size, or of one byte if that size
    /// is too large for a layout.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_up(self) -> ! {
        let layout = Layout::from_size_align(self.asked, 1);
        handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, held, limit, other_copy: _, cause } = self;
        match cause {
            RefusalCause::Limit => {
                write!(f, "{asked} bytes, added to the {held} held, would exceed the limit of {limit}")
            }
            RefusalCause::GlobalAllocator => {
                write!(f, "the global allocator refused {asked} bytes; {held} are held")
            }
            RefusalCause::AddressSpace => {
                write!(f, "{asked} bytes exceed the address space; {held} of at most {limit} bytes are held")
            }
            RefusalCause::Record => {
                write!(f, "there is no memory to register the thread, which takes {asked} bytes")
            }
            RefusalCause::OtherCopy => f.write_str(ANOTHER_COPY),
        }
    }
}

impl core::error::Error for Refused {}

/// The error of a refused request for a slot. It contains the argument of the request.
///
/// `V` is the type of that argument: a value or an initialiser.
///
/// # Examples
///
/// ```
/// use shared_arena::Pool;
///
/// let pool = Pool::<String>::builder().limit(1_000).build();
/// let error = pool.try_alloc("not lost".to_owned()).expect_err("a page exceeds the limit");
/// assert_eq!(error.into_value(), "not lost");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TryAllocError<V> {
    value: V,
    refused: Refused,
}

impl<V> TryAllocError<V> {
    pub(crate) fn new(value: V, refused: Refused) -> Self {
        Self { value, refused }
    }

    /// Returns the value or initialiser that was passed to the request.
    #[must_use]
    pub fn into_value(self) -> V {
        self.value
    }

    /// Returns the reason for the refusal.
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

#[cfg(all(test, feature = "std", target_has_atomic = "64"))]
mod tests {
    use super::{ANOTHER_COPY, RefusalCause, Refused, TryAllocError};
    use alloc::string::ToString;

    /// Returns a refusal with this cause. The figures alone always suggest a refusal by the limit.
    fn refused(cause: RefusalCause) -> Refused {
        Refused { asked: 700, held: 900, limit: 1_000, other_copy: false, cause }
    }

    #[test]
    fn only_the_cause_says_whether_a_limit_refused() {
        use RefusalCause::{AddressSpace, GlobalAllocator, Limit, OtherCopy, Record};
        for cause in [AddressSpace, GlobalAllocator, Limit, OtherCopy, Record] {
            assert_eq!(refused(cause).by_limit(), cause == Limit, "{cause:?}");
        }
    }

    #[test]
    fn errors_name_the_request_and_the_cause() {
        for (cause, text) in [
            (RefusalCause::Limit, "700 bytes, added to the 900 held, would exceed the limit of 1000"),
            (RefusalCause::GlobalAllocator, "the global allocator refused 700 bytes; 900 are held"),
            (
                RefusalCause::AddressSpace,
                "700 bytes exceed the address space; 900 of at most 1000 bytes are held",
            ),
            (RefusalCause::Record, "there is no memory to register the thread, which takes 700 bytes"),
            (RefusalCause::OtherCopy, ANOTHER_COPY),
        ] {
            assert_eq!(refused(cause).to_string(), text);
        }
        let heap = refused(RefusalCause::GlobalAllocator);
        let error = TryAllocError::new(7, heap);
        assert_eq!(error.to_string(), "no slot: the global allocator refused 700 bytes; 900 are held");
        assert_eq!((error.refused(), error.into_value()), (heap, 7));
    }
}
