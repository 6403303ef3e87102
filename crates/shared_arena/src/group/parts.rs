//! Defines the three parts that each page has in its group. Parts of different kinds are on
//! separate cache lines, because different threads write them.

use core::mem::offset_of;
use core::ptr::NonNull;

use ephemera_prim::foreign::{Foreign, ForeignHeader};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64};

use super::counted::PageCounts;
use crate::bits::Bits;
use crate::geometry::{ArenaGeometry, SLOTS};

/// The part of a page that its owner writes: the word of free slots, and the link of the page list.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct NearPart {
    local: OwnerU64,
    /// The next page in the shard's list of pages with free slots.
    next: OwnerPtr<NearPart>,
}

impl NearPart {
    /// Creates the part for a page whose slots are all free.
    pub(super) fn new(geometry: &ArenaGeometry) -> Self {
        Self { local: OwnerU64::new(Bits::listed(geometry.all()).word()), next: OwnerPtr::null() }
    }
}

/// A pointer to the near part of a page.
///
/// # Invariant
/// G1: the page's group is not freed while the pointer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearPtr(NonNull<NearPart>);

impl NearPtr {
    // The page's group is not freed while the pointer is used (G1).
    words! {
        /// Returns the word of free slots.
        pub(crate) fn local() -> &OwnerU64 = local;
        pub(crate) fn next() -> &OwnerPtr<NearPart> = next;
    }

    /// # Safety
    /// The page's group is not freed while the result is used (G1).
    #[inline]
    pub(super) unsafe fn new(near: NonNull<NearPart>) -> Self {
        Self(near)
    }

    /// # Safety
    /// The pointer is null, or the page's group is not freed while the result is used (G1).
    #[inline]
    pub(crate) unsafe fn from_raw(near: *mut NearPart) -> Option<Self> {
        NonNull::new(near).map(Self)
    }

    #[inline]
    pub(super) fn as_non_null(self) -> NonNull<NearPart> {
        self.0
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut NearPart {
        self.0.as_ptr()
    }

    /// Returns the free slots, as the owner sees them.
    #[inline]
    pub(crate) fn bits(self) -> Bits {
        Bits::of(self.local().get())
    }
}

/// The part of a page that other threads write. The shard's inbox identifies the page by the
/// address of this part.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Far {
    pub(super) foreign: Foreign<Far>,
}

// SAFETY: `FOREIGN` is the offset of the field `foreign`. Any thread may free a slot of the page,
// and can then free the group.
unsafe impl ForeignHeader for Far {
    const FOREIGN: usize = offset_of!(Far, foreign);
}

/// The part of a page that threads write rarely.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Rare {
    /// After the arena's drop: the free slots that the drop or a look has noted. Local frees do not
    /// write this word. The closing thread writes it first, then the holder of the shard's turn
    /// (`parked`).
    pub(super) noted: OwnerU64,
    pub(super) counts: PageCounts,
    /// Lets loom see which thread allocates or frees each slot. Has size zero outside of models.
    pub(super) slots: [Witness; SLOTS],
}

impl Rare {
    /// Creates the part for a page without counts.
    pub(super) fn new() -> Self {
        Self {
            noted: OwnerU64::new(0),
            counts: PageCounts::none(),
            slots: core::array::from_fn(|_| Witness::new()),
        }
    }
}
