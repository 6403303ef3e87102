//! Notes about blocks. A note is a pointer and a number that an allocator keeps for a block, and
//! looks up by the block's address.
//!
//! A block of [`Pages`](super::Pages) has neither a header nor a trailer that could contain the
//! note. Notes are therefore in a tree of three levels over the addresses, with an entry for each
//! 32 KiB. An entry takes 16 bytes, and a leaf of the tree covers 32 MiB. A leaf is created for its
//! first note, and is never freed.
//!
//! # Invariant
//!
//! * **G6** The entry of a block's first byte belongs to the owner of the block. With
//!   `ephemera_pages`, two blocks never share an entry, because each takes at least 32 KiB from its
//!   first byte on. Otherwise, blocks smaller than 32 KiB do not have notes, and their owners do
//!   not use the entry. An owner takes the note before it frees the block, so a new block has no
//!   note.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::PermanentLink;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// A pointer and a number. Their meaning is up to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The pointer that the allocator keeps.
    pub whose: NonNull<()>,
    /// The number that the allocator keeps.
    pub number: u64,
}

/// The number of address bits that select a byte within the 32 KiB of an entry. With
/// `ephemera_pages`, each block takes at least 32 KiB from its first byte on.
const ENTRY_BITS: u32 = 15;

/// The number of bits of a user-space address on the supported systems.
pub(super) const ADDRESS_BITS: u32 = if usize::BITS < 48 { usize::BITS } else { 48 };
const LEAF_BITS: u32 = 10;
/// The number of address bits above the bits that select an entry of a leaf.
const UPPER_BITS: u32 = ADDRESS_BITS - ENTRY_BITS - LEAF_BITS;
const BRANCH_BITS: u32 = if UPPER_BITS < 11 { UPPER_BITS } else { 11 };
const ROOT_BITS: u32 = UPPER_BITS - BRANCH_BITS;

/// An entry of the tree: the words of a note. `whose` is null if there is none.
#[repr(C)]
struct NoteWords {
    whose: AtomicPtr<()>,
    number: AtomicU64,
}

/// The entries for 32 MiB of addresses. A leaf of zeros is empty.
type NoteLeaf = [NoteWords; 1 << LEAF_BITS];

/// The leaves for up to 64 GiB of addresses.
type NoteBranch = [PermanentLink<NoteLeaf>; 1 << BRANCH_BITS];

static ROOT: [PermanentLink<NoteBranch>; 1 << ROOT_BITS] = [const { PermanentLink::new() }; 1 << ROOT_BITS];

/// Makes a branch or leaf of zeros. Returns `None` if there is no memory for it.
///
/// # Safety
/// A `T` whose bytes are all zero is valid.
unsafe fn zeros<T>() -> Option<&'static T> {
    let zeros = super::permanent(Layout::new::<T>()).ok()?.cast::<T>();
    // SAFETY: permanent memory is zero, which is a valid `T`, and is never freed.
    Some(unsafe { zeros.as_ref() })
}

/// Returns the indices of the branch, the leaf and the entry for a block.
#[inline]
fn tree_indices(block: NonNull<u8>) -> (usize, usize, usize) {
    let entry = block.addr().get() >> ENTRY_BITS;
    let leaf = entry >> LEAF_BITS;
    (leaf >> BRANCH_BITS, leaf & ((1 << BRANCH_BITS) - 1), entry & ((1 << LEAF_BITS) - 1))
}

/// Sets the note of a block. Returns `false` if there is no memory for the note, or if the block
/// has no entry. A block has no entry if the tree does not cover its address, or if another block
/// might share the entry.
///
/// # Safety
/// The caller owns the block, which has this layout, came from [`Pages`](super::Pages) and is not
/// of size zero. The caller must take the note before it frees the block.
#[cold]
#[must_use]
pub unsafe fn set(block: NonNull<u8>, layout: Layout, note: Note) -> bool {
    if has_no_entry(layout) {
        return false;
    }
    let (branch, leaf, entry) = tree_indices(block);
    let Some(branch) = ROOT.get(branch) else { return false };
    // SAFETY: a branch of zeros has links without a value.
    let Some(branch) = branch.get_or_make(|| unsafe { zeros() }) else { return false };
    let Some(leaf) = branch.get(leaf) else { return false };
    // SAFETY: a leaf of zeros has null pointers and the number 0.
    let Some(leaf) = leaf.get_or_make(|| unsafe { zeros() }) else { return false };
    let Some(entry) = leaf.get(entry) else { return false };
    entry.number.store(note.number, Ordering::Relaxed);
    entry.whose.store(note.whose.as_ptr(), Ordering::Relaxed);
    true
}

/// Returns `true` if blocks of this layout do not have an entry (G6). The fallback heap places
/// small blocks close together, so two of them may start in the same 32 KiB and would share an
/// entry.
#[inline]
fn has_no_entry(layout: Layout) -> bool {
    !cfg!(ephemera_pages) && layout.size() < 1 << ENTRY_BITS
}

/// Returns the entry of a block of this layout, or `None` if the block has no entry or the tree
/// does not contain the leaf yet.
#[inline]
fn entry(block: NonNull<u8>, layout: Layout) -> Option<&'static NoteWords> {
    if has_no_entry(layout) {
        return None;
    }
    let (branch, leaf, entry) = tree_indices(block);
    ROOT.get(branch)?.get()?.get(leaf)?.get()?.get(entry)
}

/// Returns whether a block has a note.
///
/// # Safety
/// The caller owns the block, which has this layout, came from [`Pages`](super::Pages) and is not
/// of size zero.
#[inline]
pub unsafe fn has(block: NonNull<u8>, layout: Layout) -> bool {
    // Relaxed: only owners of the block use the entry (G6), one after another.
    entry(block, layout).is_some_and(|entry| !entry.whose.load(Ordering::Relaxed).is_null())
}

/// Removes the note of a block and returns it, or returns `None` if the block does not have one.
///
/// # Safety
/// The caller owns the block, which has this layout, came from [`Pages`](super::Pages) and is not
/// of size zero.
#[inline]
#[must_use]
pub unsafe fn take(block: NonNull<u8>, layout: Layout) -> Option<Note> {
    let entry = entry(block, layout)?;
    // Relaxed: only owners of the block use the entry (G6), one after another.
    let whose = NonNull::new(entry.whose.load(Ordering::Relaxed))?;
    entry.whose.store(ptr::null_mut(), Ordering::Relaxed);
    Some(Note { whose, number: entry.number.load(Ordering::Relaxed) })
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use core::alloc::Layout;
    use core::ptr::NonNull;

    use super::{Note, set, take};
    use crate::pages::Pages;
    use crate::traits::Allocator;

    #[test]
    fn a_note_belongs_to_one_block_and_is_taken_once() {
        let note = |number| Note { whose: NonNull::dangling(), number };
        let layouts = [40 << 10, 64 << 10, 3 << 20, 64 << 20]
            .map(|size| Layout::from_size_align(size, 8).expect("a layout"));
        let blocks = layouts.map(|layout| Pages.allocate(layout).expect("memory").cast::<u8>());
        for ((block, layout), number) in blocks.into_iter().zip(layouts).zip(0..) {
            // SAFETY: the block is live, and the test owns it.
            assert_eq!(unsafe { take(block, layout) }, None);
            // SAFETY: the block is live, and the test takes its note below.
            assert!(unsafe { set(block, layout, note(number)) });
        }
        for ((block, layout), number) in blocks.into_iter().zip(layouts).zip(0..) {
            // SAFETY: the block is live, and the test owns it.
            assert_eq!(unsafe { take(block, layout) }, Some(note(number)));
            // SAFETY: the block is live, and the test owns it.
            assert_eq!(unsafe { take(block, layout) }, None);
            // SAFETY: the block is live with this layout.
            unsafe { Pages.deallocate(block, layout) };
        }
    }
}
