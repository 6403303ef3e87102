//! The size of the smallest span, and the default bounds of the cache.

/// The size of the smallest span, in bytes.
pub const SPAN_MIN: usize = 32 << 10;

/// The default minimum of the bound on the bytes of freed blocks that stay resident: 4 MiB. The
/// bound is the larger of this number and an eighth of the bytes in use, and rises if the program
/// allocates purged bytes again.
///
/// The number is small because the cached bytes of a program that sleeps after a burst stay
/// resident.
pub const CACHE: usize = 4 << 20;

/// The largest rise of the bound on the bytes of freed blocks, in a process that allocates purged
/// bytes again: 64 MiB. If [`set_cache`](super::set_cache) sets another minimum, the largest rise
/// is four times that minimum.
pub const CACHE_LEARNED: usize = 64 << 20;
