//! Groups of 64 superblocks, with bits that tell a search which superblocks to visit.
//!
//! Each directory has three words with a bit for each of its superblocks. `vacant` is exact: a set
//! bit says that the superblock is not mapped, and clearing the bit claims the superblock. The
//! other two words are hints that save visits: `room` for superblocks with a free span, and
//! `soiled` for superblocks with a free span that has old bytes. A wrongly set hint costs a visit,
//! which usually clears the hint. A hint never stays wrongly clear: a free sets the hint after the
//! superblock's own bit, and a thread that clears the hint looks at the superblock once more.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::order::Order;
use super::superblock::Superblock;
use super::{PermanentLink, permanent_value};
use crate::sync::change_if;

/// 64 superblocks of one span size.
pub(super) struct Directory {
    pub(super) order: Order,
    /// The number of directories before this one in its table.
    pub(super) number: usize,
    vacant: AtomicU64,
    pub(super) room: AtomicU64,
    pub(super) soiled: AtomicU64,
    /// The number of the span, among the spans of all superblocks of this directory, at which the
    /// next search for a dirty span starts. A span that the operating system refuses to purge
    /// therefore does not block the purges of other spans.
    pub(super) purge_at: AtomicUsize,
    /// The number of the superblock at which the next search for an idle span starts.
    pub(super) idle_at: AtomicUsize,
    pub(super) next: PermanentLink<Directory>,
    pub(super) homes: [Home; 64],
}

/// A superblock and the directory that contains it.
pub(super) struct Home {
    pub(super) superblock: Superblock,
    /// The directory of this superblock. It is written before the superblock first opens.
    pub(super) directory: AtomicPtr<Directory>,
}

impl Directory {
    /// Creates a directory of superblocks that are not mapped.
    pub(super) const fn new(order: Order, number: usize) -> Self {
        Self {
            order,
            number,
            vacant: AtomicU64::new(u64::MAX),
            room: AtomicU64::new(0),
            soiled: AtomicU64::new(0),
            purge_at: AtomicUsize::new(0),
            idle_at: AtomicUsize::new(0),
            next: PermanentLink::new(),
            homes: [const { Home { superblock: Superblock::new(), directory: AtomicPtr::new(ptr::null_mut()) } };
                64],
        }
    }

    /// Returns the next directory, and creates it if this is the last one. Returns `None` if there
    /// is no memory for it.
    pub(super) fn next_or_new(&self) -> Option<&'static Self> {
        self.next.get_or_make(|| permanent_value(Self::new(self.order, self.number + 1)))
    }

    /// Clears the hints of a superblock in which a search found no span or took the last one. Then
    /// sets each hint that still holds.
    pub(super) fn look_again(&self, number: u32) {
        let (bit, superblock) = (1 << number, &self.homes[number as usize].superblock);
        // ORDERING: AcqRel. Pairs with the Release in `Directory::note_room`: if `note_room` came
        // first, this thread sees the free span.
        self.room.fetch_and(!bit, Ordering::AcqRel);
        // ORDERING: AcqRel. Pairs with the Release in `Directory::note_room`.
        self.soiled.fetch_and(!bit, Ordering::AcqRel);
        if superblock.has_free() {
            self.note_room(number, superblock.has_free_dirty());
        }
    }

    /// Sets the hints of a superblock with a free span. `soiled` says whether a free span has old
    /// bytes.
    pub(super) fn note_room(&self, number: u32, soiled: bool) {
        // ORDERING: Release. Pairs with the AcqRel in `Directory::look_again`. Publishes: the free
        // span's bit.
        self.room.fetch_or(1 << number, Ordering::Release);
        if soiled {
            // ORDERING: Release. Pairs with the AcqRel in `Directory::look_again`. Publishes: the
            // superblock's bit for the span with old bytes.
            self.soiled.fetch_or(1 << number, Ordering::Release);
        }
    }

    /// Claims a superblock that is not mapped, and returns its number. Returns `None` if there is
    /// none.
    pub(super) fn claim(&self) -> Option<u32> {
        // ORDERING: Acquire. Pairs with the Release in `Directory::vacate`: this thread sees that
        // the superblock's previous mapping was unmapped.
        let exchange =
            |old, new| self.vacant.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Relaxed);
        let but_first = |vacant: u64| (vacant != 0).then(|| vacant & (vacant - 1));
        let vacant = change_if(self.vacant.load(Ordering::Relaxed), exchange, but_first).ok()?;
        Some(vacant.trailing_zeros())
    }

    /// Releases the claim on a superblock that is not mapped.
    pub(super) fn vacate(&self, number: u32) {
        // ORDERING: Release. Pairs with the Acquire in `Directory::claim`. Publishes: the
        // unmapping of the superblock's previous mapping.
        self.vacant.fetch_or(1 << number, Ordering::Release);
    }
}

impl Home {
    /// Returns the directory of a superblock that is or was open.
    #[inline]
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
}
