//! Operations on slots of size classes: allocation, frees without a size, and shrinks in place.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::poison::poison;
use ephemera_prim::raw::header_of;

use crate::class;
use crate::heap::{self, PoolEnv};
use crate::local_frees::LINK;
use crate::threads::{self, Family, Heaps, ThisCell};
use crate::unit::{Unit, UnitPtr};

/// The address of a block, or an error if the allocator refuses the request. A `BlockResult` also
/// has the block's length.
pub(super) type MaybeBlock = Result<NonNull<u8>, AllocError>;

pub(super) fn block_of(slot: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(slot, layout.size())
}

/// Allocates a slot of a class: from this thread's heap, or by the slow path.
///
/// # Safety
/// `family` belongs to a pooled allocator, and `heaps` are the heaps to which this thread's cell of
/// that family points. `class` is the class of `layout`.
#[inline]
pub(super) unsafe fn allocate_in(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
    class: usize,
) -> MaybeBlock {
    // SAFETY: T2: the thread may use these heaps. An allocator's family has a heap for every class.
    let owner = unsafe { heaps.owner(class) };
    match owner.heap().take(layout.size()) {
        Some(slot) => Ok(slot),
        // SAFETY: an allocator's family has a heap for every class.
        None => unsafe { threads::refill(family, class, layout.size()) },
    }
}

/// Takes a slot of a class on the fast path. Returns `None` if only the slow path can allocate one.
///
/// # Safety
/// The cell belongs to a pooled allocator. `class` is the result of [`class_of`] for a layout of
/// `size` bytes.
#[inline]
#[must_use]
pub unsafe fn take_from_front(cell: ThisCell, class: usize, size: usize) -> Option<NonNull<u8>> {
    // SAFETY: T2: the thread may use these heaps. An allocator's family has a heap for every class.
    unsafe { cell.heaps().owner(class) }.heap().take(size)
}

/// Frees a slot if the calling thread owns its unit, and returns `true`. Returns `false`, and does
/// not free the slot, in two cases: this free must take the path of remote frees, or the slow path
/// may have to look at the unit after this free.
///
/// # Safety
/// The cell belongs to a pooled allocator, and `block` is a live slot of that allocator in `unit`.
/// The slot has room for a link. Nothing uses the slot after a call that returns `true`.
#[inline]
#[must_use]
pub unsafe fn give_to_own_unit(cell: ThisCell, unit: NonNull<u8>, block: NonNull<u8>) -> bool {
    // SAFETY: U1: the unit has a live slot, so it is not freed (H4).
    let unit = unsafe { UnitPtr::new(unit.cast()) };
    // SAFETY: the cell belongs to a pooled allocator. T2: the thread holds the record of its table,
    // or these are the heaps of threads that own nothing.
    let Some(owner) = (unsafe { cell.heaps().owner_of(unit) }) else { return false };
    // SAFETY: the caller frees a live slot of this unit, with room for a link. The unit belongs to
    // this heap, which the thread owns.
    unsafe { heap::fast::give_known(owner.heap(), unit, block) }
}

/// Shrinks a block within its slot: poisons the bytes after its new size, except for the bytes of a
/// link. Returns a pointer to the block with access to its whole slot.
///
/// # Safety
/// `block` is a live block of layout `old`, which has this class. `new.size()` is at most
/// `old.size()`.
#[inline]
pub(super) unsafe fn shrink_in_place(
    block: NonNull<u8>,
    class: usize,
    (old, new): (Layout, Layout),
) -> NonNull<u8> {
    let kept = new.size().max(LINK);
    if old.size() > kept {
        // SAFETY: `kept` is less than the block's size.
        let tail = unsafe { block.add(kept) };
        // SAFETY: the tail is inside the old block, and nothing uses it any more.
        unsafe { poison(tail, old.size() - kept) };
    }
    // SAFETY: the caller passes a live block of this class.
    unsafe { whole_slot(block, class) }
}

/// Returns a pointer to the same block with access to its whole slot.
///
/// # Safety
/// `block` is a live block whose layout has this class.
#[inline]
pub(super) unsafe fn whole_slot(block: NonNull<u8>, class: usize) -> NonNull<u8> {
    // SAFETY: the block lies in a unit with the alignment of the class's units. Units start with a
    // `Unit` and were exposed when they were created. A unit with a live slot is not freed (H4).
    let unit = unsafe { header_of::<Unit>(block, class::unit_size(class)) };
    let slot = unit.as_ptr().cast::<u8>().with_addr(block.addr().get());
    // SAFETY: the address of a block is not null.
    unsafe { NonNull::new_unchecked(slot) }
}

/// Returns the size class of a layout, or `None` if the layout has none.
#[inline]
#[must_use]
pub const fn class_of(layout: Layout) -> Option<usize> {
    class::any(layout)
}

/// Returns the stride of the slots in a unit, in bytes, or `None` if no slot of the unit starts at
/// `block`.
///
/// # Safety
/// A unit of a pooled allocator starts at `unit`, and has a live slot.
#[inline]
#[must_use]
pub unsafe fn stride_of_slot(block: NonNull<u8>, unit: NonNull<u8>) -> Option<usize> {
    // SAFETY: the caller passes a unit with a live slot, which is not freed (H4).
    let unit = unsafe { UnitPtr::new(unit.cast()) };
    unit.stride_of_slot(block)
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]
mod tests {
    use core::alloc::Layout;
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicPtr, Ordering};
    use std_alloc::vec::Vec;

    use ephemera_prim::raw::header_of;

    use super::{class_of, give_to_own_unit, stride_of_slot};
    use crate::PooledAllocator;
    use crate::class::{self, CLASSES};
    use crate::unit::Unit;

    crate::pooled_allocator! {
        /// An allocator whose blocks the tests free without their size.
        struct Sizeless;
    }

    fn unit_at(block: NonNull<u8>, class: usize) -> NonNull<u8> {
        // SAFETY: the block is a live slot of this class.
        unsafe { header_of::<Unit>(block, class::unit_size(class)) }.cast()
    }

    /// Frees a block with `give_to_own_unit`, or with its layout if that function returns `false`.
    /// Returns whether `give_to_own_unit` freed the block.
    fn free(block: NonNull<u8>, layout: Layout) -> bool {
        let class = class_of(layout).expect("the layout has a class");
        // SAFETY: the block is a live slot of this class.
        let is_free = unsafe { give_to_own_unit(Sizeless::__cell(), unit_at(block, class), block) };
        if !is_free {
            // SAFETY: the block is live and has this layout.
            unsafe { Sizeless.deallocate(block, layout) };
        }
        is_free
    }

    fn allocate(layout: Layout) -> NonNull<u8> {
        Sizeless.allocate(layout).expect("memory").cast()
    }

    #[test]
    fn a_free_without_a_size_has_the_effect_of_a_free_with_a_size() {
        ephemera_testkit::suite::take_turn();
        let sizes: &[usize] = if cfg!(miri) { &[1_000] } else { &[16, 48, 1_000, 2_048] };
        for &size in sizes {
            let layout = Layout::from_size_align(size, 16).expect("a layout");
            let class = class_of(layout).expect("the layout has a class");
            let slots = class::unit_size(class) / class::stride(class);
            let blocks: Vec<_> = (0..slots * 5 / 2).map(|_| allocate(layout)).collect();
            let quick = |block: &NonNull<u8>| free(*block, layout);
            let (even, odd): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(at, _)| at % 2 == 0);
            let mut by_unit = even.iter().filter(|(_, block)| quick(block)).count();
            assert_eq!(Sizeless.stats().live(), odd.len(), "slots of {size} bytes");
            let again: Vec<_> = (0..even.len()).map(|_| allocate(layout)).collect();
            by_unit +=
                again.iter().chain(odd.iter().map(|(_, block)| *block)).filter(|block| quick(block)).count();
            let frees = blocks.len() + even.len();
            assert!(frees - by_unit <= frees / 16, "few frees are slow: {by_unit} of {frees} were quick");
            assert_eq!(Sizeless.stats().live(), 0, "slots of {size} bytes");
            Sizeless.trim();
            assert_eq!(Sizeless.stats().bytes_held, 0);
        }
    }

    #[test]
    fn a_thread_frees_only_slots_of_its_own_units_without_a_size() {
        ephemera_testkit::suite::take_turn();
        let layout = Layout::new::<[u64; 4]>();
        let class = class_of(layout).expect("the layout has a class");
        let block = AtomicPtr::new(allocate(layout).as_ptr());
        let gives = || {
            let block = NonNull::new(block.load(Ordering::Relaxed)).expect("a block");
            // SAFETY: the block is live until a call returns `true`.
            unsafe { give_to_own_unit(Sizeless::__cell(), unit_at(block, class), block) }
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(!gives(), "the thread owns no unit");
                let own = allocate(layout);
                assert!(!gives(), "the thread owns other units");
                free(own, layout);
            });
            // `thread::scope` does not wait until thread exit is complete; `join` does.
            other.join().expect("no panic");
        });
        assert!(gives(), "the thread owns the unit");
    }

    #[test]
    fn only_the_start_of_a_slot_has_a_stride() {
        for class in 0..CLASSES {
            let layout = class::layout(class);
            let block = PooledAllocator.allocate(layout).expect("memory").cast::<u8>();
            // SAFETY: the block is a live slot of this class.
            let unit = unsafe { ephemera_prim::raw::header_of::<Unit>(block, class::unit_size(class)) };
            // SAFETY: the unit has a live slot.
            let stride_at = |at| unsafe { stride_of_slot(at, unit.cast()) };
            assert_eq!(stride_at(block), Some(class::stride(class)));
            for offset in [1, class::stride(class) / 2, class::stride(class) - 1] {
                // SAFETY: the offset is inside the slot.
                assert_eq!(stride_at(unsafe { block.add(offset) }), None, "{offset} of class {class}");
            }
            assert_eq!(stride_at(unit.cast()), None, "the header of class {class}");
            // SAFETY: the block is live and has this layout.
            unsafe { PooledAllocator.deallocate(block, layout) };
        }
    }
}
