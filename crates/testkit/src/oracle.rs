//! Defines the naive oracle: a plain list of all live blocks.
//!
//! The oracle checks these properties, by the simplest possible code:
//!
//! 1. **No overlap**: a new or resized block does not share a byte with another live block.
//! 2. **In the address space**: address plus length does not wrap. (`Allocator` returns `NonNull`,
//!    so the address is not null.)
//! 3. **Alignment**: every block is aligned as requested, zero-sized ones included.
//! 4. **Length**: the returned slice has the requested length, or more where the subject allows
//!    that.
//! 5. **Contents**: until a block is freed, it keeps the bytes that the oracle wrote to it.
//! 6. **Kept prefix**: a resize keeps the first bytes of a block, up to the shorter of the two
//!    lengths.
//! 7. **Zeroed**: `allocate_zeroed` zeroes the whole block, and `grow_zeroed` the part after the
//!    old size.
//!
//! For zero-sized blocks, the oracle checks only 3 and 4, because such blocks may share their
//! address with any block.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::block::{Block, check_zeroed};
use crate::violation::Violation;

/// All live blocks, oldest first, with the checks of this module.
#[derive(Debug)]
pub struct Oracle {
    live: Vec<Block>,
    exact: bool,
    next_seed: u8,
}

impl Oracle {
    /// Creates an oracle without blocks. With `exact`, returned slices must have exactly the
    /// requested length.
    #[must_use]
    pub const fn new(exact: bool) -> Self {
        Self { live: Vec::new(), exact, next_seed: 1 }
    }

    /// Returns the number of live blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Returns whether no block is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Returns the live blocks, oldest first.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.live
    }

    /// Returns the total size of all live blocks in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.live.iter().fold(0, |sum, block| sum.saturating_add(block.layout().size()))
    }

    /// Checks a new block, fills it, and adds it to the live blocks.
    ///
    /// # Errors
    ///
    /// Returns a violation if the block lacks one of the properties 1 to 4, or 7 if `zeroed`. In
    /// that case, the oracle does not write to the block.
    ///
    /// # Safety
    ///
    /// An allocator returned `given` for `layout`, and the block stays live until
    /// [`Oracle::remove`] returns it. If `zeroed` is set, the bytes of the block are initialised.
    pub unsafe fn insert(
        &mut self,
        given: NonNull<[u8]>,
        layout: Layout,
        zeroed: bool,
    ) -> Result<(), Violation> {
        self.check_place(given, layout)?;
        if zeroed {
            // SAFETY: the caller guarantees that the block is live and, because `zeroed` is set,
            // that its bytes are initialised.
            unsafe { check_zeroed(given.cast(), layout, 0)? };
        }
        let seed = self.seed();
        // SAFETY: the caller guarantees that the block is live, and `check_place` has shown that it
        // does not overlap another live block.
        let block = unsafe { Block::fill(given.cast(), layout, seed) };
        self.live.push(block);
        Ok(())
    }

    /// Checks block `index` at its new address after a successful `grow`, `grow_zeroed` or
    /// `shrink`, and fills it again.
    ///
    /// # Errors
    ///
    /// Returns a violation if the block lacks one of the properties 1 to 4 and 6, or 7 if `zeroed`.
    /// In that case, the oracle no longer contains the block.
    ///
    /// # Panics
    ///
    /// Panics if there is no block `index`.
    ///
    /// # Safety
    ///
    /// An allocator returned `given` when it resized block `index` to `layout`, and the block stays
    /// live until [`Oracle::remove`] returns it. If `zeroed` is set, the new bytes of the block are
    /// initialised.
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
        // SAFETY: the caller guarantees that `layout.size()` bytes are readable. The resize kept
        // the first `kept` of them, so the bytes that `fill` wrote there are initialised.
        unsafe { old.check_kept(given.cast(), kept)? };
        if zeroed {
            // SAFETY: the caller guarantees that the block is live and, because `zeroed` is set,
            // that its new bytes are initialised.
            unsafe { check_zeroed(given.cast(), layout, old.layout().size())? };
        }
        let seed = self.seed();
        // SAFETY: the caller guarantees that the block is live, and `check_place` has shown that it
        // does not overlap another live block.
        let block = unsafe { Block::fill(given.cast(), layout, seed) };
        self.live.insert(index, block);
        Ok(())
    }

    /// Checks block `index`, removes it from the oracle, and returns it.
    ///
    /// # Errors
    ///
    /// Returns [`Violation::Changed`] if the contents of the block changed. In that case, the
    /// oracle keeps the block.
    ///
    /// # Panics
    ///
    /// Panics if there is no block `index`.
    pub fn remove(&mut self, index: usize) -> Result<Block, Violation> {
        self.live[index].check()?;
        Ok(self.live.remove(index))
    }

    /// Checks the contents of every live block.
    ///
    /// # Errors
    ///
    /// Returns [`Violation::Changed`] for the first block that differs.
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
            // `other + other_len` does not overflow, because this function has checked the sum for
            // each live block.
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
