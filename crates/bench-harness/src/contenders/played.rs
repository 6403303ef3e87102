//! Players that replay the program of a trace over contenders that hand out blocks.

use core::alloc::{GlobalAlloc, Layout};

use ephemera_trace::replay::{Player, ReplayProgram};

use crate::blocks::{Contender, RawAlloc};
use crate::card::Caps;
use crate::workloads::Need;

/// A contender as a `GlobalAlloc`, for a replay.
struct PlayedContender<C: Contender>(C);

// SAFETY: `build` accepts a program of several threads only if any thread may allocate from the
// contender and free to it at any time. If the program has one thread, only that thread uses the
// contender.
unsafe impl<C: Contender> Sync for PlayedContender<C> {}

// SAFETY: the contract of `RawAlloc` includes that of `GlobalAlloc`: a block is null or fits its
// layout, and it stays valid and exclusive until it is freed or resized.
unsafe impl<C: Contender> GlobalAlloc for PlayedContender<C> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout whose size is above zero.
        unsafe { self.0.by_ref().raw_alloc(layout) }
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout whose size is above zero.
        unsafe { self.0.by_ref().raw_alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a live block of this allocator with its layout.
        unsafe { self.0.by_ref().raw_dealloc(block, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller passes a size that does not overflow when it is rounded up to the
        // alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, old.align()) };
        if size >= old.size() {
            // SAFETY: the caller passes a live block with its layout. The new size is not smaller,
            // and the alignment is the same.
            unsafe { self.0.by_ref().raw_resize::<true>(block, old, new) }
        } else {
            // SAFETY: the caller passes a live block with its layout, and a new size above zero.
            // The new size is smaller, and the alignment is the same.
            unsafe { self.0.by_ref().raw_resize::<false>(block, old, new) }
        }
    }
}

/// Creates a player that runs a program over a contender, and returns a function that plays the
/// program once. If `whole` is set, the player touches every page of a block.
///
/// # Panics
///
/// Panics if the contender's card says that it cannot replay this program.
pub(super) fn build<C: Contender>(program: &ReplayProgram, whole: bool) -> Box<dyn FnMut() -> u64 + '_> {
    let why = why_not(&C::INFO.caps, program.is_threaded());
    assert!(why.is_none(), "{} cannot play this: {}", C::INFO.name, why.unwrap_or_default());
    let mut player = Player::new(PlayedContender(C::create()), program, whole);
    Box::new(move || player.play())
}

/// Returns the reason why an allocator cannot replay a program, or `None` if it can.
pub(crate) fn why_not(caps: &Caps, threaded: bool) -> Option<&'static str> {
    let shared = caps.any_thread_free && caps.shared_alloc;
    Need::Program.missing(caps).or_else(|| (threaded && !shared).then_some("one thread only"))
}
