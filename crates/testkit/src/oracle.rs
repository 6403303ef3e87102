//! The naive oracle: a plain list of all live blocks.
//!
//! Properties it enforces, by the most obvious code there is:
//!
//! 1. **No overlap**: a new or moved block shares no byte with a live one.
//! 2. **In the address space**: address plus length does not wrap. (Null cannot occur: the trait returns `NonNull`.)
//! 3. **Alignment**: every block is aligned as was asked, zero-sized ones included.
//! 4. **Length**: the slice returned is as long as was asked for; at least as long where the subject may give more.
//! 5. **Contents**: a live block holds what was written to it, whole, until it is freed.
//! 6. **Kept prefix**: after a resize, the first bytes, to the shorter of both lengths, are the old ones.
//! 7. **Zeroed**: what a zeroed variant adds is zero: from 0 for a new block, from the old layout's size for a grown one.
//!
//! Of a zero-sized block only 3 and 4 are checked: its address may be that of anything.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::block::{Block, check_zeroed};
use crate::violation::Violation;

/// All live blocks, oldest first.
#[derive(Debug)]
pub struct Oracle {
    live: Vec<Block>,
    exact: bool,
    next_seed: u8,
}

impl Oracle {
    /// An oracle without blocks. With `exact`, slices have to be exactly as long as was asked for.
    #[must_use]
    pub const fn new(exact: bool) -> Self {
        Self { live: Vec::new(), exact, next_seed: 1 }
    }

    /// Number of live blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no block is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The live blocks, oldest first.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.live
    }

    /// Bytes of all live blocks together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.live.iter().fold(0, |sum, block| sum.saturating_add(block.layout().size()))
    }

    /// Takes a block that was just served, checks where it lies, and fills it.
    ///
    /// # Errors
    ///
    /// The first property (1 to 4, and 7 if `zeroed`) that it breaks; nothing was written then.
    ///
    /// # Safety
    ///
    /// An allocator served `given` for `layout` and promises its memory until [`Oracle::remove`].
    pub unsafe fn insert(
        &mut self,
        given: NonNull<[u8]>,
        layout: Layout,
        zeroed: bool,
    ) -> Result<(), Violation> {
        self.check_place(given, layout)?;
        if zeroed {
            // SAFETY: the allocator promises the memory, and zeroed memory is initialised.
            unsafe { check_zeroed(given.cast(), layout, 0)? };
        }
        let seed = self.seed();
        // SAFETY: the allocator promises the memory, and it overlaps no live block.
        let block = unsafe { Block::fill(given.cast(), layout, seed) };
        self.live.push(block);
        Ok(())
    }

    /// Takes block `index` at its new place after `grow`, `grow_zeroed` or `shrink` succeeded on it.
    ///
    /// # Errors
    ///
    /// The first property (1 to 4, 6, and 7 if `zeroed`) that it breaks.
    ///
    /// # Panics
    ///
    /// If there is no block `index`.
    ///
    /// # Safety
    ///
    /// An allocator returned `given` for resizing block `index` to `layout` and promises its memory until
    /// [`Oracle::remove`].
    pub unsafe fn resized(
        &mut self,
        index: usize,
        given: NonNull<[u8]>,
        layout: Layout,
        zeroed: bool,
    ) -> Result<(), Violation> {
        let old = self.live.remove(index);
        self.check_place(given, layout)?;
        let kept = old.layout().size().min(layout.size());
        // SAFETY: the allocator promises `layout.size()` bytes, of which the first `kept` were copied.
        unsafe { old.check_kept(given.cast(), kept)? };
        if zeroed {
            // SAFETY: the allocator promises the memory, and zeroed memory is initialised.
            unsafe { check_zeroed(given.cast(), layout, old.layout().size())? };
        }
        let seed = self.seed();
        // SAFETY: the allocator promises the memory, and it overlaps no live block.
        let block = unsafe { Block::fill(given.cast(), layout, seed) };
        self.live.insert(index, block);
        Ok(())
    }

    /// Checks block `index` and takes it out, to be freed.
    ///
    /// # Errors
    ///
    /// [`Violation::Changed`]; the block stays in then.
    ///
    /// # Panics
    ///
    /// If there is no block `index`.
    pub fn remove(&mut self, index: usize) -> Result<Block, Violation> {
        self.live[index].check()?;
        Ok(self.live.remove(index))
    }

    /// Reads every live block again.
    ///
    /// # Errors
    ///
    /// [`Violation::Changed`] for the first block that differs.
    pub fn check(&self) -> Result<(), Violation> {
        self.live.iter().try_for_each(Block::check)
    }

    fn check_place(&self, given: NonNull<[u8]>, layout: Layout) -> Result<(), Violation> {
        let address = given.cast::<u8>().addr().get();
        let len = layout.size();
        if given.len() < len || (self.exact && given.len() != len) {
            return Err(Violation::WrongLength { asked: len, given: given.len() });
        }
        if !address.is_multiple_of(layout.align()) {
            return Err(Violation::Misaligned { address, align: layout.align() });
        }
        let Some(end) = address.checked_add(len) else {
            return Err(Violation::Wrapped { address, len });
        };
        for block in &self.live {
            let other = block.address();
            let other_len = block.layout().size();
            // Both ends fit: `other` was checked when it came in.
            if len != 0 && other_len != 0 && address < other + other_len && other < end {
                return Err(Violation::Overlap { address, len, other, other_len });
            }
        }
        Ok(())
    }

    fn seed(&mut self) -> u8 {
        let seed = self.next_seed;
        self.next_seed = seed.wrapping_add(1);
        seed
    }
}
