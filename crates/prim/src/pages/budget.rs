//! Counts the bytes that are in use, cached and mapped, and bounds the cached bytes.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::bounds::{CACHE, CACHE_LEARNED};
use crate::sync::change_if;

/// Bytes of spans and mappings that are allocated, or that a thread keeps in its own cache.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of free spans and cached mappings whose pages may be resident.
static CACHED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of all mappings. The map of addresses does not count.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// The minimum of the bound on `CACHED`, in bytes.
static LEAST: AtomicUsize = AtomicUsize::new(CACHE);
/// The rise of the bound, in bytes. Each byte that left the cache and was then allocated again
/// adds one, up to [`learned_max`]. Each byte that [`decayed`] counts subtracts one.
static LEARNED: AtomicUsize = AtomicUsize::new(0);
/// Bytes that left the cache or did not fit into it, and that the process has not allocated again.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// The number of allocations and frees so far, except for those that a thread's own cache served.
static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// The bound on the cached bytes, without its rise, is the bytes in use divided by this number, or
/// the minimum if that is larger.
pub(super) const SHARE: usize = 8;

/// The ratio of the maximum of `LEARNED` to a minimum that the program set.
const LEARNED_MAX: usize = 4;

/// Returns the maximum of `LEARNED`, in bytes.
fn learned_max() -> usize {
    match LEAST.load(Ordering::Relaxed) {
        CACHE => CACHE_LEARNED,
        least => least.saturating_mul(LEARNED_MAX),
    }
}

/// The interval between looks for unused memory, in allocations and frees.
pub(super) const DECAY: usize = 64;

pub(super) fn allocated(bytes: usize, was_cached: bool) {
    USED.fetch_add(bytes, Ordering::Relaxed);
    if was_cached {
        uncached(bytes);
    } else {
        needed(bytes);
    }
}

/// Counts an allocation that the cache did not serve, and raises the bound by the number of
/// allocated bytes that may have left the cache before.
fn needed(bytes: usize) {
    let again = bytes.min(LEFT.load(Ordering::Relaxed));
    if again != 0 {
        change(&LEFT, |left| left.saturating_sub(again));
        let most = learned_max();
        change(&LEARNED, |learned| learned.saturating_add(again).min(most));
    }
}

/// Counts bytes that left the cache or did not fit into it.
pub(super) fn left(bytes: usize) {
    LEFT.fetch_add(bytes, Ordering::Relaxed);
}

/// Counts cached bytes whose pages were purged or unmapped, and lowers the rise of the bound by the
/// same number.
pub(super) fn decayed(bytes: usize) {
    left(bytes);
    change(&LEARNED, |learned| learned.saturating_sub(bytes));
}

/// Resets the count of the bytes that left the cache, and the rise of the bound.
pub(super) fn forget() {
    LEFT.store(0, Ordering::Relaxed);
    LEARNED.store(0, Ordering::Relaxed);
}

/// Atomically replaces the value of `sum` with `new(value)`.
fn change(sum: &AtomicUsize, new: impl Fn(usize) -> usize) {
    let exchange = |old, new| sum.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed);
    let _ = change_if(sum.load(Ordering::Relaxed), exchange, |now| Some(new(now)));
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

/// Counts bytes as cached again after the operating system refused to unmap them.
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
    let least = if weakened!("cache_starts_large") { 16 << 20 } else { LEAST.load(Ordering::Relaxed) };
    let bound = least.max(USED.load(Ordering::Relaxed) / SHARE);
    bound.saturating_add(if weakened!("cache_learns_nothing") { 0 } else { rise() })
}

/// Returns the rise of the bound, in bytes. The program may have lowered the maximum of the rise
/// since the bound rose.
pub(super) fn rise() -> usize {
    LEARNED.load(Ordering::Relaxed).min(learned_max())
}

/// Returns whether the cache could grow by `bytes` without exceeding its bound.
pub(super) fn has_room(bytes: usize) -> bool {
    let sum = CACHED.load(Ordering::Relaxed).saturating_add(bytes);
    sum <= bound() || weakened!("cache_without_bound")
}

/// Counts an allocation or a free. Returns whether the caller must look for unused memory.
pub(super) fn event() -> bool {
    EVENTS.fetch_add(1, Ordering::Relaxed) % DECAY == DECAY - 1
}

/// Returns whether any bytes are cached.
pub(super) fn any_cached() -> bool {
    CACHED.load(Ordering::Relaxed) != 0 && !weakened!("cache_never_decays")
}

/// Returns the minimum of the bound on the cached bytes.
#[inline]
pub(super) fn least() -> usize {
    LEAST.load(Ordering::Relaxed)
}

/// Returns the bytes in use, the cached bytes and the mapped bytes, in this order.
pub(super) fn now() -> (usize, usize, usize) {
    let [used, cached, mapped] = [&USED, &CACHED, &MAPPED].map(|sum| sum.load(Ordering::Relaxed));
    (used, cached, mapped)
}
