//! Memory that is never freed, such as records and tables.
//!
//! [`allocate`] cuts blocks from a chunk, from its start to its end. If a block does not fit, a new
//! chunk becomes the current one, and the remaining bytes of the old one stay unused.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::{budget, os};
use crate::sync::change_if;

/// The length of a chunk, in bytes. A block that needs more than half of a chunk gets its own
/// mapping.
const CHUNK: usize = os::GRAIN;

/// The header at the start of a chunk.
struct PermanentChunk {
    /// The offset of the first byte that no block uses.
    next: AtomicUsize,
}

static CURRENT: AtomicPtr<PermanentChunk> = AtomicPtr::new(ptr::null_mut());

/// Allocates a block of zeros that is never freed. Returns `None` if there is no memory.
pub(super) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    let with_head = size_of::<PermanentChunk>().checked_add(layout.align())?.checked_add(layout.size())?;
    if with_head > CHUNK / 2 {
        // A mapping cannot be empty, so a block of size zero counts as one byte.
        let len = layout.size().max(1).checked_next_multiple_of(os::GRAIN)?;
        let block = os::map(len, layout.align())?;
        budget::mapped(len);
        return Some(block);
    }
    loop {
        // ORDERING: Acquire. Pairs with the Release in `next_chunk`.
        let chunk = CURRENT.load(Ordering::Acquire);
        let block = NonNull::new(chunk).and_then(|chunk| cut(chunk, layout));
        if block.is_some() {
            return block;
        }
        next_chunk(chunk)?;
    }
}

/// Cuts a block from a chunk. Returns `None` if the block does not fit.
fn cut(chunk: NonNull<PermanentChunk>, layout: Layout) -> Option<NonNull<u8>> {
    let start = chunk.addr().get();
    let place = |next: usize| (start + next).next_multiple_of(layout.align()) - start;
    // SAFETY: `CURRENT` names only initialised chunks, which are never unmapped.
    let next = unsafe { &chunk.as_ref().next };
    let step = |next: usize| Some(place(next) + layout.size()).filter(|end| *end <= CHUNK);
    // Relaxed suffices, because the bytes of a chunk are zero and blocks do not overlap.
    let exchange = |old, new| next.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed);
    let before = change_if(next.load(Ordering::Relaxed), exchange, step).ok()?;
    // SAFETY: the block ends within the chunk.
    Some(unsafe { chunk.cast::<u8>().add(place(before)) })
}

/// Makes a new chunk the current one, unless another thread has already replaced `full`. Returns
/// `None` if there is no memory for a chunk.
#[cold]
fn next_chunk(full: *mut PermanentChunk) -> Option<()> {
    let fresh = os::map(CHUNK, os::GRAIN)?.cast::<PermanentChunk>();
    // SAFETY: the mapping is new and aligned, and larger than the header.
    unsafe { fresh.write(PermanentChunk { next: AtomicUsize::new(size_of::<PermanentChunk>()) }) };
    let (new, relaxed) = (fresh.as_ptr(), Ordering::Relaxed);
    // ORDERING: Release. Pairs with the Acquire in `allocate`. Publishes: the chunk's header.
    if CURRENT.compare_exchange(full, new, Ordering::Release, relaxed).is_ok() {
        budget::mapped(CHUNK);
    } else {
        // SAFETY: the mapping was not published, so no other thread uses it.
        let _ = unsafe { os::unmap(fresh.cast(), CHUNK) };
    }
    Some(())
}
