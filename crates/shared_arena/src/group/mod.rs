//! A group of pages: its head, the three parts that each page has in it, and the pointer by which they are reached.
//!
//! ```text
//!   head    whose it is, its shard, its store            read by every free
//!   near    free slots, link of the list                 written by the owner alone, at almost every free
//!   far     foreign word, link of the inbox              written by other threads
//!   rare    slots noted as home, counts of handles        read by counted handles
//! ```
//!
//! No two parts share a cache line. A handle finds its group by masking its own address: the pointer in it comes from that of the
//! group and may access all of it, so no provenance is exposed.

mod counted;
mod near;

pub(crate) use near::{Near, NearPtr};

use core::alloc::Layout;
use core::ptr::{self, NonNull};

#[cfg(target_has_atomic = "64")]
use ephemera_prim::foreign::{Foreign, Unit};
use ephemera_prim::poison::poison;
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::counts::Count;
use crate::geometry::{Geometry, LIMITS, Sizes};
use crate::shard::{Shard, ShardPtr};
use crate::store::Store;

/// The head of a group. Never borrowed as a whole: each field by itself, through [`GroupPtr`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Group {
    /// The identity of the owner: the address of a record, the mark of a pool, or null once the arena was dropped. Once no slot is
    /// out after that, the link in the list `home` of its shard (`parked`).
    record: OwnerPtr<()>,
    shard: OwnerPtr<Shard>,
    store: *mut Store,
    pages: usize,
    /// The next group of the shard, or of those that no shard has.
    next: OwnerPtr<Group>,
    /// The one before, among the queued groups of a shard whose arena was dropped.
    prev: OwnerPtr<Group>,
    /// While the arena lives: whether the group was wholly free when its owner last looked, and not used since. After that: whether
    /// the group is queued for looks (`parked`).
    mark: OwnerUsize,
    /// `ALIVE`, less the slots that frees have counted. Once the arena was dropped: the slots that nobody has counted.
    out: AtomicUsize,
    witness: Witness,
}

/// What other threads write. It is also what stands for the page in the shard's inbox.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Far {
    #[cfg(target_has_atomic = "64")]
    foreign: Foreign<Far>,
}

/// What is hardly ever written.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Rare {
    /// Once the arena was dropped: slots that a look has counted, kept beside the owner's word. It belongs to the closing thread,
    /// then to the holder of the shard's turn (`parked`).
    noted: OwnerU64,
    /// A count for each slot, once there was a counted handle; else null.
    counts: AtomicPtr<Count>,
    /// Of each slot: loom sees who hands it out and who frees it.
    #[cfg(ephemera_loom)]
    slots: [Witness; LIMITS.slots],
}

// SAFETY: the field's address is the same for as long as the page lives, and `&raw` makes no reference.
#[cfg(target_has_atomic = "64")]
unsafe impl Unit for Far {
    #[inline]
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>> {
        // SAFETY: the unit is alive, by the caller.
        let field = unsafe { &raw mut (*unit.as_ptr()).foreign };
        // SAFETY: a field of what is not null.
        unsafe { NonNull::new_unchecked(field) }
    }
}

/// What a count begins with, so that it cannot reach zero before the end of the arena: more than any count of slots or groups.
pub(crate) const ALIVE: usize = 1 << (usize::BITS - 2);

/// Bytes of the head and of the parts of a page.
const SIZES: Sizes = Sizes {
    head: size_of::<Group>(),
    near: size_of::<Near>(),
    far: size_of::<Far>(),
    rare: size_of::<Rare>(),
};

#[cfg(all(not(ephemera_loom), target_pointer_width = "64", target_has_atomic = "64"))]
const _: () = assert!(SIZES.head == 64 && SIZES.near + SIZES.far + SIZES.rare == 48, "48 bytes a page");

/// The geometry of the groups of values of type `T`.
pub(crate) struct Of<T>(core::marker::PhantomData<T>);

impl<T> Of<T> {
    pub(crate) const GEOMETRY: Geometry = Geometry::new(size_of::<T>(), align_of::<T>(), SIZES, LIMITS);
}

/// The layout of a group of `pages` pages, if there is one.
pub(crate) fn layout(geometry: &Geometry, pages: usize) -> Option<Layout> {
    let bytes = geometry.bytes(pages).filter(|_| pages != 0 && pages <= geometry.pages)?;
    Layout::from_size_align(bytes, geometry.group).ok()
}

/// A pointer to a group.
///
/// # Invariant
/// **G1** It points at the head of a group that is not freed while it is used, and may access the whole group. Whoever makes
/// one sees to that; methods rest on it. They take page numbers below the group's `pages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupPtr(NonNull<Group>);

impl GroupPtr {
    /// # Safety
    /// G1, unless the pointer is null.
    #[inline]
    pub(crate) unsafe fn from_raw(group: *mut Group) -> Option<Self> {
        NonNull::new(group).map(Self)
    }

    /// The group that a slot, or a part of a page, lies in.
    ///
    /// # Safety
    /// `part` is the pointer to a slot or to a part of a page as this module made it, with `align` the geometry's `group`;
    /// and the group is not freed while the result is used.
    #[inline]
    pub(crate) unsafe fn around<P>(part: NonNull<P>, align: usize) -> Self {
        let head = part.as_ptr().cast::<Group>().map_addr(|addr| addr & !(align - 1));
        // SAFETY: the group is alive: its base is not null.
        Self(unsafe { NonNull::new_unchecked(head) })
    }

    /// Makes a group of fresh memory: all slots free, bound to nobody.
    ///
    /// # Safety
    /// `memory` is the caller's alone and has the layout of `pages` pages of this geometry, which is that of `store`.
    pub(crate) unsafe fn create(
        memory: NonNull<u8>,
        geometry: &Geometry,
        pages: usize,
        store: *mut Store,
    ) -> Self {
        let head = Group {
            record: OwnerPtr::null(),
            shard: OwnerPtr::null(),
            store,
            pages,
            next: OwnerPtr::null(),
            prev: OwnerPtr::null(),
            mark: OwnerUsize::new(0),
            out: AtomicUsize::new(ALIVE),
            witness: Witness::new(),
        };
        let group = Self(memory.cast());
        // SAFETY: the memory is the caller's, aligned and larger than a head.
        unsafe { group.0.write(head) };
        for page in 0..pages {
            // SAFETY: the parts lie in the group, behind its head, aligned for it.
            unsafe { group.part(geometry.near, page).write(Near::new(geometry)) };
            let far = Far {
                #[cfg(target_has_atomic = "64")]
                foreign: Foreign::new(),
            };
            // SAFETY: as above.
            unsafe { group.part(geometry.far, page).write(far) };
            let rare = Rare {
                noted: OwnerU64::new(0),
                counts: AtomicPtr::new(ptr::null_mut()),
                #[cfg(ephemera_loom)]
                slots: core::array::from_fn(|_| Witness::new()),
            };
            // SAFETY: as above.
            unsafe { group.part(geometry.rare, page).write(rare) };
        }
        let bytes = geometry.bytes(pages).unwrap_or(geometry.first);
        // SAFETY: behind the parts lie slots that nobody has.
        unsafe { poison(group.at(geometry.first), bytes - geometry.first) };
        group
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Group {
        self.0.as_ptr()
    }

    #[inline]
    fn at(self, offset: usize) -> NonNull<u8> {
        // SAFETY: G1; offsets are those of the geometry and lie in the group.
        unsafe { self.0.cast::<u8>().add(offset) }
    }

    #[inline]
    fn part<P>(self, offset: usize, page: usize) -> NonNull<P> {
        self.at(offset + page * size_of::<P>()).cast()
    }

    #[inline]
    pub(crate) fn record(&self) -> &OwnerPtr<()> {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).record }
    }

    #[inline]
    pub(crate) fn shard(&self) -> &OwnerPtr<Shard> {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).shard }
    }

    /// The shard that has this group.
    ///
    /// # Safety
    /// The group is bound: it was claimed from, and a slot of it is out.
    #[inline]
    pub(crate) unsafe fn shard_of(self) -> ShardPtr {
        // SAFETY: the shard of a bound group is not null.
        let shard = unsafe { NonNull::new_unchecked(self.shard().get()) };
        // SAFETY: S1: shards live as long as the store, and that as long as its groups.
        unsafe { ShardPtr::new(shard) }
    }

    pub(crate) fn store(self) -> *mut Store {
        // SAFETY: G1; `store` never changes.
        unsafe { (*self.as_ptr()).store }
    }

    pub(crate) fn pages(self) -> usize {
        // SAFETY: G1; `pages` never changes.
        unsafe { (*self.as_ptr()).pages }
    }

    pub(crate) fn next(&self) -> &OwnerPtr<Group> {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).next }
    }

    pub(crate) fn prev(&self) -> &OwnerPtr<Group> {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).prev }
    }

    pub(crate) fn out(&self) -> &AtomicUsize {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).out }
    }

    /// Counts slots of a dropped arena's group. Returns whether they were the last: then nobody else touches the group.
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    #[inline]
    pub(crate) fn count_down(self, slots: usize) -> bool {
        // ORDERING: AcqRel. Pairs with itself, in `GroupPtr::count_down`. Publishes: the end of use of the slots, to the
        // thread that counts the last ones.
        const COUNT: Ordering =
            if cfg!(ephemera_weaken = "arena_out_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // ORDERING: `COUNT`. Pairs with `GroupPtr::count_down`.
        self.out().fetch_sub(slots, COUNT) == slots
    }

    /// The same where one thread has all of the store.
    #[inline]
    pub(crate) fn count_down_alone(self, slots: usize) -> bool {
        let out = self.out().load(Ordering::Relaxed) - slots;
        self.out().store(out, Ordering::Relaxed);
        out == 0
    }

    /// While the arena lives: whether the group was found wholly free and not used since.
    pub(crate) fn idle(&self) -> &OwnerUsize {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).mark }
    }

    /// Once the arena was dropped: whether the group is queued for looks.
    pub(crate) fn queued(&self) -> &OwnerUsize {
        self.idle()
    }

    /// For loom: somebody other than who frees it is about to use this group.
    #[inline]
    pub(crate) fn touch(self) {
        // SAFETY: G1; a reference to the witness alone.
        unsafe { &(*self.as_ptr()).witness }.touch();
    }

    /// For loom: a slot is handed out, or its user is about to give it back.
    #[cfg(ephemera_loom)]
    pub(crate) fn use_slot(self, geometry: &Geometry, page: usize, slot: usize) {
        let rare = self.part::<Rare>(geometry.rare, page);
        // SAFETY: G1; a reference to the witnesses alone.
        let slots = unsafe { &(*rare.as_ptr()).slots };
        slots[slot].write();
    }

    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub(crate) fn far(self, geometry: &Geometry, page: usize) -> NonNull<Far> {
        self.part(geometry.far, page)
    }

    /// The page whose far part this is.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn page_of_far(self, geometry: &Geometry, far: NonNull<Far>) -> usize {
        (far.addr().get() - self.0.addr().get() - geometry.far) / size_of::<Far>()
    }

    /// Slots that other threads gave back to a page and that are not booked yet. For statistics.
    pub(crate) fn unbooked(self, geometry: &Geometry, page: usize) -> u64 {
        #[cfg(target_has_atomic = "64")]
        {
            let foreign = self.foreign(geometry, page);
            foreign.touch();
            foreign.unbooked()
        }
        #[cfg(not(target_has_atomic = "64"))]
        {
            let _ = (geometry, page);
            0
        }
    }

    #[cfg(target_has_atomic = "64")]
    fn foreign(&self, geometry: &Geometry, page: usize) -> &Foreign<Far> {
        let far = self.far(geometry, page);
        // SAFETY: G1; a reference to the foreign words alone, which are atomics.
        unsafe { &(*far.as_ptr()).foreign }
    }

    /// Slots of a page that are known to be home, once the arena was dropped.
    pub(crate) fn noted(&self, geometry: &Geometry, page: usize) -> &OwnerU64 {
        let rare = self.part::<Rare>(geometry.rare, page);
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*rare.as_ptr()).noted }
    }

    /// Where slot 0 of a page is.
    #[inline]
    pub(crate) fn base(self, geometry: &Geometry, page: usize) -> NonNull<u8> {
        self.at(geometry.page_offset(page))
    }

    /// The group goes back to the heap: nobody else may touch it from here.
    ///
    /// # Safety
    /// It is wholly home and on no list, and was made for `store`.
    pub(crate) unsafe fn release(self, store: &Store) {
        let geometry = store.geometry();
        // SAFETY: G1; a reference to the witness alone, for the last time.
        unsafe { &(*self.as_ptr()).witness }.end();
        let pages = self.pages();
        for page in 0..pages {
            #[cfg(target_has_atomic = "64")]
            self.foreign(geometry, page).end();
            // SAFETY: no slot of the page has a handle.
            unsafe { self.release_counts(store, page) };
        }
        if let Some(layout) = layout(geometry, pages) {
            // SAFETY: acquired with this layout; the caller vouches that nobody uses it.
            unsafe { store.account().release(self.0.cast(), layout) };
        }
    }
}
