//! Where fronts come from and where drained chunks go.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::raw;

use super::list::Wait;
use super::{Env, Heap, full_chunk};
use crate::account::{Account, Limit};
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::Class;

/// A block, when the front has no room for it: what other threads gave back is booked first, then an empty
/// chunk is taken, then one from the backing allocator.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: Env>(
    env: E,
    layout: Layout,
    class: Class,
    limit: Limit,
) -> Result<NonNull<u8>, AllocError> {
    if env.trim_asked() {
        trim(env);
    }
    env.settle();
    let heap = env.heap();
    // Booking may have drained the front, and so rewound it.
    if let Some(block) = heap.front(class).bump(layout.size(), layout.align()) {
        return Ok(block);
    }
    let chunk = match heap.pop_empty(class) {
        Some(chunk) => chunk,
        None => obtain(env, class, limit)?,
    };
    // Every geometry is checked for this: the largest block fits an empty chunk. It is taken before the chunk becomes the
    // front: to install it may give back the last one, and a backing allocator that then flushes this very heap must not
    // find the new one drained.
    let block = chunk.bump(layout.size(), layout.align());
    install(env, class, chunk);
    block.ok_or(AllocError)
}

/// Makes `chunk` the front. The last front goes on without the heap, until its last block comes home.
fn install<E: Env>(env: E, class: Class, chunk: ChunkPtr) {
    let last = env.heap().front(class);
    set_front(env, class, chunk.as_ptr());
    // Only a backing allocator that allocates from this very heap can leave a drained front behind.
    if last.as_ptr() != full_chunk() && last.is_drained() {
        drained(env, last, class);
    }
}

/// Makes this the front, on every way that leads to it (H7). (`Heap::enter` sets fronts too, before a thread-local names the record.)
fn set_front<E: Env>(env: E, class: Class, chunk: *mut Chunk) {
    env.heap().set_front(class, chunk);
    if !cfg!(ephemera_weaken = "front_not_renewed") {
        env.front_changed();
    }
}

/// A chunk from the backing allocator.
fn obtain<E: Env>(env: E, class: Class, limit: Limit) -> Result<ChunkPtr, AllocError> {
    let layout = class.chunk_layout::<E::Geometry>();
    let memory = acquire(env, layout.size(), limit, || raw::acquire(env.backing(), layout))?;
    // SAFETY: just acquired with that layout.
    let chunk = unsafe { ChunkPtr::create::<E::Geometry>(memory, class, env.identity()) };
    env.heap().link(chunk, class);
    Ok(chunk)
}

/// Takes memory from the backing allocator under the limit. Before a refusal by either, this thread and the records that no
/// thread has leased free what is empty, and the request is made once more.
pub(super) fn acquire<E: Env, T>(
    env: E,
    bytes: usize,
    limit: Limit,
    ask: impl Fn() -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    let attempt = |limit| {
        let reserved = Reserved::take(env.account(), bytes, limit)?;
        let got = ask()?;
        reserved.keep();
        Ok(got)
    };
    attempt(Limit::Applies).or_else(|_| {
        trim(env);
        env.last_resort();
        attempt(limit)
    })
}

/// Bytes that are reserved and not granted yet: released again unless kept, also when the backing allocator unwinds.
struct Reserved<'a, A: Account> {
    account: &'a A,
    bytes: usize,
}

impl<'a, A: Account> Reserved<'a, A> {
    fn take(account: &'a A, bytes: usize, limit: Limit) -> Result<Self, AllocError> {
        if limit == Limit::Lifted {
            account.reserve_beyond(bytes);
        } else if !account.reserve(bytes) {
            return Err(AllocError);
        }
        Ok(Self { account, bytes })
    }

    fn keep(self) {
        core::mem::forget(self);
    }
}

impl<A: Account> Drop for Reserved<'_, A> {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// Keeps a drained chunk that is not the front for the next need, then frees as many as the heap has beyond `retain`.
#[cold]
#[inline(never)]
pub(super) fn drained<E: Env>(env: E, chunk: ChunkPtr, class: Class) {
    chunk.rewind();
    let heap = env.heap();
    heap.push_empty(chunk, class);
    // More than one only where a walker stood on a chunk when it should have been freed.
    while heap.empties_len(class) > env.retain() {
        let Some(chunk) = heap.pop_empty(class) else { return };
        if !give_back(env, chunk, class, Wait::No) {
            return heap.push_empty(chunk, class);
        }
    }
}

/// Frees a drained chunk. Returns `false`, with the chunk on the list of all chunks and no other, if a walker stands on it.
fn give_back<E: Env>(env: E, chunk: ChunkPtr, class: Class, wait: Wait) -> bool {
    if !env.heap().unlink(chunk, class, wait) {
        return false;
    }
    let layout = class.chunk_layout::<E::Geometry>();
    // SAFETY: drained and on no list any more (H4, H5): nobody has a pointer to it; it came from `backing` with this layout.
    unsafe { raw::release(env.backing(), chunk.end_of_life(), layout) };
    env.account().release(layout.size());
    true
}

/// Books remote frees, then frees every drained chunk, the fronts among them. Stores nothing in a heap without chunks (H6).
pub(crate) fn trim<E: Env>(env: E) {
    env.settle();
    give_up_empties(env);
}

/// Frees every drained chunk, the fronts among them.
pub(crate) fn give_up_empties<E: Env>(env: E) {
    for class in Class::ALL {
        let heap = env.heap();
        let front = heap.front(class);
        if front.as_ptr() != full_chunk() && front.is_drained() {
            set_front(env, class, full_chunk());
            front.rewind();
            heap.push_empty(front, class);
        }
        let mut kept = None;
        while let Some(chunk) = heap.pop_empty(class) {
            if !give_back(env, chunk, class, Wait::Bounded) {
                chunk.below().set(kept.map_or(ptr::null_mut(), ChunkPtr::as_ptr));
                kept = Some(chunk);
            }
        }
        while let Some(chunk) = kept {
            // SAFETY: C1: null, or one of the chunks that were linked above and are not freed.
            kept = unsafe { ChunkPtr::from_raw(chunk.below().get()) };
            heap.push_empty(chunk, class);
        }
    }
}

/// Books one chunk's remote frees, as they came out of the inbox. Returns whether the chunk still has live blocks.
#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
pub(crate) fn book_foreign<E: Env>(env: E, chunk: ChunkPtr, given: u64) -> bool {
    if !chunk.book_word(given) {
        return true;
    }
    chunk.set_owner(env.identity());
    let class = chunk.class();
    if env.heap().front(class) == chunk {
        chunk.rewind();
    } else {
        drained(env, chunk, class);
    }
    false
}

/// Makes a chunk of a record without a holder count down: only the free of its last block looks at the record again.
///
/// The chunk stops being the front, so that the next holder does not allocate from it, and that holder's own frees go
/// through the foreign word too.
#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
pub(crate) fn abandon<E: Env>(env: E, chunk: ChunkPtr) {
    let class = chunk.class();
    if env.heap().front(class) == chunk {
        set_front(env, class, full_chunk());
    }
    chunk.abandon();
}

/// Gives back what can be, at the end of a heap for one thread; chunks with live blocks are left alone.
/// Returns how many blocks and bytes are alive in those.
pub(crate) fn dissolve<E: Env>(env: E) -> (usize, usize) {
    trim(env);
    let mut left = (0, 0);
    env.heap().for_each(|chunk| {
        let live = chunk.live_now();
        left = (left.0 + live.blocks(), left.1 + live.bytes());
    });
    left
}

impl Heap {
    fn empties_len(&self, class: Class) -> usize {
        self.empties_len[class.index()].get()
    }

    /// Keeps a drained chunk (H4).
    fn push_empty(&self, chunk: ChunkPtr, class: Class) {
        let top = &self.empties[class.index()];
        chunk.below().set(top.get());
        top.set(chunk.as_ptr());
        self.empties_len[class.index()].add(1);
    }

    /// Takes the drained chunk that was kept last: the likeliest to be in the caches.
    fn pop_empty(&self, class: Class) -> Option<ChunkPtr> {
        let top = &self.empties[class.index()];
        let raw: *mut Chunk = top.get();
        // SAFETY: C1: chunks on the stack of empties are freed only after they were popped.
        let chunk = unsafe { ChunkPtr::from_raw(raw) }?;
        top.set(chunk.below().get());
        self.empties_len[class.index()].sub(1);
        Some(chunk)
    }
}
