//! The counters of all pages: bytes in use, bytes that are cached, and the bound on the latter.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::CACHE;

/// Bytes of spans and mappings that are allocated.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of free spans and cached mappings whose pages may be resident.
static CACHED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of all mappings.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// The least bound on `CACHED`.
static LEAST: AtomicUsize = AtomicUsize::new(CACHE);
/// Allocations and frees so far.
static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// The cache may also hold this share of the bytes in use.
const SHARE: usize = 8;

/// In one of this number of events, something cached leaves.
pub(super) const DECAY: usize = 16;

pub(super) fn allocated(bytes: usize, was_cached: bool) {
    USED.fetch_add(bytes, Ordering::Relaxed);
    if was_cached {
        uncached(bytes);
    }
}

pub(super) fn freed(bytes: usize, is_cached: bool) {
    USED.fetch_sub(bytes, Ordering::Relaxed);
    if is_cached {
        CACHED.fetch_add(bytes, Ordering::Relaxed);
    }
}

pub(super) fn uncached(bytes: usize) {
    CACHED.fetch_sub(bytes, Ordering::Relaxed);
}

/// Returns bytes to the cache that a failed purge took out of it.
pub(super) fn cached_again(bytes: usize) {
    CACHED.fetch_add(bytes, Ordering::Relaxed);
}

pub(super) fn mapped(bytes: usize) {
    MAPPED.fetch_add(bytes, Ordering::Relaxed);
}

pub(super) fn unmapped(bytes: usize) {
    MAPPED.fetch_sub(bytes, Ordering::Relaxed);
}

pub(super) fn set_least(bytes: usize) {
    LEAST.store(bytes, Ordering::Relaxed);
}

fn bound() -> usize {
    LEAST.load(Ordering::Relaxed).max(USED.load(Ordering::Relaxed) / SHARE)
}

/// Returns whether the cache has room for this number of bytes more.
pub(super) fn has_room(bytes: usize) -> bool {
    let sum = CACHED.load(Ordering::Relaxed).saturating_add(bytes);
    sum <= bound() || cfg!(ephemera_weaken = "cache_without_bound")
}

/// Counts an event, and returns whether it is one after which something cached leaves.
pub(super) fn event() -> bool {
    let events = EVENTS.fetch_add(1, Ordering::Relaxed);
    let is_due = events % DECAY == DECAY - 1 && !cfg!(ephemera_weaken = "cache_never_decays");
    is_due && CACHED.load(Ordering::Relaxed) != 0
}

/// Returns the bytes in use, cached and mapped.
pub(super) fn now() -> (usize, usize, usize) {
    let [used, cached, mapped] = [&USED, &CACHED, &MAPPED].map(|sum| sum.load(Ordering::Relaxed));
    (used, cached, mapped)
}
