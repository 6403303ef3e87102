//! The superblocks of one span size.
//!
//! Directories of 64 superblocks form a list, which only grows. Each has three words with a bit for
//! each of its superblocks. `vacant` is exact: its bit says that the superblock is not mapped, and
//! clearing it claims the superblock. The other two are hints that save visits: `room` for
//! superblocks with a free span, `soiled` for those with a free span that has old bytes. A hint
//! that is set wrongly costs a visit, which clears it. No hint stays clear wrongly: a free sets it
//! after the superblock's own bit, and a thread that clears it looks at the superblock once more.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::order::{ORDERS, Order};
use super::superblock::{Prefer, Superblock, Taken};
use super::{budget, map, os, permanent};

mod home;
mod span;

pub(super) use span::Span;

/// A superblock has at most this number of spans.
const SPANS_MAX: usize = 64;

/// The number of directories that one search for a dirty span visits.
const HAND_DIRECTORIES: usize = 4;

/// The tables of all span lengths.
pub(super) static TABLES: [Table; ORDERS] = {
    let [a, b, c, d, e, f] = Order::ALL;
    [Table::new(a), Table::new(b), Table::new(c), Table::new(d), Table::new(e), Table::new(f)]
};

pub(super) struct Table {
    first: Directory,
    /// The directory in which a search starts. Null means the first one.
    hint: AtomicPtr<Directory>,
    /// The directory in which the next search for a dirty span starts. Null means the first one.
    hand: AtomicPtr<Directory>,
    /// The superblock that last had no used span and few cached ones. It stays mapped.
    spare: AtomicPtr<Home>,
}

struct Directory {
    order: Order,
    number: usize,
    vacant: AtomicU64,
    room: AtomicU64,
    soiled: AtomicU64,
    /// The number of the span, among those of all superblocks, at which the next search for a dirty
    /// span starts. So a span that the operating system refuses to purge does not keep others from
    /// being purged.
    purge_at: AtomicUsize,
    /// The number of the superblock at which the next search for an idle span starts.
    idle_at: AtomicUsize,
    next: AtomicPtr<Directory>,
    homes: [Home; 64],
}

/// A superblock and its place in the table.
pub(super) struct Home {
    superblock: Superblock,
    /// The directory of this superblock. It is written before the superblock first opens.
    directory: AtomicPtr<Directory>,
}

impl Directory {
    const fn new(order: Order, number: usize) -> Self {
        Self {
            order,
            number,
            vacant: AtomicU64::new(u64::MAX),
            room: AtomicU64::new(0),
            soiled: AtomicU64::new(0),
            purge_at: AtomicUsize::new(0),
            idle_at: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            homes: [const { Home { superblock: Superblock::new(), directory: AtomicPtr::new(ptr::null_mut()) } };
                64],
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // ORDERING: Acquire. Pairs with the Release in `Directory::next_or_new`.
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: the pointer is null or names a directory, which is never freed.
        unsafe { next.as_ref() }
    }

    /// Returns the next directory, and makes it if this is the last one.
    fn next_or_new(&self) -> Option<&'static Self> {
        if let Some(next) = self.next() {
            return Some(next);
        }
        let fresh = permanent::allocate(Layout::new::<Self>())?.cast::<Self>();
        // SAFETY: the memory has this layout, and no other thread knows it.
        unsafe { fresh.write(Self::new(self.order, self.number + 1)) };
        let (new, null) = (fresh.as_ptr(), ptr::null_mut());
        // ORDERING: Release. Pairs with the Acquire in `Directory::next`. Publishes: the directory.
        // If another thread was faster, this one is lost; a table makes few.
        let _ = self.next.compare_exchange(null, new, Ordering::Release, Ordering::Relaxed);
        self.next()
    }

    /// Takes a span of one of these superblocks.
    fn take(&'static self, prefer: Prefer) -> Option<(Span, Taken)> {
        let mut left = self.room.load(Ordering::Relaxed);
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left - 1;
            let home = &self.homes[number as usize];
            let taken = home.superblock.take(prefer);
            if taken.is_none_or(|taken| taken.last) {
                self.look_again(number);
            }
            if let Some(taken) = taken {
                return Some((Span { home, index: taken.index }, taken));
            }
        }
        None
    }

    /// Takes the next free span with old bytes, in the order of their numbers. After the last one
    /// it returns `None`, and the next call starts at the first one.
    fn take_dirty(&'static self) -> Option<Span> {
        let at = self.purge_at.load(Ordering::Relaxed);
        let (first, from) = ((at / SPANS_MAX) as u32, (at % SPANS_MAX) as u32);
        let mut left = self.soiled.load(Ordering::Relaxed) & u64::MAX.checked_shl(first).unwrap_or(0);
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left - 1;
            let from = if number == first { from } else { 0 };
            if let Some(span) = self.take_dirty_of(number, from) {
                if !cfg!(ephemera_weaken = "first_dirty_span_only") {
                    let next = number as usize * SPANS_MAX + span.index as usize + 1;
                    self.purge_at.store(next, Ordering::Relaxed);
                }
                return Some(span);
            }
        }
        self.purge_at.store(0, Ordering::Relaxed);
        None
    }

    /// Takes a span that no thread has used for a number of looks. Searches from the superblock of
    /// the last one on; after the last superblock, the next call starts at the first one.
    fn take_idle(&'static self, look: usize) -> Option<Span> {
        let first = (self.idle_at.load(Ordering::Relaxed)) as u32;
        let mut left = self.soiled.load(Ordering::Relaxed) & u64::MAX.checked_shl(first).unwrap_or(0);
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left - 1;
            let home = &self.homes[number as usize];
            let Some(taken) = home.superblock.take_idle(look) else { continue };
            if taken.last {
                self.look_again(number);
            }
            // A refused purge marks no span as idle, so the next call finds another one.
            self.idle_at.store(number as usize, Ordering::Relaxed);
            let span = Span { home, index: taken.index };
            if taken.dirty {
                return Some(span);
            }
            // Another thread used and purged the span during the search.
            span.give(false);
        }
        self.idle_at.store(0, Ordering::Relaxed);
        None
    }

    /// Takes the first free span with old bytes of one superblock, from this index on.
    fn take_dirty_of(&'static self, number: u32, mut from: u32) -> Option<Span> {
        let home = &self.homes[number as usize];
        loop {
            let taken = home.superblock.take_dirty(from);
            if taken.is_none_or(|taken| taken.last) {
                self.look_again(number);
            }
            let taken = taken?;
            let span = Span { home, index: taken.index };
            if taken.dirty {
                return Some(span);
            }
            // Another thread used and purged the span during the search.
            span.give(false);
            from = taken.index + 1;
        }
    }

    /// Clears the hints of a superblock that seems to have no free span, then sets them again if it
    /// has one after all.
    fn look_again(&self, number: u32) {
        let (bit, superblock) = (1 << number, &self.homes[number as usize].superblock);
        // ORDERING: AcqRel. Pairs with the Release in `Directory::note_room`: if that came first,
        // this thread sees the free span.
        self.room.fetch_and(!bit, Ordering::AcqRel);
        // ORDERING: AcqRel. Pairs with the Release in `Directory::note_room`.
        self.soiled.fetch_and(!bit, Ordering::AcqRel);
        if superblock.has_free() {
            self.note_room(number, superblock.has_free_dirty());
        }
    }

    /// Sets the hints of a superblock with a free span.
    fn note_room(&self, number: u32, soiled: bool) {
        // ORDERING: Release. Pairs with the AcqRel in `Directory::look_again`. Publishes: the free
        // span's bit.
        self.room.fetch_or(1 << number, Ordering::Release);
        if soiled {
            // ORDERING: Release. Pairs with the AcqRel in `Directory::look_again`.
            self.soiled.fetch_or(1 << number, Ordering::Release);
        }
    }

    /// Claims a superblock that is not mapped, and returns its number.
    fn claim(&self) -> Option<u32> {
        let mut vacant = self.vacant.load(Ordering::Relaxed);
        while vacant != 0 {
            let number = vacant.trailing_zeros();
            let rest = vacant & !(1 << number);
            // ORDERING: Acquire. Pairs with the Release in `Directory::vacate`: the last mapping is
            // gone.
            match self.vacant.compare_exchange_weak(vacant, rest, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(number),
                Err(now) => vacant = now,
            }
        }
        None
    }

    /// Ends the claim on a superblock that is not mapped.
    fn vacate(&self, number: u32) {
        // ORDERING: Release. Pairs with the Acquire in `Directory::claim`. Publishes: the end of
        // the mapping.
        self.vacant.fetch_or(1 << number, Ordering::Release);
    }
}

impl Table {
    const fn new(order: Order) -> Self {
        Self {
            first: Directory::new(order, 0),
            hint: AtomicPtr::new(ptr::null_mut()),
            hand: AtomicPtr::new(ptr::null_mut()),
            spare: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn order(&self) -> Order {
        self.first.order
    }

    fn directories(&'static self) -> impl Iterator<Item = &'static Directory> {
        core::iter::successors(Some(&self.first), |directory| directory.next())
    }

    /// Returns the directory of a hint.
    fn directory_of(&'static self, hint: &AtomicPtr<Directory>) -> &'static Directory {
        // SAFETY: the hint is null or names a directory, which is never freed.
        unsafe { hint.load(Ordering::Relaxed).as_ref() }.unwrap_or(&self.first)
    }

    /// Takes a free span.
    pub(super) fn take(&'static self, prefer: Prefer) -> Option<(Span, Taken)> {
        let start = self.directory_of(&self.hint);
        let on = core::iter::successors(Some(start), |directory| directory.next());
        let before = self.directories().take_while(|directory| directory.number < start.number);
        for directory in on.chain(before) {
            if let Some(taken) = directory.take(prefer) {
                self.hint.store(ptr::from_ref(directory).cast_mut(), Ordering::Relaxed);
                return Some(taken);
            }
        }
        None
    }

    /// Maps a superblock, and takes its first span, which is zero.
    pub(super) fn take_fresh(&'static self) -> Option<Span> {
        let mut directory = &self.first;
        let number = loop {
            match directory.claim() {
                Some(number) => break number,
                None => directory = directory.next_or_new()?,
            }
        };
        let home = &directory.homes[number as usize];
        home.directory.store(ptr::from_ref(directory).cast_mut(), Ordering::Relaxed);
        let base = os::map(self.order().superblock(), map::PIECE).filter(|base| self.enter(*base, home));
        let Some(base) = base else {
            directory.vacate(number);
            return None;
        };
        budget::mapped(self.order().superblock());
        home.superblock.open(base.as_ptr(), self.order().all_bits() & !1);
        directory.note_room(number, false);
        Some(Span { home, index: 0 })
    }

    /// Enters a new mapping in the map of addresses. If there is no memory for that, unmaps it.
    fn enter(&self, base: NonNull<u8>, home: &Home) -> bool {
        if map::set(base, self.order().superblock(), NonNull::from(home)) {
            return true;
        }
        map::clear(base, self.order().superblock());
        // SAFETY: the mapping is new, and nothing uses it. A refusal costs addresses only.
        let _ = unsafe { os::unmap(base, self.order().superblock()) };
        false
    }

    /// Takes a free span with old bytes, out of the next few directories.
    pub(super) fn take_dirty(&'static self) -> Option<Span> {
        self.search(Directory::take_dirty)
    }

    /// Takes a span that no thread has used for a number of looks, out of the next few directories.
    pub(super) fn take_idle(&'static self, look: usize) -> Option<Span> {
        self.search(|directory| directory.take_idle(look))
    }

    /// Calls `take` for the next few directories until it finds a span.
    fn search(&'static self, take: impl Fn(&'static Directory) -> Option<Span>) -> Option<Span> {
        let mut directory = self.directory_of(&self.hand);
        for _ in 0..HAND_DIRECTORIES {
            if let Some(span) = take(directory) {
                self.hand.store(ptr::from_ref(directory).cast_mut(), Ordering::Relaxed);
                return Some(span);
            }
            directory = directory.next().unwrap_or(&self.first);
        }
        self.hand.store(ptr::from_ref(directory).cast_mut(), Ordering::Relaxed);
        None
    }

    /// Takes each free span with old bytes once, and passes it to `purge`.
    pub(super) fn each_dirty(&'static self, purge: impl Fn(Span) -> bool) {
        for directory in self.directories() {
            for number in 0..directory.homes.len() as u32 {
                let mut from = 0;
                while let Some(span) = directory.take_dirty_of(number, from) {
                    from = span.index + 1;
                    purge(span);
                }
            }
        }
    }

    /// Unmaps every superblock without a used span.
    pub(super) fn unmap_empty(&'static self) {
        for home in self.directories().flat_map(|directory| &directory.homes) {
            home.unmap_if_empty(self);
        }
    }
}
