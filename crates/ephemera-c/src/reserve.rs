//! A reserve of small blocks that serves the C library when the operating system refuses pages.
//!
//! A thread's first allocation registers an exit guard. To register the guard, the C library
//! allocates a block through this library, unless a key replaces the guard
//! ([`end_threads_by_key`](ephemera_prim::local::end_threads_by_key)). If the system refuses the
//! memory for this block, the reserve serves the block, because the C library would otherwise end
//! the process. The C library frees the block when the thread ends.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use ephemera_prim::sync::change_if;

/// The size of a block of the reserve in bytes. The C library requests less.
pub(crate) const SIZE: usize = 64;

/// The layout of a block of the reserve. No other block has this alignment.
pub(crate) const LAYOUT: Layout = Layout::new::<[u8; SIZE]>();

/// The number of blocks, and of bits in [`USED`]. Each block serves one thread that started while
/// the system had no memory.
const BLOCKS: usize = 64 * 8;

#[repr(align(64))]
struct Blocks(UnsafeCell<[[u8; SIZE]; BLOCKS]>);

// SAFETY: only the owner of a block accesses it: the thread that set its bit, and then the caller
// of `take`.
unsafe impl Sync for Blocks {}

static RESERVE: Blocks = Blocks(UnsafeCell::new([[0; SIZE]; BLOCKS]));
/// One bit for each block, which is 1 while the block is in use.
static USED: [AtomicU64; BLOCKS / 64] = [const { AtomicU64::new(0) }; BLOCKS / 64];

/// Takes a block, whose bytes are zero. Returns `None` if all blocks are in use.
#[cold]
pub(crate) fn take() -> Option<NonNull<u8>> {
    let index = USED.iter().enumerate().find_map(|(number, word)| {
        // ORDERING: Acquire. Pairs with the Release in `give`: this thread sees the last accesses
        // to the block.
        let exchange =
            |used, more| word.compare_exchange_weak(used, more, Ordering::Acquire, Ordering::Relaxed);
        let more = |used: u64| (used != u64::MAX).then(|| used | (used + 1));
        let used = change_if(word.load(Ordering::Relaxed), exchange, more).ok()?;
        Some(number * 64 + used.trailing_ones() as usize)
    })?;
    let start = RESERVE.0.get().cast::<u8>();
    // SAFETY: `index` is less than `BLOCKS`, so the block is in the reserve.
    let block = unsafe { start.add(index * SIZE) };
    // SAFETY: the block is in a static, so its address is not null.
    let block = unsafe { NonNull::new_unchecked(block) };
    // SAFETY: this thread has just set the block's bit, so it owns the block.
    unsafe { block.write_bytes(0, SIZE) };
    Some(block)
}

/// Returns the number of the block that starts at this address, or `None` if there is none.
fn number_of(block: NonNull<u8>) -> Option<usize> {
    let offset = block.addr().get().wrapping_sub(RESERVE.0.get().addr());
    (offset < SIZE * BLOCKS && offset % SIZE == 0).then_some(offset / SIZE)
}

/// Returns whether a block of the reserve, live or free, starts at this address.
#[cold]
pub(crate) fn has(block: NonNull<u8>) -> bool {
    number_of(block).is_some()
}

/// Returns whether a live block of the reserve starts at this address.
#[cold]
pub(crate) fn is_live(block: NonNull<u8>) -> bool {
    number_of(block).is_some_and(|number| {
        let used = USED[number / 64].load(Ordering::Relaxed);
        used & 1 << (number % 64) != 0
    })
}

/// Frees a block of the reserve. Returns `false` if no live block starts at this address.
#[cold]
pub(crate) fn give(block: NonNull<u8>) -> bool {
    number_of(block).is_some_and(|number| {
        let bit = 1 << (number % 64);
        // ORDERING: Release. Pairs with the Acquire in `take`. Publishes: the last accesses to the
        // block.
        USED[number / 64].fetch_and(!bit, Ordering::Release) & bit != 0
    })
}
