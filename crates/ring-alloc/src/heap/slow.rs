//! Where fronts come from and where drained chunks go.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::raw;

use super::{Env, Heap, full_chunk};
use crate::account::Account;
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::Class;
#[cfg(any(feature = "std", ephemera_loom))]
use crate::live::Live;

/// A block, when the front has no room for it: what other threads gave back is booked first, then an empty
/// chunk is taken, then one from the backing allocator.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: Env>(env: E, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
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
        None => obtain(env, class)?,
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
fn obtain<E: Env>(env: E, class: Class) -> Result<ChunkPtr, AllocError> {
    let layout = class.chunk_layout::<E::Geometry>();
    let memory = acquire(env, layout.size(), || raw::acquire(env.backing(), layout))?;
    // SAFETY: just acquired with that layout.
    let chunk = unsafe { ChunkPtr::create::<E::Geometry>(memory, class, env.identity()) };
    env.heap().link(chunk, class);
    Ok(chunk)
}

/// Takes memory under the limit: reserved first, asked for then, and before either refusal is passed on, what
/// is held in vain is given back and the request made once more.
pub(super) fn acquire<E: Env, T>(
    env: E,
    bytes: usize,
    ask: impl Fn() -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    let attempt = || {
        let reserved = Reserved::take(env.account(), bytes)?;
        let got = ask()?;
        reserved.keep();
        Ok(got)
    };
    attempt().or_else(|_| {
        trim(env);
        env.last_resort();
        attempt()
    })
}

/// Bytes that are reserved and not granted yet: released again unless kept, also when the backing allocator unwinds.
struct Reserved<'a, A: Account> {
    account: &'a A,
    bytes: usize,
}

impl<'a, A: Account> Reserved<'a, A> {
    fn take(account: &'a A, bytes: usize) -> Result<Self, AllocError> {
        if account.reserve(bytes) { Ok(Self { account, bytes }) } else { Err(AllocError) }
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

/// A chunk was drained that is not the front: kept for the next need, or given back.
#[cold]
#[inline(never)]
pub(super) fn drained<E: Env>(env: E, chunk: ChunkPtr, class: Class) {
    chunk.rewind();
    let heap = env.heap();
    if heap.empties_len(class) >= env.retain() && give_back(env, chunk, class) {
        return;
    }
    heap.push_empty(chunk, class);
}

/// Gives a drained chunk to the backing allocator, unless somebody walks along the list of chunks for longer
/// than this thread may wait: `false`, and the chunk stays.
fn give_back<E: Env>(env: E, chunk: ChunkPtr, class: Class) -> bool {
    if !env.heap().unlink(chunk, class) {
        return false;
    }
    let layout = class.chunk_layout::<E::Geometry>();
    // SAFETY: drained and on no list any more (H4, H5): nobody has a pointer to it; it came from `backing` with this layout.
    unsafe { raw::release(env.backing(), chunk.end_of_life(), layout) };
    env.account().release(layout.size());
    true
}

/// Books what was given back, then gives back every drained chunk, the fronts among them. Stores nothing in a heap without chunks (H6).
pub(crate) fn trim<E: Env>(env: E) {
    env.settle();
    for class in Class::ALL {
        let heap = env.heap();
        let front = heap.front(class);
        if front.as_ptr() != full_chunk() && front.is_drained() {
            set_front(env, class, full_chunk());
            front.rewind();
            heap.push_empty(front, class);
        }
        while let Some(chunk) = heap.pop_empty(class) {
            if !give_back(env, chunk, class) {
                heap.push_empty(chunk, class);
                break;
            }
        }
    }
}

/// Books one chunk's foreign frees, as they came out of the inbox.
#[cfg(any(feature = "std", ephemera_loom))]
pub(crate) fn book_foreign<E: Env>(env: E, chunk: ChunkPtr, given: Live) {
    if !chunk.book(given) {
        return;
    }
    let class = chunk.class();
    if env.heap().front(class) == chunk {
        chunk.rewind();
    } else {
        drained(env, chunk, class);
    }
}

/// Gives back what can be, at the end of a heap for one thread; chunks with live blocks are left alone.
/// Returns how many blocks and bytes are alive in those.
pub(crate) fn dissolve<E: Env>(env: E) -> (usize, usize) {
    trim(env);
    let mut left = (0, 0);
    env.heap().walk(|_, chunk| {
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
