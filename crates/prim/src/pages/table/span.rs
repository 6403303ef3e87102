//! A span, as its owner sees it: how its address leads to its superblock, and how it is freed.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering;

use super::Home;
use crate::pages::map;
use crate::pages::order::Order;

/// A span that the calling thread owns.
#[derive(Clone, Copy)]
pub(in super::super) struct Span {
    pub(super) home: &'static Home,
    pub(super) index: u32,
}

impl Span {
    /// Returns the span at an address, if a superblock has it.
    ///
    /// # Safety
    /// If the address is that of a span, the caller owns the span.
    pub(in super::super) unsafe fn at(block: NonNull<u8>) -> Option<Self> {
        // SAFETY: entries name the words of superblocks, which are never freed (G4).
        let home: &'static Home = unsafe { map::find(block.addr().get())?.as_ref() };
        let base = home.superblock.base();
        // If no thread owns a span there, the superblock may be unmapped or have other addresses.
        let distance = block.addr().get().wrapping_sub(base.addr());
        if base.is_null() || distance >= home.table().order().superblock() {
            return None;
        }
        Some(Self { home, index: (distance / home.table().order().span()) as u32 })
    }

    /// Returns the length of the span that has a block. `None` if the block is a mapping.
    ///
    /// # Safety
    /// The caller owns the block.
    #[inline]
    pub(in super::super) unsafe fn len_at(block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the caller passes a live block of pages.
        unsafe { Self::order_at(block) }.map(Order::span)
    }

    /// Returns the order of the span that has a block. `None` if the block is a mapping.
    ///
    /// # Safety
    /// The caller owns the block.
    #[inline]
    pub(in super::super) unsafe fn order_at(block: NonNull<u8>) -> Option<Order> {
        // SAFETY: entries name the words of superblocks, which are never freed. Those for the
        // address of an owned block are right (G4).
        let home: &'static Home = unsafe { map::find(block.addr().get())?.as_ref() };
        Some(home.directory().order)
    }

    /// Returns the bytes of the span.
    pub(in super::super) fn len(self) -> usize {
        self.home.table().order().span()
    }

    pub(in super::super) fn start(self) -> NonNull<u8> {
        let start = self.home.superblock.base().wrapping_add(self.index as usize * self.len());
        // SAFETY: the base of a superblock with an owned span is not null (G2).
        unsafe { NonNull::new_unchecked(start) }
    }

    /// Frees the span. `dirty` says whether it may hold old bytes.
    pub(in super::super) fn give(self, dirty: bool) {
        // After the superblock's bit is set, another thread may unmap the superblock. Its words
        // stay.
        let (home, directory) = (self.home, self.home.directory());
        let empty = home.superblock.give(self.index, dirty, home.table().order().all_bits());
        directory.note_room(home.number(), dirty);
        let hint = home.table().hint.load(Ordering::Relaxed);
        // SAFETY: the hint is null or names a directory, which is never freed.
        if unsafe { hint.as_ref() }.is_some_and(|hint| hint.number > directory.number) {
            home.table().hint.store(ptr::from_ref(directory).cast_mut(), Ordering::Relaxed);
        }
        if empty && !cfg!(ephemera_weaken = "empty_superblock_stays") {
            home.retire();
        }
    }

    /// Frees the span with its old bytes, which the operating system refused to purge. If the
    /// superblock has no used span, it is unmapped as a whole.
    pub(in super::super) fn give_unpurged(self) {
        self.give(true);
        self.home.unmap_if_empty(self.home.table());
    }
}
