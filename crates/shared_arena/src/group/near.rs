//! Defines the near part of a page, which its owner writes.

use core::ptr::NonNull;

use ephemera_prim::word::{OwnerPtr, OwnerU64};

use super::PageGroupPtr;
use crate::bits::Bits;
use crate::geometry::ArenaGeometry;

/// The part of a page that its owner writes: the word of free slots, and the link of the page list.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Near {
    local: OwnerU64,
    /// The next page with free slots.
    next: OwnerPtr<Near>,
}

impl Near {
    /// Creates the part for a page whose slots are all free.
    pub(super) fn new(geometry: &ArenaGeometry) -> Self {
        Self { local: OwnerU64::new(Bits::listed(geometry.all()).word()), next: OwnerPtr::null() }
    }
}

impl PageGroupPtr {
    #[inline]
    pub(crate) fn near(self, geometry: &ArenaGeometry, page: usize) -> NearPtr {
        NearPtr(self.part(geometry.near, page))
    }

    /// Returns the page that this near part belongs to.
    #[inline]
    pub(crate) fn page_of_near(self, geometry: &ArenaGeometry, near: NearPtr) -> usize {
        (near.0.addr().get() - self.0.addr().get() - geometry.near) / size_of::<Near>()
    }
}

/// A pointer to the near part of a page.
///
/// # Invariant
/// G1: the page's group is not freed while the pointer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearPtr(NonNull<Near>);

impl NearPtr {
    /// # Safety
    /// G1, unless the pointer is null.
    #[inline]
    pub(crate) unsafe fn from_raw(near: *mut Near) -> Option<Self> {
        NonNull::new(near).map(Self)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Near {
        self.0.as_ptr()
    }

    /// Returns the group of this page.
    pub(crate) fn group(self, geometry: &ArenaGeometry) -> PageGroupPtr {
        // SAFETY: this module made the pointer, and G1 keeps the group from being freed.
        unsafe { PageGroupPtr::around(self.0, geometry.group) }
    }

    /// Returns the word of free slots.
    #[inline]
    pub(crate) fn local(&self) -> &OwnerU64 {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).local }
    }

    /// Returns the free slots, as the owner sees them.
    #[inline]
    pub(crate) fn bits(self) -> Bits {
        Bits::of(self.local().get())
    }

    #[inline]
    pub(crate) fn next(&self) -> &OwnerPtr<Near> {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).next }
    }
}
