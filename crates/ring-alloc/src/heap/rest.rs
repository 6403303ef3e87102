//! Small chunks that rest: a heap waits before it reuses a chunk that another thread emptied (see
//! `ephemera_prim::rest`). Decision 0028 has the measurements.

use ephemera_prim::rest::{REST, RestChange};

use super::RingEnv;
use super::list::small_chunks;
use crate::geometry::{ChunkClass, Geometry};

/// The minimum number of small chunks of a heap whose chunks rest. The cache lines of fewer chunks
/// stay in the caches of both cores, so it is faster to reuse the chunks at once.
const LEAST: usize = 3;

/// Decides whether small chunks rest from now on. Returns whether they rested and now stop. If so,
/// the heap may have more empty chunks than it should keep.
pub(super) fn ends<E: RingEnv>(env: E) -> bool {
    let may_rest = env.may_rest() && small_chunks(env) >= LEAST;
    let goal = if may_rest { REST / E::Geometry::SMALL_CHUNK } else { 0 };
    env.heap().rest.decide(1, goal) == RestChange::Ends
}

/// Counts a small chunk that a booking emptied, if that booking freed at least half of the blocks
/// that were allocated in the chunk since it was last empty. `given` counts the blocks that the
/// booking freed (a complete countdown exceeds every count), and `taken` all these blocks.
pub(super) fn note_emptied<E: RingEnv>(env: E, given: u64, taken: u64) {
    if given >= taken / 2 {
        env.heap().rest.note_freed(1);
    }
}

/// Returns whether small chunks rest. While they do, the heap takes its empty small chunks before
/// it books remote frees.
pub(super) fn has_resting<E: RingEnv>(env: E) -> bool {
    env.heap().rest.goal() != 0 && env.may_rest() && !weakened!("resting_chunks_wait_for_booking")
}

/// Returns whether the heap has fewer small chunks than its goal. If so, a heap without an empty
/// small chunk requests one before it books remote frees, so that chunks rest longer.
pub(super) fn grows<E: RingEnv>(env: E) -> bool {
    small_chunks(env) < env.heap().rest.goal() || weakened!("chunks_have_no_bound")
}

/// Returns the number of empty chunks of a class that the heap keeps.
pub(super) fn kept<E: RingEnv>(env: E, class: ChunkClass) -> usize {
    let rests = class == ChunkClass::Small && has_resting(env);
    env.retain().max(if rests { env.heap().rest.goal() } else { 0 })
}
