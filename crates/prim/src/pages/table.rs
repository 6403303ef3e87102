//! The superblocks of one span size: a list of directories, which only grows. The methods here take
//! and free spans, and map and unmap superblocks.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::directory::{Directory, Home};
use super::order::{ORDERS, Order};
use super::span::Span;
use super::superblock::{Superblock, TakenSpan};
use super::{PermanentLink, budget, map, os};

/// The largest number of spans in a superblock.
const SPANS_MAX: usize = 64;

/// The largest number of directories that one search for a dirty or idle span visits.
const HAND_DIRECTORIES: usize = 4;

/// The tables of all span lengths.
pub(super) static TABLES: [Table; ORDERS] = {
    let [a, b, c, d, e, f] = Order::ALL;
    [Table::new(a), Table::new(b), Table::new(c), Table::new(d), Table::new(e), Table::new(f)]
};

pub(super) struct Table {
    first: Directory,
    /// The directory in which a search for a free span starts. If the link is empty, it starts in
    /// `first`.
    hint: PermanentLink<Directory>,
    /// The directory in which the next search for a dirty or idle span starts. If the link is
    /// empty, it starts in `first`.
    hand: PermanentLink<Directory>,
    /// The last superblock without a used span that `Home::retire` did not keep for its cached
    /// spans, or null. It stays mapped until another one replaces it or a purge unmaps it.
    spare: AtomicPtr<Home>,
}

/// Returns the numbers of the set bits of a word, in ascending order.
fn set_bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let number = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(number)
    })
}

impl Directory {
    /// Takes a free span from this directory, or returns `None` if it finds none. In each
    /// superblock, prefers a clean span if `clean`, and a dirty span otherwise. Also returns
    /// whether the span may hold old bytes.
    fn take(&'static self, clean: bool) -> Option<(Span, bool)> {
        let mut numbers = set_bits(self.room.load(Ordering::Relaxed));
        numbers.find_map(|number| self.take_of(number, |superblock| superblock.take(clean)))
    }

    /// Takes the span of superblock `number` that `take` takes. If there is none or it was the last
    /// one, updates the hints. Also returns whether the span may hold old bytes.
    fn take_of(
        &'static self,
        number: u32,
        take: impl Fn(&Superblock) -> Option<TakenSpan>,
    ) -> Option<(Span, bool)> {
        let home = &self.homes[number as usize];
        let taken = take(&home.superblock);
        if taken.is_none_or(|taken| taken.last) {
            self.look_again(number);
        }
        taken.map(|taken| (Span { home, index: taken.index }, taken.dirty))
    }

    /// Returns the numbers of the superblocks, from `first` on, that seem to have a free span with
    /// old bytes.
    fn soiled_from(&self, first: u32) -> impl Iterator<Item = u32> {
        set_bits(self.soiled.load(Ordering::Relaxed) & u64::MAX.checked_shl(first).unwrap_or(0))
    }

    /// Takes the next free span with old bytes, in the order of the spans' numbers. After the last
    /// span it returns `None`, and the next call starts at the first span.
    fn take_dirty(&'static self) -> Option<Span> {
        let at = self.purge_at.load(Ordering::Relaxed);
        let (first, from) = ((at / SPANS_MAX) as u32, (at % SPANS_MAX) as u32);
        for number in self.soiled_from(first) {
            let from = if number == first { from } else { 0 };
            if let Some(span) = self.take_dirty_of(number, from) {
                if !weakened!("first_dirty_span_only") {
                    let next = number as usize * SPANS_MAX + span.index as usize + 1;
                    self.purge_at.store(next, Ordering::Relaxed);
                }
                return Some(span);
            }
        }
        self.purge_at.store(0, Ordering::Relaxed);
        None
    }

    /// Takes a span that `Superblock::take_idle` selects, or returns `None` if the search finds
    /// none. The search starts at the superblock in which the last search found a span. After a
    /// search that finds no span, the next search starts at the first superblock.
    fn take_idle(&'static self, look: usize) -> Option<Span> {
        for number in self.soiled_from(self.idle_at.load(Ordering::Relaxed) as u32) {
            let home = &self.homes[number as usize];
            let Some(taken) = home.superblock.take_idle(look) else { continue };
            if taken.last {
                self.look_again(number);
            }
            // After a refused purge the span is no longer marked as idle, so the next call finds
            // another span.
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

    /// Takes the first free span of superblock `number` that has old bytes, from index `from` on.
    /// Returns `None` if there is none.
    fn take_dirty_of(&'static self, number: u32, mut from: u32) -> Option<Span> {
        loop {
            let (span, dirty) = self.take_of(number, |superblock| superblock.take_dirty(from))?;
            if dirty {
                return Some(span);
            }
            // Another thread used and purged the span during the search.
            span.give(false);
            from = span.index + 1;
        }
    }
}

impl Span {
    /// Frees the span. `dirty` says whether the span may hold old bytes.
    pub(super) fn give(self, dirty: bool) {
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
    pub(super) fn give_unpurged(self) -> bool {
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
        let old = table.spare.swap(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
        // SAFETY: the pointer is null or names a superblock's words, which are never freed.
        let old = unsafe { old.as_ref() };
        if let Some(old) = old.filter(|old| !ptr::eq(*old, self)) {
            old.unmap_if_empty(table);
        }
    }

    /// Unmaps the superblock if all of its spans are free, and returns whether this call unmapped
    /// it. If the operating system refuses, the superblock stays as it is. The caller passes the
    /// table, because a superblock that was never open does not know its directory yet.
    fn unmap_if_empty(&self, table: &Table) -> bool {
        let Some((base, dirty)) = self.superblock.close(table.order().all_bits()) else { return false };
        // SAFETY: the base of an open superblock is not null (G2).
        let base = unsafe { NonNull::new_unchecked(base) };
        let cached = dirty * table.order().span();
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

impl Table {
    const fn new(order: Order) -> Self {
        Self {
            first: Directory::new(order, 0),
            hint: PermanentLink::new(),
            hand: PermanentLink::new(),
            spare: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn order(&self) -> Order {
        self.first.order
    }

    fn directories(&'static self) -> impl Iterator<Item = &'static Directory> {
        core::iter::successors(Some(&self.first), |directory| directory.next.get())
    }

    /// Takes a free span from this table, or returns `None` if it finds none. In each superblock,
    /// prefers a clean span if `clean`, and a dirty span otherwise. Also returns whether the span
    /// may hold old bytes.
    pub(super) fn take(&'static self, clean: bool) -> Option<(Span, bool)> {
        let start = self.hint.get().unwrap_or(&self.first);
        let on = core::iter::successors(Some(start), |directory| directory.next.get());
        let before = self.directories().take_while(|directory| directory.number < start.number);
        on.chain(before).find_map(|directory| {
            let taken = directory.take(clean)?;
            self.hint.set(Some(directory));
            Some(taken)
        })
    }

    /// Maps a superblock, and takes its first span, whose bytes are zero. Returns `None` if there
    /// is no memory.
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
        let span = Span { home, index: 0 };
        if directory.number == 0 && number == 0 {
            // A process that needs only a few spans would otherwise hold a huge page for each span
            // length.
            span.forgo_huge_pages();
        }
        Some(span)
    }

    /// Enters a new mapping in the map of addresses. If that fails for lack of memory, or because
    /// the map does not cover the addresses, unmaps the mapping and returns `false`.
    fn enter(&self, base: NonNull<u8>, home: &Home) -> bool {
        if map::set(base, self.order(), NonNull::from(home)) {
            return true;
        }
        map::clear(base, self.order());
        // SAFETY: the mapping is new, and nothing uses it. If the system refuses, only address
        // space is lost.
        let _ = unsafe { os::unmap(base, self.order().superblock()) };
        false
    }

    /// Takes a free span with old bytes from the next few directories. Returns `None` if the search
    /// finds none.
    pub(super) fn take_dirty(&'static self) -> Option<Span> {
        self.search(Directory::take_dirty)
    }

    /// Takes a span that has been cached without use from the next few directories (see
    /// `Superblock::take_idle`). Returns `None` if the search finds none. `look` is the number of
    /// the current look.
    pub(super) fn take_idle(&'static self, look: usize) -> Option<Span> {
        self.search(|directory| directory.take_idle(look))
    }

    /// Calls `take` for the next few directories until `take` finds a span. Returns this span, or
    /// `None`.
    fn search(&'static self, take: impl Fn(&'static Directory) -> Option<Span>) -> Option<Span> {
        let mut directory = self.hand.get().unwrap_or(&self.first);
        for _ in 0..HAND_DIRECTORIES {
            if let Some(span) = take(directory) {
                self.hand.set(Some(directory));
                return Some(span);
            }
            directory = directory.next.get().unwrap_or(&self.first);
        }
        self.hand.set(Some(directory));
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
