//! How a superblock finds its table, and how one without a used span is unmapped.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering;

use super::{Directory, Home, TABLES, Table};
use crate::pages::{budget, map, os};

impl Home {
    pub(super) fn directory(&self) -> &'static Directory {
        // SAFETY: the pointer was written before the superblock first opened, and directories are
        // never freed.
        unsafe { &*self.directory.load(Ordering::Relaxed) }
    }

    /// Returns the number of the superblock in its directory.
    pub(super) fn number(&self) -> u32 {
        let first = self.directory().homes.as_ptr().addr();
        ((ptr::from_ref(self).addr() - first) / size_of::<Self>()) as u32
    }

    pub(super) fn table(&self) -> &'static Table {
        &TABLES[self.directory().order.index()]
    }

    /// Decides whether a superblock whose spans are all free stays mapped.
    ///
    /// If at least half of them are cached and the cache is within its bound, the superblock stays
    /// mapped; a later purge calls this again. Otherwise it becomes the spare one, and the former
    /// spare is unmapped with its cached spans.
    pub(super) fn retire(&'static self) {
        let table = self.table();
        let cached = self.superblock.dirty_spans() * 2 >= table.order().spans();
        if cached && budget::has_room(0) {
            return;
        }
        let this = ptr::from_ref(self).cast_mut();
        let old = table.spare.swap(this, Ordering::Relaxed);
        if old != this {
            // SAFETY: the pointer is null or names a superblock's words, which are never freed.
            if let Some(old) = unsafe { old.as_ref() } {
                old.unmap_if_empty(table);
            }
        }
    }

    /// Unmaps the superblock if all of its spans are free. If the operating system refuses, the
    /// superblock stays as it is. A superblock that was never open has no directory yet, so the
    /// caller passes the table.
    pub(super) fn unmap_if_empty(&self, table: &Table) {
        let Some((base, dirty)) = self.superblock.close(table.order().all_bits()) else { return };
        // SAFETY: the base of an open superblock is not null (G2).
        let base = unsafe { NonNull::new_unchecked(base) };
        let cached = dirty as usize * table.order().span();
        budget::uncached(cached);
        // The entries go first: as soon as the memory is unmapped, another superblock may get its
        // addresses.
        map::clear(base, table.order().superblock());
        // SAFETY: all spans were free, and closing the superblock claimed them (G1).
        if unsafe { os::unmap(base, table.order().superblock()) } {
            budget::unmapped(table.order().superblock());
            self.directory().vacate(self.number());
        } else {
            map::set(base, table.order().superblock(), NonNull::from(self));
            budget::cached_again(cached);
            self.superblock.reopen(table.order().all_bits());
            self.directory().note_room(self.number(), dirty != 0);
        }
    }
}
