//! Splits chunks into sections, so that a long-lived block pins 4 KiB instead of 32 KiB.
//!
//! One live block pins its whole chunk. If one block in a hundred lives long, almost every chunk
//! has one. So when the chunks of a ring are mostly empty, new chunks are split: a live block then
//! pins a section, an eighth of a chunk. The fast path is the same. Every free in a split chunk
//! takes the slow path, which is still cheaper than memory that is in no cache.
//!
//! A *census* decides: it compares the live bytes with the bytes held whenever the number of chunks
//! has grown by an eighth. The design page has the invariants S1 to S3.

use core::ptr::{self, NonNull};

use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use super::list::{Wait, free_chunk};
use super::{ChunkHeap, RingEnv};
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::{ChunkClass, Geometry, SECTIONS};

/// The number of small chunks at which the first census takes place.
const FIRST_CENSUS: usize = 64;

/// A heap splits new chunks from a census that finds fewer live bytes than this, per mille, until
/// one that finds at least `DENSE`. Split chunks alone can be denser than `SPARSE`.
const SPARSE: usize = 250;
const DENSE: usize = 750;

/// The empty sections of a heap, and the outcome of its last census.
#[derive(Debug)]
pub(super) struct SplitState {
    sections: OwnerPtr<Chunk>,
    sections_len: OwnerUsize,
    /// The number of small chunks, split ones included.
    chunks: OwnerUsize,
    /// The number of small chunks at which the next census takes place.
    census_at: OwnerUsize,
    /// 1 if new chunks are split, else 0.
    splitting: OwnerUsize,
}

impl SplitState {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self {
                sections: OwnerPtr::null(),
                sections_len: OwnerUsize::new(0),
                chunks: OwnerUsize::new(0),
                census_at: OwnerUsize::new(FIRST_CENSUS),
                splitting: OwnerUsize::new(0),
            }
        }
    }
}

/// Returns the section of a block in a split chunk, and whether it is the front. Returns any other
/// chunk, which is not the front.
#[inline]
pub(super) fn unit_of<E: RingEnv>(
    env: E,
    chunk: ChunkPtr,
    start: usize,
    class: ChunkClass,
) -> (ChunkPtr, bool) {
    if !E::SPLITS || !chunk.is_split() {
        return (chunk, false);
    }
    let section = chunk.section_of(start);
    (section, section == env.front(class))
}

/// Returns whether `chunk` is a section.
pub(super) fn is_section<E: RingEnv>(_: E, chunk: ChunkPtr, class: ChunkClass) -> bool {
    E::SPLITS && class == ChunkClass::Small && chunk.addr() % E::Geometry::SMALL_CHUNK != 0
}

/// Takes an empty chunk or section for a new front.
pub(super) fn pop_empty<E: RingEnv>(env: E, class: ChunkClass) -> Option<ChunkPtr> {
    let section = if is_splitting(env, class) { pop_section(env, class) } else { None };
    section.or_else(|| env.heap().pop_empty(class))
}

/// Returns whether the last census found the chunks of this class mostly empty.
pub(super) fn is_splitting<E: RingEnv>(env: E, class: ChunkClass) -> bool {
    E::SPLITS && class == ChunkClass::Small && env.heap().split.splitting.get() != 0
}

/// Takes an empty section.
pub(super) fn pop_section<E: RingEnv>(env: E, class: ChunkClass) -> Option<ChunkPtr> {
    if !E::SPLITS || class != ChunkClass::Small {
        return None;
    }
    let raw: *mut Chunk = env.heap().split.sections.get();
    // SAFETY: C1: a section on the list is in a chunk that is not freed before the section is
    // removed.
    let section = unsafe { ChunkPtr::from_raw(raw) }?;
    env.heap().remove_section(section);
    section.split_chunk::<E::Geometry>().idle_sections().sub(1);
    Some(section)
}

/// Keeps an empty section for the next need. Frees its chunk if all of its sections are empty and
/// the heap has enough others (S3).
pub(super) fn keep<E: RingEnv>(env: E, section: ChunkPtr) {
    add_section(env, section);
    let chunk = section.split_chunk::<E::Geometry>();
    let enough = SECTIONS * (env.retain() + 1);
    if chunk.idle_sections().get() == SECTIONS && env.heap().split.sections_len.get() > enough {
        free(env, chunk);
    }
}

fn add_section<E: RingEnv>(env: E, section: ChunkPtr) {
    env.heap().insert_section(section);
    section.split_chunk::<E::Geometry>().idle_sections().add(1);
}

/// Frees every split chunk whose sections are all empty.
pub(super) fn free_spares<E: RingEnv>(env: E, class: ChunkClass) {
    if !E::SPLITS || class != ChunkClass::Small {
        return;
    }
    while let Some(chunk) = spare(env) {
        free(env, chunk);
    }
}

/// Returns a split chunk whose sections are all empty. There are few of them (S3).
fn spare<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let mut next: *mut Chunk = env.heap().split.sections.get();
    // SAFETY: C1: as in `pop_section`.
    while let Some(section) = unsafe { ChunkPtr::from_raw(next) } {
        let chunk = section.split_chunk::<E::Geometry>();
        if chunk.idle_sections().get() == SECTIONS {
            return Some(chunk);
        }
        next = section.next().get();
    }
    None
}

/// Frees a split chunk whose sections are all on the list.
fn free<E: RingEnv>(env: E, chunk: ChunkPtr) {
    for section in chunk.sections() {
        env.heap().remove_section(section);
    }
    let freed = free_chunk(env, chunk, ChunkClass::Small, Wait::No);
    ephemera_prim::invariant!(freed, "another thread walks the chunks of a heap that splits them");
}

/// Returns whether a new chunk is split. Takes a census if one is due.
pub(super) fn wanted<E: RingEnv>(env: E, class: ChunkClass) -> bool {
    if !E::SPLITS || class != ChunkClass::Small {
        return false;
    }
    let state = &env.heap().split;
    let chunks = state.chunks.get();
    if chunks >= state.census_at.get() {
        let mut live = 0;
        env.heap().for_each(|chunk| {
            if chunk.class() == ChunkClass::Small {
                live += chunk.live_now().bytes();
            }
        });
        let held = chunks * E::Geometry::SMALL_CHUNK;
        let bound = if state.splitting.get() == 0 { SPARSE } else { DENSE };
        let sparse = live < held / 1_000 * bound && !cfg!(ephemera_weaken = "ring_never_splits");
        state.splitting.set(usize::from(sparse));
        state.census_at.set(chunks + chunks / 8);
    }
    is_splitting(env, class)
}

/// Creates a split chunk and returns one of its sections.
///
/// # Safety
/// `memory` was acquired with the layout of a small chunk, and [`wanted`] returned `true`.
pub(super) unsafe fn create<E: RingEnv>(env: E, memory: NonNull<u8>) -> ChunkPtr {
    // SAFETY: the memory is the caller's. The heap splits chunks, so its geometry has sections.
    let chunk = unsafe { ChunkPtr::create_split::<E::Geometry>(memory, env.identity()) };
    env.heap().link(chunk, ChunkClass::Small);
    env.heap().note_new(ChunkClass::Small);
    env.note_obtained(ChunkClass::Small.chunk_layout::<E::Geometry>().size());
    let mut sections = chunk.sections();
    let front = sections.next().unwrap_or(chunk);
    sections.for_each(|section| add_section(env, section));
    front
}

impl ChunkHeap {
    /// Counts a new chunk.
    pub(super) fn note_new(&self, class: ChunkClass) {
        if class == ChunkClass::Small {
            self.split.chunks.add(1);
        }
    }

    /// Counts a chunk that was freed. The next census is due when half of the chunks are gone. A
    /// heap with few chunks does not split new ones.
    pub(super) fn note_freed(&self, class: ChunkClass) {
        if class != ChunkClass::Small {
            return;
        }
        let state = &self.split;
        state.chunks.sub(1);
        let chunks = state.chunks.get();
        if chunks < FIRST_CENSUS / 2 {
            state.splitting.set(0);
        }
        if chunks < state.census_at.get() / 2 {
            state.census_at.set(chunks.max(FIRST_CENSUS));
        }
    }

    /// Adds an empty section to the list of empty sections (S2).
    fn insert_section(&self, section: ChunkPtr) {
        let head: *mut Chunk = self.split.sections.get();
        section.next().set(head);
        section.prev().set(ptr::null_mut());
        // SAFETY: C1: as in `pop_section`.
        if let Some(head) = unsafe { ChunkPtr::from_raw(head) } {
            head.prev().set(section.as_ptr());
        }
        self.split.sections.set(section.as_ptr());
        self.split.sections_len.add(1);
    }

    /// Removes a section from the list of empty sections.
    fn remove_section(&self, section: ChunkPtr) {
        let (next, prev): (*mut Chunk, *mut Chunk) = (section.next().get(), section.prev().get());
        // SAFETY: C1: as in `pop_section`.
        if let Some(next) = unsafe { ChunkPtr::from_raw(next) } {
            next.prev().set(prev);
        }
        // SAFETY: C1: as above.
        match unsafe { ChunkPtr::from_raw(prev) } {
            Some(prev) => prev.next().set(next),
            None => self.split.sections.set(next),
        }
        self.split.sections_len.sub(1);
    }
}
