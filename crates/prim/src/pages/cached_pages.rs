//! The allocator of a thread that may have its own cache of spans.

use super::SpanCache;

/// The allocator [`Pages`](super::Pages), for a thread with its own cache of spans.
#[derive(Debug, Clone, Copy)]
pub struct CachedPages {
    #[cfg_attr(not(ephemera_pages), expect(dead_code, reason = "the system's heap caches for itself"))]
    pub(super) cache: Option<&'static SpanCache>,
}

impl CachedPages {
    /// The allocator for calls that do not use a thread's own cache.
    pub(super) const SHARED: Self = Self { cache: None };

    /// Creates the allocator. Without a cache, it behaves like [`Pages`](super::Pages).
    ///
    /// # Safety
    /// A thread uses this value, or a copy of it, only while the cache belongs to that thread.
    #[inline]
    pub unsafe fn new(cache: Option<&'static SpanCache>) -> Self {
        Self { cache }
    }
}

/// A thread's own cache of freed spans in builds in which blocks come from the system's heap. It is
/// always empty, because that heap has caches of its own.
#[cfg(not(ephemera_pages))]
#[derive(Debug)]
pub struct NoSpanCache;

#[cfg(not(ephemera_pages))]
impl NoSpanCache {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self
    }

    /// Does nothing, because the cache is always empty.
    pub fn clear(&self) {}
}
