//! The header of a unit: the words of the unit, and the words of its first group.

use core::cell::Cell;
use core::mem::offset_of;

use ephemera_prim::claim::ContentsClaim;
use ephemera_prim::foreign::{self, Foreign};
use ephemera_prim::unit_list::Listed;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::local_frees::LocalFrees;

/// The header of a unit. No code borrows it as a whole: `UnitPtr` borrows each field separately.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Unit {
    pub(crate) local: LocalFrees,
    pub(crate) further: OwnerUsize,
    /// The state in the lowest bits, and the birth above them.
    pub(crate) state: OwnerU64,
    pub(crate) cursor: Cell<*mut u8>,
    pub(crate) after: Cell<*mut Unit>,
    pub(crate) before: Cell<*mut Unit>,
    /// The address of the unit's heap (null in a `TypedPool`), with a tag if the unit is abandoned
    /// (`ABANDONED`) or belongs to a counting scope (`COUNTED`). The word is in this line so that a
    /// local free needs no other line of the header.
    pub(crate) owner: OwnerPtr<()>,
    pub(crate) remote: UnitRemote,
}

// SAFETY: a header has an `OwnerPtr<Unit>` at each of the two offsets, and only the list uses these
// words.
unsafe impl Listed for Unit {
    const NEXT: usize = offset_of!(Unit, remote.next);
    const PREV: usize = offset_of!(Unit, remote.prev);
}

/// The cache line of a header that other threads write to. It also holds words that rarely change,
/// because remote frees read this line anyway. The links of the list of all units are here because
/// the owner's line is full; they change when a neighbour joins or leaves the list.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct UnitRemote {
    pub(crate) next: OwnerPtr<Unit>,
    pub(crate) slots: u32,
    /// The word with which another thread claims the unit's slots.
    pub(crate) claim: ContentsClaim,
    pub(crate) prev: OwnerPtr<Unit>,
    /// The offset, in bytes, of the first slot in the unit.
    pub(crate) first: u32,
    /// The number of groups. Zero in a pool for one thread.
    pub(crate) groups: u32,
    pub(crate) stride: u32,
    /// The factor that replaces a division by `stride`.
    pub(crate) inverse: u32,
    /// The first group, with the other groups directly after it in memory. A pool for one thread
    /// does not use it.
    pub(crate) group: SlotGroup,
}

/// Returns the size in bytes of a header with `groups` groups. A [`Unit`] has room for one group.
pub(crate) const fn header(groups: usize) -> usize {
    let bytes = offset_of!(Unit, remote.group) + groups * size_of::<SlotGroup>();
    if bytes < size_of::<Unit>() { size_of::<Unit>() } else { bytes }
}

#[cfg(not(ephemera_loom))]
const _: () = assert!(size_of::<Unit>() == 128, "a header is two cache lines");

/// The words of a group of up to 63 slots: the foreign word with its link in the inbox, and the
/// owner's word `home`. They are adjacent because the owner writes `home` right after it takes the
/// foreign word.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SlotGroup {
    pub(crate) foreign: Foreign<SlotGroup>,
    pub(crate) home: OwnerU64,
}

// SAFETY: `FOREIGN` is the offset of the field. Any thread may free slots of the group, and may
// free the unit itself.
unsafe impl foreign::ForeignHeader for SlotGroup {
    const FOREIGN: usize = offset_of!(SlotGroup, foreign);
}

impl SlotGroup {
    /// Creates a group without freed slots.
    pub(crate) fn new() -> Self {
        Self { foreign: Foreign::new(), home: OwnerU64::new(0) }
    }
}
