//! A span in use, and the lookup of a span by an address.

use core::ptr::NonNull;

use super::directory::Home;
use super::order::Order;
use super::{map, os};

/// A span in use. Usually, the calling thread owns it.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) home: &'static Home,
    pub(super) index: u32,
}

impl Span {
    /// Returns the span that contains an address, if there is one.
    ///
    /// # Safety
    /// If the address is in a span, that span has an owner and is not freed during the call.
    pub(super) unsafe fn at(block: NonNull<u8>) -> Option<Self> {
        let (home, order) = map::find(block.addr().get())?;
        // SAFETY: entries name the words of superblocks, which are never freed (G4).
        let home: &'static Home = unsafe { home.as_ref() };
        let base = home.superblock.base();
        // If the address is in no owned span, the superblock may be unmapped or have other
        // addresses.
        let distance = block.addr().get().wrapping_sub(base.addr());
        if base.is_null() || distance >= order.superblock() {
            return None;
        }
        Some(Self { home, index: (distance / order.span()) as u32 })
    }

    /// Returns the order of the span that contains a block, or `None` if the block has its own
    /// mapping. If no thread owns the block, the answer may be out of date.
    #[inline]
    pub(super) fn order_at(block: NonNull<u8>) -> Option<Order> {
        map::find(block.addr().get()).map(|(_, order)| order)
    }

    /// Returns the length of the span, in bytes.
    pub(super) fn len(self) -> usize {
        self.home.directory().order.span()
    }

    /// Asks the system not to use huge pages for the superblock of this span, unless a thread has
    /// done so before or the program asked for huge pages. Without this, Linux may replace the
    /// pages around purged ones by a huge page at any later time, so that the purged bytes are
    /// resident again. If the system refuses, no thread asks again for this mapping.
    pub(super) fn forgo_huge_pages(self) {
        if !os::prefers_huge_pages() && self.home.superblock.begins_small_pages() {
            // SAFETY: the base of a superblock with an owned span is not null (G2).
            let base = unsafe { NonNull::new_unchecked(self.home.superblock.base()) };
            os::forgo_huge_pages(base, self.home.directory().order.superblock());
        }
    }

    /// Returns the pages of the span to the operating system, and reports whether that worked.
    ///
    /// # Safety
    /// The caller owns the span, and its content is not needed.
    #[must_use]
    pub(super) unsafe fn purge(self) -> bool {
        if os::whole_pages(self.start(), self.len()).is_some() {
            self.forgo_huge_pages();
        }
        // SAFETY: the caller owns the span, which lies in its superblock's mapping.
        unsafe { os::purge(self.start(), self.len()) }
    }

    pub(super) fn start(self) -> NonNull<u8> {
        let start = self.home.superblock.base().wrapping_add(self.index as usize * self.len());
        // SAFETY: the base of a superblock with an owned span is not null (G2), and the span lies
        // in that mapping, so the sum does not wrap around.
        unsafe { NonNull::new_unchecked(start) }
    }
}
