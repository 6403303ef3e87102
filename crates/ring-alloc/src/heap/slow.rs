//! The slow path: gets a new front for a heap, and keeps or frees a chunk that runs empty.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::{Limit, reserved};
use ephemera_prim::raw;

use super::list::{Wait, free_chunk};
use super::{ChunkHeap, RingEnv, chunk_behind, full_chunk, split};
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::ChunkClass;
use crate::live::LiveCount;

/// Allocates a block for which the front has no room. Books remote frees first, then takes an empty
/// chunk, and asks the backing allocator last.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: RingEnv>(
    env: E,
    layout: Layout,
    class: ChunkClass,
    limit: Limit,
) -> Result<NonNull<u8>, AllocError> {
    env.visit();
    if env.trim_asked() {
        trim(env);
    }
    env.settle();
    let heap = env.heap();
    // Booking may have emptied the front, which was then rewound.
    if let Some(block) = heap.front(class).bump(layout.size(), layout.align()) {
        return Ok(block);
    }
    let chunk = match split::pop_empty(env, class) {
        Some(chunk) => chunk,
        None => obtain(env, class, limit)?,
    };
    // The largest block fits into an empty chunk, as every geometry is checked for this. Allocate
    // before the chunk becomes the front: `install` may free the last front, and a backing
    // allocator that then flushes this very heap must not find the new front empty.
    let block = chunk.bump(layout.size(), layout.align());
    install(env, class, chunk);
    block.ok_or(AllocError)
}

/// Makes `chunk` the front. The last front stays pinned until its last block is freed.
fn install<E: RingEnv>(env: E, class: ChunkClass, chunk: ChunkPtr) {
    let last = env.heap().front(class);
    set_front(env, class, chunk.as_ptr());
    // The last front is empty only if the backing allocator allocated from this very heap.
    if last.as_ptr() != full_chunk() && last.is_empty() {
        ran_empty(env, last, class);
    }
}

/// Makes this chunk the front and tells `env` about it (H7). (`ChunkHeap::enter` also sets fronts,
/// before a thread-local names the record.)
fn set_front<E: RingEnv>(env: E, class: ChunkClass, chunk: *mut Chunk) {
    env.heap().set_front(class, chunk);
    if !cfg!(ephemera_weaken = "front_not_renewed") {
        env.front_changed();
    }
}

/// Takes a new chunk from the backing allocator.
#[cold]
#[inline(never)]
fn obtain<E: RingEnv>(env: E, class: ChunkClass, limit: Limit) -> Result<ChunkPtr, AllocError> {
    let layout = class.chunk_layout::<E::Geometry>();
    let ask = |limit| reserved(env.account(), layout.size(), limit, || raw::acquire(env.backing(), layout));
    let memory = ask(Limit::Applies).or_else(|AllocError| {
        make_room(env);
        ask(limit)
    });
    let memory = match memory {
        Ok(memory) => memory,
        Err(error) => return split::pop_section(env, class).ok_or(error),
    };
    if split::wanted(env, class) {
        // SAFETY: the memory was acquired above with the layout of a small chunk.
        return Ok(unsafe { split::create(env, memory) });
    }
    // SAFETY: the memory was acquired above with the chunk layout of `class`.
    let chunk = unsafe { ChunkPtr::create::<E::Geometry>(memory, class, env.identity()) };
    env.heap().link(chunk, class);
    env.heap().note_new(class);
    env.note_obtained(layout.size());
    Ok(chunk)
}

/// Frees the empty chunks of this thread and of the records that no thread has leased, after the
/// limit or the backing allocator refused a request. The caller then makes the request once more.
#[cold]
#[inline(never)]
pub(super) fn make_room<E: RingEnv>(env: E) {
    trim(env);
    env.last_resort();
}

/// Books the free of a block whose chunk may run empty or is split.
///
/// The order of the arguments is that of the caller, which then only has to jump here.
///
/// # Safety
/// `block` is a live block of this class and of `size` bytes, and the caller gives it up. Its chunk
/// is not the front, but its section may be.
#[cold]
#[inline(never)]
pub(super) unsafe fn book_last<E: RingEnv>(env: E, block: NonNull<u8>, size: usize, class: ChunkClass) {
    // SAFETY: the caller's live block is of this class and geometry.
    let chunk = unsafe { chunk_behind::<E::Geometry>(block, class) };
    let start = block.addr().get();
    let (unit, front) = split::unit_of(env, chunk, start, class);
    if front {
        unit.free_front(start, size);
    } else if unit.book(LiveCount::block(size)) {
        ran_empty(env, unit, class);
    }
}

/// Handles a chunk that ran empty and is not the front: keeps it, and then frees the chunks that
/// the heap has beyond `retain`.
#[cold]
#[inline(never)]
pub(super) fn ran_empty<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass) {
    chunk.rewind();
    if split::is_section(env, chunk, class) {
        return split::keep(env, chunk);
    }
    env.heap().push_empty(chunk, class);
    // A chunk that is used again before the next split one would be pinned again.
    let keep = if split::is_splitting(env, class) { 0 } else { env.retain() };
    free_empties_beyond(env, class, keep, Wait::No);
}

/// Frees empty chunks of a class until `keep` are left. A chunk that a walker stands on is kept in
/// place of another one.
fn free_empties_beyond<E: RingEnv>(env: E, class: ChunkClass, keep: usize, wait: Wait) {
    let heap = env.heap();
    let (mut walked, mut aside) = (None, 0);
    while heap.empties_len(class) + aside > keep {
        let Some(chunk) = heap.pop_empty(class) else { break };
        if !free_chunk(env, chunk, class, wait) {
            chunk.below().set(walked.map_or(ptr::null_mut(), ChunkPtr::as_ptr));
            (walked, aside) = (Some(chunk), aside + 1);
        }
    }
    while let Some(chunk) = walked {
        // SAFETY: C1: null, or a chunk that was linked above and is not freed.
        walked = unsafe { ChunkPtr::from_raw(chunk.below().get()) };
        heap.push_empty(chunk, class);
    }
}

/// Books remote frees, then frees every empty chunk, fronts included. Stores nothing in a heap
/// without chunks (H6).
pub(crate) fn trim<E: RingEnv>(env: E) {
    env.settle();
    free_empties(env);
}

/// Frees every empty chunk, fronts included.
pub(crate) fn free_empties<E: RingEnv>(env: E) {
    for class in ChunkClass::ALL {
        let heap = env.heap();
        let front = heap.front(class);
        if front.as_ptr() != full_chunk() && front.is_empty() {
            set_front(env, class, full_chunk());
            front.rewind();
            if split::is_section(env, front, class) {
                split::keep(env, front);
            } else {
                heap.push_empty(front, class);
            }
        }
        split::free_spares(env, class);
        free_empties_beyond(env, class, 0, Wait::Bounded);
    }
}

/// Books a chunk's remote frees, as they came out of the inbox. Returns whether the chunk still has
/// live blocks.
pub(crate) fn book_foreign<E: RingEnv>(env: E, chunk: ChunkPtr, given: u64) -> bool {
    if !chunk.book_word(given) {
        return true;
    }
    chunk.set_owner(env.identity());
    let class = chunk.class();
    if env.heap().front(class) == chunk {
        chunk.rewind();
    } else {
        ran_empty(env, chunk, class);
    }
    false
}

/// Lets a chunk of a record without a holder count down. After this, only the free of its last
/// block looks at the record.
///
/// The chunk stops being the front, so that the next holder does not allocate from it. That
/// holder's own frees in it write the foreign word too.
pub(crate) fn abandon<E: RingEnv>(env: E, chunk: ChunkPtr) {
    let class = chunk.class();
    if env.heap().front(class) == chunk {
        set_front(env, class, full_chunk());
    }
    chunk.abandon();
}

/// Frees every empty chunk at the end of a ring for one thread. Returns how many blocks and bytes
/// are live in the others, which stay.
pub(crate) fn dissolve<E: RingEnv>(env: E) -> (usize, usize) {
    trim(env);
    let mut left = (0, 0);
    env.heap().for_each(|chunk| {
        let live = chunk.live_now();
        left = (left.0 + live.blocks(), left.1 + live.bytes());
    });
    left
}

impl ChunkHeap {
    /// Returns whether the heap keeps an empty chunk, as far as this thread sees. For statistics.
    pub(crate) fn has_empties(&self) -> bool {
        self.empties_len.iter().any(|len| len.get() != 0)
    }

    fn empties_len(&self, class: ChunkClass) -> usize {
        self.empties_len[class.index()].get()
    }

    /// Puts an empty chunk on the stack of empties (H4).
    fn push_empty(&self, chunk: ChunkPtr, class: ChunkClass) {
        let top = &self.empties[class.index()];
        chunk.below().set(top.get());
        top.set(chunk.as_ptr());
        self.empties_len[class.index()].add(1);
    }

    /// Takes the empty chunk that was kept last, which is the likeliest to be in the caches.
    pub(super) fn pop_empty(&self, class: ChunkClass) -> Option<ChunkPtr> {
        let top = &self.empties[class.index()];
        let raw: *mut Chunk = top.get();
        // SAFETY: chunks on the stack of empties are freed only after they were popped (C1).
        let chunk = unsafe { ChunkPtr::from_raw(raw) }?;
        top.set(chunk.below().get());
        self.empties_len[class.index()].sub(1);
        Some(chunk)
    }
}
