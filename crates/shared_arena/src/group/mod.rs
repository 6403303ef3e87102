//! Defines a group of pages: its header, the three parts of each page, and the pointer through
//! which other modules access the group.
//!
//! ```text
//!   header  identity of the owner, shard              read by every free
//!   near    free slots, link of the page list         written by the owner
//!   far     foreign word, link of the inbox           written by other threads
//!   rare    noted slots, counts of handles            read by counted handles
//! ```
//!
//! Parts of different kinds never share a cache line. A handle finds its group by masking the
//! address of its slot. The pointer in a handle derives from the pointer to the group and may
//! access the whole group, so the crate never exposes provenance.

mod counted;
mod parts;

pub(crate) use parts::{Far, NearPart, NearPtr};

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::foreign::Foreign;
use ephemera_prim::poison::poison;
use ephemera_prim::sync::{AtomicUsize, Ordering};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::account::StoreAccount;
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::{ArenaGeometry, Position, Sizes};
use parts::Rare;

/// The header of a group. Code borrows single fields through [`PageGroupPtr`], never the whole
/// header.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PageGroup {
    /// The identity of the owner: the address of a record, or the mark of a pool. An unbound group
    /// keeps the identity of its last owner. Null before the first owner and after the arena's
    /// drop. In a group that was left for the turn-holder, this word links to the next group that
    /// was left (`turn`).
    record: OwnerPtr<()>,
    /// The last shard to which the group was bound, or null. `ShardPtr::of` casts this pointer to a
    /// pointer to a `Shard`.
    shard: OwnerPtr<()>,
    pages: usize,
    /// The next group in the same list: the groups of a shard, or the unbound groups of the store.
    next: OwnerPtr<PageGroup>,
    /// After the arena's drop: the previous group in the list of the shard, or null.
    prev: OwnerPtr<PageGroup>,
    /// A flag with two uses. While the arena is live: whether the owner's last look found the group
    /// empty and no page of the group has been used since. After the drop: whether the group is
    /// queued for looks (`parked`).
    mark: OwnerUsize,
    /// The count that keeps the group after its arena's drop. Until the closing thread takes its
    /// share off, the count is [`ALIVE`] minus the number of slots that frees have counted. After
    /// that, it is the number of slots that no thread has counted yet.
    out: AtomicUsize,
    witness: Witness,
}

/// The initial value of the count in each group and each store. It exceeds every number of slots
/// and of parts, so a count cannot reach zero before the closing thread takes its share off.
pub(crate) const ALIVE: usize = 1 << (usize::BITS - 2);

/// Sizes of the header and of the parts of a page, in bytes.
const SIZES: Sizes = Sizes {
    header: size_of::<PageGroup>(),
    near: size_of::<NearPart>(),
    far: size_of::<Far>(),
    rare: size_of::<Rare>(),
};

#[cfg(all(not(ephemera_loom), target_pointer_width = "64"))]
const _: () = assert!(SIZES.header == 64 && SIZES.near + SIZES.far + SIZES.rare == 48, "48 bytes a page");

/// Provides the geometry of the groups for values of type `T` as a constant.
pub(crate) struct GroupsOf<T>(core::marker::PhantomData<T>);

impl<T> GroupsOf<T> {
    pub(crate) const GEOMETRY: ArenaGeometry = ArenaGeometry::new(size_of::<T>(), align_of::<T>(), SIZES);
}

/// Returns the layout of a group of `pages` pages, or `None` if no group has this number of pages.
pub(crate) fn layout(geometry: &ArenaGeometry, pages: usize) -> Option<Layout> {
    if pages == 0 || pages > geometry.pages {
        return None;
    }
    Layout::from_size_align(geometry.bytes(pages), geometry.group).ok()
}

/// A pointer to a group.
///
/// # Invariant
/// **G1** The pointer points at the header of a group that is not freed while the pointer is used.
/// It may access the whole group. The code that makes the pointer upholds this invariant, and the
/// methods rely on it. Callers pass only page numbers below the group's `pages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageGroupPtr(NonNull<PageGroup>);

impl PageGroupPtr {
    // The group is not freed while the pointer is used (G1).
    words! {
        pub(crate) fn record() -> &OwnerPtr<()> = record;
        pub(crate) fn shard() -> &OwnerPtr<()> = shard;
        pub(crate) fn pages() -> usize = pages;
        pub(crate) fn next() -> &OwnerPtr<PageGroup> = next;
        pub(crate) fn prev() -> &OwnerPtr<PageGroup> = prev;
        pub(crate) fn out() -> &AtomicUsize = out;
        /// Returns the word that says whether the owner's last look found the group empty and no
        /// page of the group has been used since. The arena must be live.
        pub(crate) fn idle() -> &OwnerUsize = mark;
        /// Returns the word that says whether the group is queued for looks. The arena must be
        /// dropped.
        pub(crate) fn queued() -> &OwnerUsize = mark;
        fn witness() -> &Witness = witness;
    }

    /// # Safety
    /// The pointer is null, or points at the header of a group that is not freed while the result
    /// is used (G1).
    #[inline]
    pub(crate) unsafe fn from_raw(group: *mut PageGroup) -> Option<Self> {
        NonNull::new(group).map(Self)
    }

    /// Returns the groups of a list, beginning with `first`. Reads a group's link before it yields
    /// the group, which may then be freed or put into another list.
    ///
    /// # Safety
    /// `first` is null or the first group of a list. Each group of the list is not freed before it
    /// is yielded, nor while the yielded pointer is used (G1).
    pub(crate) unsafe fn list(mut first: *mut PageGroup) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            // SAFETY: the caller guarantees that the group is not freed before it is yielded, nor
            // while the yielded pointer is used.
            let group = unsafe { Self::from_raw(first) }?;
            first = group.next().get();
            Some(group)
        })
    }

    /// Returns the group that contains a slot or a part of a page.
    ///
    /// # Safety
    /// `part` points to a slot or to a part of a page, and derives from a pointer to its group.
    /// `align` is the geometry's `group`. The group is not freed while the result is used (G1).
    #[inline]
    pub(crate) unsafe fn around<P>(part: NonNull<P>, align: usize) -> Self {
        let header = part.as_ptr().cast::<PageGroup>().map_addr(|addr| addr & !(align - 1));
        // SAFETY: the base of a live group is not null.
        Self(unsafe { NonNull::new_unchecked(header) })
    }

    /// Initialises a group in fresh memory. All slots are free, and the group is not bound to a
    /// shard.
    ///
    /// # Safety
    /// The caller owns `memory`, which has the layout of `pages` pages of this geometry.
    pub(crate) unsafe fn create(memory: NonNull<u8>, geometry: &ArenaGeometry, pages: usize) -> Self {
        let header = PageGroup {
            record: OwnerPtr::null(),
            shard: OwnerPtr::null(),
            pages,
            next: OwnerPtr::null(),
            prev: OwnerPtr::null(),
            mark: OwnerUsize::new(0),
            out: AtomicUsize::new(ALIVE),
            witness: Witness::new(),
        };
        let group = Self(memory.cast());
        // SAFETY: the caller owns the memory, which is aligned and larger than a header.
        unsafe { group.0.write(header) };
        for page in 0..pages {
            // SAFETY: the parts lie in the group after its header, at aligned offsets.
            unsafe { group.part(geometry.near, page).write(NearPart::new(geometry)) };
            // SAFETY: the parts lie in the group after its header, at aligned offsets.
            unsafe { group.part(geometry.far, page).write(Far { foreign: Foreign::new() }) };
            // SAFETY: the parts lie in the group after its header, at aligned offsets.
            unsafe { group.part(geometry.rare, page).write(Rare::new()) };
        }
        // SAFETY: the bytes after the parts lie in the caller's memory, and no other code uses
        // them.
        unsafe { poison(group.at(geometry.first), geometry.bytes(pages) - geometry.first) };
        group
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut PageGroup {
        self.0.as_ptr()
    }

    #[inline]
    fn at(self, offset: usize) -> NonNull<u8> {
        // SAFETY: the group is not freed while this pointer is used (G1). `offset` comes from the
        // geometry, so it lies in the group.
        unsafe { self.0.cast::<u8>().add(offset) }
    }

    #[inline]
    fn part<P>(self, offset: usize, page: usize) -> NonNull<P> {
        self.at(offset + page * size_of::<P>()).cast()
    }

    /// Takes `slots` slots off the count of a dropped arena's group. Returns whether the count
    /// reached zero. If so, no other thread touches the group again, except the turn-holder if the
    /// group is queued.
    #[inline]
    pub(crate) fn count_down(self, slots: usize) -> bool {
        // ORDERING: AcqRel. Pairs with itself, in `PageGroupPtr::count_down`. Publishes: all
        // accesses to these slots, to the thread whose subtraction reaches zero.
        ordering!(count_order = AcqRel, Relaxed if "arena_out_relaxed");
        // ORDERING: `count_order`. Pairs with the subtractions of other threads in
        // `PageGroupPtr::count_down`.
        self.out().fetch_sub(slots, count_order()) == slots
    }

    /// Acts like [`Self::count_down`], but without a read-modify-write. The group must belong to a
    /// pool, which only one thread uses.
    #[inline]
    pub(crate) fn count_down_alone(self, slots: usize) -> bool {
        let out = self.out().load(Ordering::Relaxed) - slots;
        self.out().store(out, Ordering::Relaxed);
        out == 0
    }

    /// Tells loom that this thread is about to use the group. Loom reports a use that can race with
    /// the group's release.
    #[inline]
    pub(crate) fn touch(self) {
        self.witness().touch();
    }

    /// Tells loom that a slot is handed out or is about to be freed.
    pub(crate) fn use_slot(self, geometry: &ArenaGeometry, at: Position) {
        self.rare(geometry, at.page).slots[at.slot].write();
    }

    #[inline]
    pub(crate) fn near(self, geometry: &ArenaGeometry, page: usize) -> NearPtr {
        // SAFETY: the group is not freed while this pointer, or a pointer derived from it, is used
        // (G1).
        unsafe { NearPtr::new(self.part(geometry.near, page)) }
    }

    /// Returns the address of slot 0 in the page with the near part `near`.
    #[inline]
    pub(crate) fn base(self, geometry: &ArenaGeometry, near: NearPtr) -> NonNull<u8> {
        let offset = near.as_non_null().addr().get() - self.0.addr().get() - geometry.near;
        self.at(geometry.page_offset(offset / size_of::<NearPart>()))
    }

    /// Returns the group that contains the near part `near`.
    pub(crate) fn of_near(geometry: &ArenaGeometry, near: NearPtr) -> Self {
        // SAFETY: `near` derives from a pointer to its group, which is not freed while `near` is
        // used (G1).
        unsafe { Self::around(near.as_non_null(), geometry.group) }
    }

    #[inline]
    pub(crate) fn far(self, geometry: &ArenaGeometry, page: usize) -> NonNull<Far> {
        self.part(geometry.far, page)
    }

    /// Returns the number of the page that `far` belongs to.
    pub(crate) fn page_of_far(self, geometry: &ArenaGeometry, far: NonNull<Far>) -> usize {
        (far.addr().get() - self.0.addr().get() - geometry.far) / size_of::<Far>()
    }

    /// Returns the bits of the slots in a page that other threads have freed and the owner has not
    /// booked. Only statistics may call this.
    pub(crate) fn unbooked(self, geometry: &ArenaGeometry, page: usize) -> u64 {
        let foreign = self.foreign(geometry, page);
        foreign.touch();
        foreign.unbooked()
    }

    fn foreign(&self, geometry: &ArenaGeometry, page: usize) -> &Foreign<Far> {
        let far = self.far(geometry, page);
        // SAFETY: the group is not freed while this pointer is used (G1), and the reference covers
        // only this field, which consists of atomics.
        unsafe { &(*far.as_ptr()).foreign }
    }

    #[inline]
    fn rare(&self, geometry: &ArenaGeometry, page: usize) -> &Rare {
        let rare = self.part::<Rare>(geometry.rare, page);
        // SAFETY: the group is not freed while this pointer is used (G1), and the reference covers
        // only this part, which consists of atomics (and witnesses in models).
        unsafe { &*rare.as_ptr() }
    }

    /// Returns the word with the slots of a page that the arena's drop or a look has noted as free.
    pub(crate) fn noted(&self, geometry: &ArenaGeometry, page: usize) -> &OwnerU64 {
        &self.rare(geometry, page).noted
    }

    /// Returns the counts of the slot `at`, which has a counted handle.
    ///
    /// # Safety
    /// A successful call to [`PageGroupPtr::make_counts`] for this page happened before this one,
    /// and the page has this slot. The group is not freed while the result is used.
    #[inline]
    pub(crate) unsafe fn count<'a>(self, geometry: &ArenaGeometry, at: Position) -> &'a Count {
        // SAFETY: the caller guarantees that `make_counts` has made the page's array, that the page
        // has this slot, and that the group is not freed while the result is used.
        unsafe { self.rare(geometry, at.page).counts.of(at.slot) }
    }

    /// Returns the counts of the slot `at`, which the caller owns. Allocates the page's array if
    /// the page has none.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit or the global allocator refuses the memory for the array.
    #[inline]
    pub(crate) fn make_counts(
        &self,
        account: &StoreAccount,
        geometry: &ArenaGeometry,
        at: Position,
    ) -> Result<&Count, Refused> {
        self.rare(geometry, at.page).counts.make(account, geometry)?;
        // SAFETY: `make` succeeded, so the page has its array. The caller owns the slot, so the
        // page has this slot. The result borrows this pointer, so the group is not freed (G1).
        Ok(unsafe { self.count(geometry, at) })
    }

    /// Frees the group. No other thread may touch the group after this call begins.
    ///
    /// # Safety
    /// No slot is in use, no list contains the group, and its memory was acquired from `account`.
    pub(crate) unsafe fn release(self, account: &StoreAccount, geometry: &ArenaGeometry) {
        self.witness().end();
        let pages = self.pages();
        for page in 0..pages {
            self.foreign(geometry, page).end_closable();
            // SAFETY: no slot of the page is in use, so no code uses its counts again.
            // `make_counts` passed the same arguments to `make`.
            unsafe { self.rare(geometry, page).counts.release(account, geometry) };
        }
        if let Some(layout) = layout(geometry, pages) {
            // SAFETY: the group was acquired from `account` with this layout, and no code uses it
            // again.
            unsafe { account.release(self.0.cast(), layout) };
        }
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{ArenaGeometry, GroupsOf, SIZES, layout};

    #[test]
    fn groups_have_at_least_one_page_and_at_most_those_of_the_largest_group() {
        let geometry = &GroupsOf::<u64>::GEOMETRY;
        for pages in [0, geometry.pages + 1, usize::MAX] {
            assert_eq!(layout(geometry, pages), None, "{pages} pages");
        }
        assert!([1, geometry.pages].iter().all(|&pages| layout(geometry, pages).is_some()));
        assert_eq!(layout(&ArenaGeometry::new(isize::MAX as usize, 1, SIZES), 1), None);
    }
}
