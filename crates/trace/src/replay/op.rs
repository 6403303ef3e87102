//! Defines [`ProgramOp`], one operation of a program. The module `program` explains slots,
//! generations and epochs.

use core::alloc::Layout;

/// The action of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fills a slot.
    Alloc,
    /// Fills a slot with zeroed memory.
    Zeroed,
    /// Empties a slot.
    Free,
    /// Changes the size of the block in a slot.
    Resize,
    /// Begins an epoch, whose number is in `size`.
    Epoch,
}

/// One operation of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramOp {
    /// The action of the operation.
    pub action: Action,
    /// The base-2 logarithm of the alignment.
    pub align_log2: u8,
    /// The slot of the block.
    pub slot: u32,
    /// The size of the block after the operation, in bytes; for a free, the size of the freed
    /// block.
    pub size: u32,
    /// The size of the block before a resize, in bytes; 0 for other actions.
    pub old: u32,
    /// The generation of the slot to wait for; 0 means none.
    pub wait: u32,
    /// Whether another lane waits for this operation. If so, the operation publishes the next
    /// generation of its slot.
    pub publish: bool,
}

impl ProgramOp {
    /// The operation that begins the first epoch.
    pub(super) const BEGIN: Self =
        Self { action: Action::Epoch, align_log2: 0, slot: 0, size: 0, old: 0, wait: 0, publish: false };

    /// Returns the layout of the block after the operation, or of the freed block.
    #[inline(always)]
    pub fn layout(&self) -> Layout {
        layout(self.size, self.align_log2)
    }

    /// Returns the layout of the block before a resize.
    #[inline(always)]
    pub fn old_layout(&self) -> Layout {
        layout(self.old, self.align_log2)
    }
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a replay needs a 64-bit target, because a recorded block may have up to 4 GiB");

/// Returns the layout for a size and an alignment that come from a trace.
#[inline(always)]
fn layout(size: u32, align_log2: u8) -> Layout {
    // The trace format has five bits for `align_log2`, so the mask changes no value from a trace.
    let align = 1 << (align_log2 & 31);
    // SAFETY: the alignment is a power of two of at most 2^31. On a 64-bit target, a size below
    // 2^32 does not overflow `isize` when it is rounded up to such an alignment.
    unsafe { Layout::from_size_align_unchecked(size as usize, align) }
}
