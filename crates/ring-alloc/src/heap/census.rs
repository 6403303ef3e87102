//! Decides whether a heap is *sparse*, that is, whether it divides its small chunks (see `holes`).
//!
//! A *census* is a pass over the small chunks of a heap. It counts the chunks with live blocks, and
//! adds up their live bytes. At its end, a heap with enough such chunks becomes sparse if less than
//! half of their bytes are live. It stops being sparse if more than three quarters are, and also if
//! few small chunks are left when it takes a hole ([`check_size`]). The census examines [`STEP`]
//! chunks after each request for a small chunk, so no request takes long.

use core::ptr::{self, NonNull};

use super::list::{keep_lists, small_chunks};
use super::{ChunkHeap, RingEnv};
use crate::chunk::{ChunkPtr, suit};
use crate::geometry::Geometry;

/// The number of chunks that the census examines after a request.
const STEP: usize = 16;

/// Returns the number of small chunks with live blocks that a heap needs to become sparse: 64, or
/// 2 MiB, in the default geometry.
const fn least<G: Geometry>() -> usize {
    if G::RETAIN == 0 { 4 } else { G::RETAIN.saturating_mul(16) }
}

/// Continues the census after a request for a small chunk.
pub(super) fn note_requested<E: RingEnv>(env: E) {
    let heap = env.heap();
    if !suit::<E::Geometry>() || small_chunks(env) < least::<E::Geometry>() {
        return;
    }
    let Some(_kept) = keep_lists(&env) else { return };
    let (census, list) = (&heap.census, heap.small_chunks());
    let mut next = NonNull::new(census.next.get()).or_else(|| {
        census.chunks.set(0);
        census.live.set(0);
        list.newest()
    });
    for _ in 0..STEP {
        let Some(chunk) = next else { break };
        // SAFETY: the caller owns the heap (H1) and is alone (B4). The chunk is on the list:
        // `census.next` moves on before its chunk leaves the list.
        next = unsafe { list.after(chunk) };
        // SAFETY: a chunk on the list is not freed (C1).
        let live = unsafe { ChunkPtr::new(chunk) }.live();
        // Skip a chunk without live blocks. It is empty, or will be once its frees are booked.
        if live.blocks() != 0 {
            census.chunks.add(1);
            census.live.add(live.bytes());
        }
    }
    census.next.set(next.map_or(ptr::null_mut(), NonNull::as_ptr));
    if next.is_none() {
        end_pass::<E::Geometry>(heap);
    }
}

/// Decides at the end of a pass whether the heap is sparse.
fn end_pass<G: Geometry>(heap: &ChunkHeap) {
    let (chunks, live) = (heap.census.chunks.get(), heap.census.live.get());
    let held = chunks * G::SMALL_CHUNK;
    if chunks >= least::<G>() && live < held / 2 && !weakened!("heap_is_never_sparse") {
        heap.holes.set_sparse(true);
    } else if live > held / 4 * 3 && !weakened!("dense_heap_stays_sparse") {
        heap.holes.set_sparse(false);
    }
}

/// Makes the heap stop being sparse if few chunks are left. The owner or other threads may have
/// freed the others since the last census.
pub(super) fn check_size<E: RingEnv>(env: E) {
    if small_chunks(env) < least::<E::Geometry>() / 2 && !weakened!("small_heap_stays_sparse") {
        env.heap().holes.set_sparse(false);
    }
}
