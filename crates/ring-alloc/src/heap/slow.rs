//! The slow path: gets a new front for a heap, and keeps or frees a chunk that runs empty.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::{Account, Limit, reserved};
use ephemera_prim::raw;

use super::front::set_front;
use super::list::{Removal, Wait, set_postponed, unlink};
use super::{ChunkHeap, RingEnv, census, chunk_behind, holes, rest};
use crate::chunk::sections::Booking;
use crate::chunk::{Chunk, ChunkPtr};
use crate::cursor::room_of;
use crate::geometry::ChunkClass;
use crate::live::LiveCount;

/// Allocates a block that does not fit into the front. Books remote frees, which may empty the
/// front. If the block still does not fit, takes an empty chunk, or a hole for a small block, or
/// requests a chunk from the backing allocator.
///
/// While small chunks rest (`rest`), a small block first gets an empty or new chunk, before remote
/// frees are booked, unless a decision about the rest is due. This function does not divide such a
/// chunk.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: RingEnv>(
    env: E,
    layout: Layout,
    class: ChunkClass,
    limit: Limit,
) -> Result<NonNull<u8>, AllocError> {
    let chunk = match next_rested(env, class) {
        Some(chunk) => chunk,
        None => {
            env.book_mail();
            if E::HANDS_OVER && rest::ends(env) {
                free_empties_beyond(env, ChunkClass::Small, env.retain(), Wait::No);
            }
            let heap = env.heap();
            // Booking may have emptied the front and rewound it.
            if let Some(block) = holes::bump::<E::Geometry>(heap.front(class), layout) {
                return Ok(block);
            }
            next(env, class, limit)?
        }
    };
    // The largest block of the class fits into an empty chunk (`geometry::check`), and every small
    // block into a hole (`suit`). Allocate before the chunk becomes the front, because `install`
    // may free the previous front. The backing allocator may then trim this same heap, which would
    // free the new front if it were still empty.
    let block = holes::bump::<E::Geometry>(chunk.current(), layout);
    install(env, class, chunk);
    block.ok_or(AllocError)
}

/// Returns the next front: an empty chunk, a chunk with a hole for small blocks, or a new chunk.
fn next<E: RingEnv>(env: E, class: ChunkClass, limit: Limit) -> Result<ChunkPtr, AllocError> {
    if let Some(chunk) = env.heap().pop_empty(class) {
        holes::divide(env, chunk, class, false);
        return Ok(chunk);
    }
    let hole = if class == ChunkClass::Small { holes::take(env) } else { None };
    hole.map_or_else(|| obtain(env, class, limit), Ok)
}

/// If small chunks rest and no decision about the rest is due, returns the next small front: an
/// empty chunk, or a new one if the heap still grows. Returns `None` in all other cases, and if the
/// request for a new chunk is refused. The heap must then book remote frees first.
fn next_rested<E: RingEnv>(env: E, class: ChunkClass) -> Option<ChunkPtr> {
    if !E::HANDS_OVER || env.heap().rest.note_visit() || class != ChunkClass::Small || !rest::has_resting(env)
    {
        return None;
    }
    match env.heap().pop_empty(class) {
        None if rest::grows(env) => request(env, class, Limit::Applies).ok(),
        empty => empty,
    }
}

/// Makes `chunk` the front of `class`. The previous front is pinned until its last block is freed,
/// or joins the empties if it has no live block.
fn install<E: RingEnv>(env: E, class: ChunkClass, chunk: ChunkPtr) {
    let last = env.heap().front_chunk(class).filter(|last| *last != chunk);
    // Look at the previous front while it is still the front. If it is undivided and has remote
    // frees, another thread may evict it as soon as it is replaced.
    let [is_empty, is_divided] = last.map_or([false; 2], |last| [last.is_empty(), last.is_divided()]);
    set_front(env, class, Some(chunk));
    let Some(last) = last else { return };
    // The previous front is empty only if the backing allocator allocated from this same heap, or
    // if chunks rest.
    if is_empty {
        ran_empty(env, last, class);
    } else if is_divided {
        holes::leave(env, last);
    }
}

/// Takes a new chunk from the backing allocator. After a refusal, makes room, searches divided
/// chunks for a hole if the class is small, and then tries once more. The second attempt obeys the
/// limit only if `limit` is [`Limit::Applies`].
#[cold]
#[inline(never)]
fn obtain<E: RingEnv>(env: E, class: ChunkClass, limit: Limit) -> Result<ChunkPtr, AllocError> {
    let new = |limit| {
        let chunk = request(env, class, limit)?;
        holes::divide(env, chunk, class, true);
        Ok(chunk)
    };
    new(Limit::Applies).or_else(|AllocError| {
        make_room(env);
        let hole = if class == ChunkClass::Small { holes::take_any(env) } else { None };
        hole.map_or_else(|| new(limit), Ok)
    })
}

/// Requests a chunk from the backing allocator, and adds it to the list of all chunks.
fn request<E: RingEnv>(env: E, class: ChunkClass, limit: Limit) -> Result<ChunkPtr, AllocError> {
    let layout = class.chunk_layout::<E::Geometry>();
    let memory = reserved(env.account(), layout.size(), limit, || raw::acquire(env.backing(), layout))?;
    // SAFETY: the memory was acquired above with the chunk layout of `class`, for this chunk alone.
    let chunk = unsafe { ChunkPtr::create::<E::Geometry>(memory, class, env.identity()) };
    env.heap().link(chunk, class);
    if class == ChunkClass::Small {
        census::note_requested(env);
    }
    Ok(chunk)
}

/// Frees the empty chunks of this heap and of the records that no thread has leased, and asks the
/// holders of all other records to trim. The slow paths call this after the limit or the backing
/// allocator refused a request, and then repeat the request.
#[cold]
#[inline(never)]
pub(super) fn make_room<E: RingEnv>(env: E) {
    trim(env);
    env.last_resort();
}

/// Books the free of a block in an undivided chunk, which may then be empty. Afterwards, the caller
/// must not use the chunk: this call may free it, and so may another thread (B4).
///
/// # Safety
/// `block` is a block of `size` bytes that the caller owned and gives up, in a chunk of `class`
/// that `env` owns. The first cursor of that chunk is not the front of `env`'s heap.
#[inline(never)]
pub(super) unsafe fn book<E: RingEnv>(env: E, block: NonNull<u8>, size: usize, class: ChunkClass) {
    // SAFETY: the caller's block is of this class and geometry, and its free is not booked yet.
    let chunk = unsafe { chunk_behind::<E::Geometry>(block, class) };
    if chunk.book(LiveCount::block(size)) {
        ran_empty(env, chunk, class);
    }
}

/// Books the free of a block of `size` bytes at `start` in a divided chunk. `back` is the sum of
/// the booked frees with this one.
///
/// This function is not inlined and makes only tail calls, so that neither it nor its caller saves
/// registers. The caller has its own first arguments in the same registers.
#[inline(never)]
pub(super) fn book_divided<E: RingEnv>(env: E, start: usize, size: usize, chunk: ChunkPtr, back: u64) {
    let room = room_of(size);
    match chunk.book_in_section::<E::Geometry>(back, start, room) {
        Booking::Done => {}
        Booking::Due => holes::list(env, chunk),
        Booking::Uncounted => holes::count(env, chunk, start..start + room),
        Booking::Emptied => ran_empty(env, chunk, ChunkClass::Small),
    }
}

/// Handles a chunk that ran empty and whose first cursor is not the front: rewinds the chunk and
/// puts it on the stack of empties. Then frees empty chunks until only as many are left as the heap
/// keeps. If the chunk's second cursor is the front, the chunk stays the front.
#[cold]
#[inline(never)]
pub(super) fn ran_empty<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass) {
    let is_front = env.heap().divided_front() == Some(chunk);
    // A front that is divided again starts over, unless the heap stops being sparse.
    if is_front && holes::divide(env, chunk, class, false) {
        return;
    }
    holes::unite(env.heap(), chunk);
    chunk.rewind();
    if is_front {
        return set_front(env, class, Some(chunk));
    }
    env.heap().push_empty(chunk, class);
    free_empties_beyond(env, class, rest::kept(env, class), Wait::No);
}

/// Frees empty chunks of a class until `keep` are left. If a walker protects a chunk, keeps that
/// chunk instead of another one, or beyond `keep`. If another thread evicts chunks, keeps all
/// chunks that are left. `wait` says whether to wait for these threads first.
fn free_empties_beyond<E: RingEnv>(env: E, class: ChunkClass, keep: usize, wait: Wait) {
    let heap = env.heap();
    let (mut walked, mut aside) = (None, 0);
    while heap.empties_len[class.index()].get() + aside > keep {
        let Some(chunk) = heap.pop_empty(class) else { break };
        match free_chunk(env, chunk, class, wait) {
            Removal::Done => {}
            Removal::Protected => {
                chunk.below().set(walked.map_or(ptr::null_mut(), ChunkPtr::as_ptr));
                (walked, aside) = (Some(chunk), aside + 1);
            }
            Removal::Postponed => {
                heap.push_empty(chunk, class);
                break;
            }
        }
    }
    while let Some(chunk) = walked {
        // SAFETY: the pointer is null or names a chunk that was set aside above and is not freed
        // (C1).
        walked = unsafe { ChunkPtr::from_raw(chunk.below().get()) };
        heap.push_empty(chunk, class);
    }
}

/// Frees a popped empty chunk, if it can be removed from the list of all chunks. Otherwise, the
/// chunk is only on that list, and the caller must push it again.
#[cold]
#[inline(never)]
fn free_chunk<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass, wait: Wait) -> Removal {
    let removal = unlink(env, chunk, class, wait);
    if removal != Removal::Done {
        return removal;
    }
    let layout = class.chunk_layout::<E::Geometry>();
    let memory = chunk.end_of_life();
    // SAFETY: the chunk is empty and on no list (H4, H5), so nothing points to it. It came from
    // `backing` with this layout.
    unsafe { raw::release(env.backing(), memory, layout) };
    env.account().release(layout.size());
    removal
}

/// Books remote frees, ends the rest of chunks, and frees the empty chunks as [`free_empties`]
/// does. Does not write to a heap without an owner (H6).
pub(crate) fn trim<E: RingEnv>(env: E) {
    env.book_mail();
    // Chunks never rest in the heaps of NOWHERE and GONE, so this call does not write to them (H6).
    if env.heap().rest.goal() != 0 {
        env.heap().rest.end();
    }
    free_empties(env);
}

/// Frees every empty chunk, including empty fronts. Keeps a chunk if, after a bounded wait, a
/// walker still protects it or another thread still evicts chunks.
pub(crate) fn free_empties<E: RingEnv>(env: E) {
    set_postponed(env, false);
    for class in ChunkClass::ALL {
        let heap = env.heap();
        if let Some(front) = heap.front_chunk(class).filter(|front| front.is_empty()) {
            set_front(env, class, None);
            holes::unite(heap, front);
            front.rewind();
            heap.push_empty(front, class);
        }
        free_empties_beyond(env, class, 0, Wait::Bounded);
    }
}

/// Books `given`, the foreign word of a chunk that came out of the inbox. Returns `false` if the
/// chunk ran empty: this function has then rewound it, divided it again or freed it. Otherwise,
/// returns `true`. The caller may use the chunk afterwards only if it keeps other threads from
/// evicting chunks ([`keep_chunks`](super::list::keep_chunks)).
pub(crate) fn book_foreign<E: RingEnv>(env: E, chunk: ChunkPtr, given: u64) -> bool {
    // Read this before the frees are booked. After that, another thread may free the last blocks of
    // an undivided chunk, and evict the chunk.
    let is_divided = chunk.is_divided();
    if !chunk.book_word(given) {
        if is_divided {
            holes::note_booked(env, chunk);
        }
        return true;
    }
    chunk.set_owner(env.identity());
    let class = chunk.class();
    if class == ChunkClass::Small {
        rest::note_emptied(env, given, chunk.taken());
    }
    if env.heap().front(class) == chunk.front() {
        chunk.rewind();
    } else {
        ran_empty(env, chunk, class);
    }
    false
}

/// Abandons a chunk of a record without a holder: its foreign word becomes a countdown of the live
/// blocks, unless another remote free has arrived. During a countdown, only the free of the last
/// live block touches the record.
///
/// If the chunk is a front, the full chunk replaces it, so that the next holder of the record does
/// not allocate from the abandoned chunk. Even that holder frees the chunk's blocks through the
/// foreign word.
pub(crate) fn abandon<E: RingEnv>(env: E, chunk: ChunkPtr) {
    let class = chunk.class();
    if env.heap().front_chunk(class) == Some(chunk) {
        set_front(env, class, None);
    }
    holes::unite(env.heap(), chunk);
    chunk.abandon();
}

/// Frees every empty chunk of a ring for one thread, when the ring is dropped. Returns the numbers
/// of live blocks and bytes in the remaining chunks.
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
    /// Returns whether the heap has an empty chunk on a stack of empties, as far as this thread
    /// sees.
    pub(crate) fn has_empties(&self) -> bool {
        self.empties_len.iter().any(|len| len.get() != 0)
    }

    /// Puts an empty chunk on the stack of empties (H4).
    fn push_empty(&self, chunk: ChunkPtr, class: ChunkClass) {
        let top = &self.empties[class.index()];
        chunk.below().set(top.get());
        top.set(chunk.as_ptr());
        self.empties_len[class.index()].add(1);
    }

    /// Takes the empty chunk that was pushed last, which is the most likely to be in the caches.
    /// Returns `None` if there is no empty chunk.
    fn pop_empty(&self, class: ChunkClass) -> Option<ChunkPtr> {
        let top = &self.empties[class.index()];
        let raw: *mut Chunk = top.get();
        // SAFETY: chunks on the stack of empties are freed only after they were popped (C1).
        let chunk = unsafe { ChunkPtr::from_raw(raw) }?;
        top.set(chunk.below().get());
        self.empties_len[class.index()].sub(1);
        Some(chunk)
    }
}
