//! Frees spans, and unmaps superblocks without a used span.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering;

use super::{TABLES, Table};
use crate::pages::directory::Home;
use crate::pages::span::Span;
use crate::pages::{budget, map, os};

impl Span {
    /// Frees the span. `dirty` says whether the span may hold old bytes.
    pub(in super::super) fn give(self, dirty: bool) {
        // After the span's bit is set, another thread may unmap the superblock. The superblock's
        // words are never freed, so this function may still use them.
        let (home, directory) = (self.home, self.home.directory());
        let empty = home.superblock.give(self.index, dirty, home.table().order().all_bits());
        directory.note_room(home.number(), dirty);
        let hint = &home.table().hint;
        if hint.get().is_some_and(|hint| hint.number > directory.number) {
            hint.set(Some(directory));
        }
        if empty && !weakened!("empty_superblock_stays") {
            home.retire();
        }
    }

    /// Frees the span with its old bytes, which the operating system refused to purge. Then unmaps
    /// the superblock if all of its spans are free, and returns whether this call unmapped it.
    pub(in super::super) fn give_unpurged(self) -> bool {
        self.give(true);
        self.home.unmap_if_empty(self.home.table())
    }
}

impl Home {
    fn table(&self) -> &'static Table {
        &TABLES[self.directory().order.index()]
    }

    /// Decides whether a superblock whose spans are all free stays mapped.
    ///
    /// The superblock stays mapped if at least half of its spans are cached and the cache is within
    /// its bound. A later purge of one of its spans then calls this function again. Otherwise the
    /// superblock becomes the spare one of its table, and this function unmaps the former spare if
    /// that one has no used span.
    fn retire(&'static self) {
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

    /// Unmaps the superblock if all of its spans are free, and returns whether this call unmapped
    /// it. If the operating system refuses, the superblock stays as it is. The caller passes the
    /// table, because a superblock that was never open does not know its directory yet.
    pub(super) fn unmap_if_empty(&self, table: &Table) -> bool {
        let Some((base, dirty)) = self.superblock.close(table.order().all_bits()) else { return false };
        // SAFETY: the base of an open superblock is not null (G2).
        let base = unsafe { NonNull::new_unchecked(base) };
        let cached = dirty as usize * table.order().span();
        budget::uncached(cached);
        // Clear the entries first: as soon as the memory is unmapped, another superblock may get
        // its addresses.
        map::clear(base, table.order());
        // SAFETY: the bytes are the superblock's whole mapping. All spans were free, and closing
        // the superblock claimed them (G1).
        let unmapped = unsafe { os::unmap(base, table.order().superblock()) };
        if unmapped {
            budget::unmapped(table.order().superblock());
            self.directory().vacate(self.number());
        } else {
            map::set(base, table.order(), NonNull::from(self));
            budget::cached_again(cached);
            self.superblock.reopen(table.order().all_bits());
            self.directory().note_room(self.number(), dirty != 0);
        }
        unmapped
    }
}
