//! The free list of a unit that its owner's frees and allocations use, and the links of free slots.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use ephemera_prim::raw;
use ephemera_prim::word::OwnerUsize;

/// Bytes at the start of a free slot that hold the link to the next one.
pub(crate) const LINK: usize = size_of::<*mut u8>();

/// The initial `until` of a heap. For the front, `until` has no meaning: frees without a size
/// (`give_known`) decrement it, and reset it to this value before it reaches zero.
pub(crate) const NEVER: usize = usize::MAX;

/// The words that a local free writes. Each unit has them. The heap has them for its front and for
/// a guest.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LocalFrees {
    /// The first of the linked free slots, or null.
    pub(crate) free: Cell<*mut u8>,
    /// The number of frees after which the slow path looks at the unit. For the front it has no
    /// meaning, and starts at [`NEVER`].
    pub(crate) until: OwnerUsize,
}

impl LocalFrees {
    ephemera_prim::const_unless_loom! {
        /// Creates the words of a heap without a front.
        pub(crate) fn new() -> Self {
            Self { free: Cell::new(ptr::null_mut()), until: OwnerUsize::new(NEVER) }
        }
    }

    /// Pushes a freed block's slot to the list. `size` and `reach` are those of [`link`].
    ///
    /// # Safety
    /// The contract of [`link`] holds. `self` has the words of the slot's unit, or of its heap if
    /// the unit is the front or the slot becomes a guest.
    #[inline]
    pub(crate) unsafe fn push(&self, block: NonNull<u8>, size: usize, reach: Reach) {
        // SAFETY: the caller ensures the contract of `link`.
        self.free.set(unsafe { link(block, size, reach, self.free.get()) });
    }

    /// Counts the local free of a slot, and publishes the end of its use to a thread that may purge
    /// the unit (C3). Returns the new value of `until`.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        if cfg!(ephemera_weaken = "local_free_is_relaxed") {
            return self.until.sub(1);
        }
        self.until.sub_publish(1)
    }
}

/// Returns the slot that a free slot links to.
///
/// # Safety
/// `slot` is a linked free slot, and the caller owns its list.
#[inline]
pub(crate) unsafe fn link_of(slot: *mut u8) -> *mut u8 {
    // SAFETY: a linked free slot starts with its link, and slots are aligned for one.
    unsafe { slot.cast::<*mut u8>().read() }
}

/// Returns the slots of a free list of a heap or unit that the calling thread owns.
#[inline]
pub(crate) fn linked(first: *mut u8) -> impl Iterator<Item = *mut u8> {
    let mut at = first;
    core::iter::from_fn(move || {
        let slot = (!at.is_null()).then_some(at)?;
        // SAFETY: H3: linked slots are free, and the calling thread owns them.
        at = unsafe { link_of(slot) };
        Some(slot)
    })
}

/// Makes a free slot link to `next`.
///
/// # Safety
/// `slot` is a free slot that is on no list, the pointer may write to it, and the caller owns its
/// unit.
#[inline]
pub(crate) unsafe fn write_link(slot: *mut u8, next: *mut u8) {
    // SAFETY: the slot is aligned for a link, has room for one, and belongs to the caller.
    unsafe { slot.cast::<*mut u8>().write(next) };
}

/// The bytes that the pointer of a freed block may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The whole slot: all values of the heap have one type.
    Slot,
    /// The block alone, which may be smaller than the next block in the slot.
    Block,
}

/// Makes `block` a free slot that links to `next`, and returns a pointer with access to the whole
/// slot.
///
/// Under the aliasing rules, the caller's pointer may be the only one that can access the block. So
/// the link is written through that pointer if the block is large enough. If that pointer can
/// access the whole slot, it is returned as well. Otherwise the function makes a pointer from the
/// address, which compiles to no instruction.
///
/// # Safety
/// `block` is a slot for a value of `size` bytes, in a unit that the caller owns. The slot is on no
/// list, and nothing else uses it. `reach` describes the pointer `block`.
#[inline]
pub(crate) unsafe fn link(block: NonNull<u8>, size: usize, reach: Reach, next: *mut u8) -> *mut u8 {
    let own = if size >= LINK && reach == Reach::Slot {
        block.as_ptr()
    } else {
        // SAFETY: the unit was exposed when it was created, and a unit with a live slot is not
        // freed (H4).
        unsafe { raw::with_exposed(block.addr().get()) }
    };
    let through = if size >= LINK { block.as_ptr() } else { own };
    // SAFETY: the slot is free and the caller owns its unit (H1). A pointer to a block of at least
    // a link's size may write a link; for smaller blocks the exposed pointer may.
    unsafe { write_link(through, next) };
    own
}
