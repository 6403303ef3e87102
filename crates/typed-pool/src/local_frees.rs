//! The free list that local frees push to, and the links between free slots.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use ephemera_prim::raw;
use ephemera_prim::word::OwnerUsize;

/// The number of bytes at the start of a free slot that hold the link to the next free slot.
pub(crate) const LINK: usize = size_of::<*mut u8>();

/// The `until` of a heap whose frees branch. Ordinary frees do not decrement the `until` of such a
/// heap. Frees without a size (`give_known`) do, but reset it to this value before it reaches zero.
pub(crate) const NEVER: usize = usize::MAX;

/// The words that a local free writes. Each unit has its own, and each heap has its own for its
/// front and its guest.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LocalFrees {
    /// The first of the linked free slots, or null.
    pub(crate) free: Cell<*mut u8>,
    /// The number of frees after which the slow path looks at the unit. In a heap whose frees
    /// select, this is the number of frees to its list before the next inspection
    /// (`heap/selection.rs`). In any other heap, it is [`NEVER`], minus frees without a size.
    pub(crate) until: OwnerUsize,
}

impl LocalFrees {
    ephemera_prim::const_unless_loom! {
        /// Creates the words of an empty list.
        pub(crate) fn new() -> Self {
            Self { free: Cell::new(ptr::null_mut()), until: OwnerUsize::new(NEVER) }
        }
    }

    /// Pushes a freed block's slot to the list.
    ///
    /// Under the aliasing rules, the freed pointer may be the only one that can access the block.
    /// If the block is large enough, this function therefore writes the link through that pointer.
    /// If that pointer can also access the whole slot, the list gets it. Otherwise the list gets a
    /// pointer from the exposed address, which compiles to no instruction.
    ///
    /// # Safety
    /// The freed block is in a slot of a unit that the caller owns. The slot is on no list, and
    /// nothing else uses it. `self` is the list of the slot's unit, or that of the heap if the unit
    /// is the front or the slot becomes a guest.
    #[inline]
    pub(crate) unsafe fn push(&self, freed: Freed) {
        let block = freed.block.as_ptr();
        let own = if freed.size >= LINK && freed.reach == Reach::Slot {
            block
        } else {
            // SAFETY: the unit was exposed when it was created, and a unit with a live slot is not
            // freed (H4).
            unsafe { raw::with_exposed(block.addr()) }
        };
        let through = if freed.size >= LINK { block } else { own };
        // SAFETY: the slot is free and the caller owns its unit (H1). The pointer to a block that
        // is at least as long as a link may write a link. For a shorter block, the exposed pointer
        // may.
        unsafe { write_link(through, self.free.get()) };
        self.free.set(own);
    }

    /// Counts the local free of a slot. A thread that may purge the unit and sees this count also
    /// sees the owner's last accesses to the slot (C3). Returns the new value of `until`.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        if weakened!("local_free_is_relaxed") {
            return self.until.sub(1);
        }
        self.until.sub_publish(1)
    }
}

/// Returns the slot that a linked free slot links to, or null.
///
/// # Safety
/// `slot` is a linked free slot, and the caller owns its list.
#[inline]
pub(crate) unsafe fn link_of(slot: *mut u8) -> *mut u8 {
    // SAFETY: a linked free slot starts with its link, and slots are aligned for a link.
    unsafe { slot.cast::<*mut u8>().read() }
}

/// Returns the slots of the free list that starts at `first`. Reads the link of a slot before it
/// returns the slot.
///
/// # Safety
/// `first` is null or a linked free slot. The calling thread owns the list. While the iterator is
/// used, only the links of slots that it has already returned change.
#[inline]
pub(crate) unsafe fn linked(first: *mut u8) -> impl Iterator<Item = NonNull<u8>> {
    let mut at = first;
    core::iter::from_fn(move || {
        let slot = NonNull::new(at)?;
        // SAFETY: the slot is linked, and the caller of `linked` owns the list.
        at = unsafe { link_of(slot.as_ptr()) };
        Some(slot)
    })
}

/// Makes a free slot link to `next`.
///
/// # Safety
/// `slot` is a free slot that is on no list or the last of one, the pointer may write to it, and
/// the caller owns its unit.
#[inline]
pub(crate) unsafe fn write_link(slot: *mut u8, next: *mut u8) {
    // SAFETY: the slot is aligned for a link, has room for one, and belongs to the caller.
    unsafe { slot.cast::<*mut u8>().write(next) };
}

/// The bytes that the pointer of a freed block may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The whole slot: all values of the heap have one type, or the pointer came from a free list.
    Slot,
    /// Only the block. A later block in the same slot may be larger.
    Block,
}

/// A freed block, or a guest that returns to its unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub(crate) block: NonNull<u8>,
    /// The size of the block's value, in bytes. A caller that does not know the size passes
    /// [`LINK`], if the block has room for a link.
    pub(crate) size: usize,
    /// The reach of the pointer `block`.
    pub(crate) reach: Reach,
}
