//! Defines the **shard**, which is one owner's part of an arena, and the fast paths of claim and
//! free.
//!
//! ```text
//!   hot ------> one free slot
//!   bits, base  free slots of the current page, taken out of the page's word
//!   avail ----> page with free slots --> page with free slots   (LISTED, like the current page)
//!   groups ---> every group of the shard, whether or not its pages are listed
//! ```
//!
//! A claim takes the slot in `hot`, or else one of `bits`. If both are empty, the claim takes the
//! slow path (`refill`), which fills `bits` with up to 63 slots. A local free puts its slot into
//! `hot` if `hot` is empty. Otherwise it sets the slot's bit in the word of the slot's page, and
//! links the page if the page was full. Only the arena's methods and its drop look for empty
//! groups, so a local free need not know whether the arena is live.

use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::poison::unpoison;
use ephemera_prim::prefetch;
use ephemera_prim::rest::Rest;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::bag::{BagLink, Linked};
use crate::bits::Bits;
use crate::geometry::ArenaGeometry;
use crate::group::{Far, NearPart, NearPtr, PageGroup, PageGroupPtr};
use crate::turn::Turn;

/// One owner's part of an arena. The shard lives as long as the arena's store. Code borrows single
/// fields, never the whole shard.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shard {
    hot: OwnerPtr<u8>,
    bits: OwnerU64,
    base: OwnerPtr<u8>,
    current: OwnerPtr<NearPart>,
    avail: OwnerPtr<NearPart>,
    groups: OwnerPtr<PageGroup>,
    /// The identity of the owner, which each group of this shard stores in its header: the address
    /// of a record, or the mark of a pool.
    record: *const (),
    /// The number of pages in all groups of this shard.
    pages: OwnerUsize,
    quiet: QuietFields,
    remote: ShardRemote,
}

/// The fields that only slow paths read.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QuietFields {
    /// The store to which this shard belongs. `ArenaStore::of` casts this pointer back.
    store: *const (),
    /// The number of slow paths since the owner last looked for idle groups, except slow paths
    /// while pages rest and slow paths that trim on request.
    pub(crate) served: OwnerUsize,
    /// Decides whether pages rest.
    pub(crate) rest: Rest,
    /// The last trim epoch that the owner obeyed.
    pub(crate) epoch: OwnerUsize,
    /// The number of pages that the booking of remote frees left without a slot in use, since
    /// `scavenge` last trimmed this shard.
    pub(crate) booked: OwnerUsize,
    /// The value of `entered` in the shard's record when `scavenge` last trimmed this shard.
    pub(crate) entered: OwnerUsize,
}

/// The words that other threads write. They are not on the cache lines of the owner's fields.
#[derive(Debug)]
#[repr(C)]
struct ShardRemote {
    /// Padding that aligns the struct to a cache line. The other fields are not inside this
    /// `CachePadded`, because code borrows each of them separately.
    line: CachePadded<()>,
    inbox: Inbox<Far>,
    /// The turn at this shard, and the work that other threads leave for the turn-holder after the
    /// arena is dropped. See the module `turn`.
    turn: Turn,
    /// The link to the next shard in a bag.
    link: BagLink<Shard>,
    /// The group at which the next look by a thread other than the owner begins, or null for the
    /// first group.
    cursor: OwnerPtr<PageGroup>,
}

impl Shard {
    pub(crate) fn new(record: *const (), store: *const ()) -> Self {
        Self {
            hot: OwnerPtr::null(),
            bits: OwnerU64::new(0),
            base: OwnerPtr::null(),
            current: OwnerPtr::null(),
            avail: OwnerPtr::null(),
            groups: OwnerPtr::null(),
            record,
            pages: OwnerUsize::new(0),
            quiet: QuietFields {
                store,
                served: OwnerUsize::new(0),
                rest: Rest::new(),
                epoch: OwnerUsize::new(0),
                booked: OwnerUsize::new(0),
                // No record has had this number of holders, so the first pass of `scavenge` does
                // not skip the shard.
                entered: OwnerUsize::new(usize::MAX),
            },
            remote: ShardRemote {
                line: CachePadded::new(()),
                inbox: Inbox::new(),
                turn: Turn::taken(),
                link: BagLink::new(),
                cursor: OwnerPtr::null(),
            },
        }
    }
}

impl Linked for Shard {
    fn link<'a>(item: NonNull<Self>) -> &'a BagLink<Self> {
        // SAFETY: a shard in a bag, or with a visitor, is a part of its store. While the closing
        // thread pushes the shard, that thread's own part remains. So the store and the shard are
        // live (S1). The reference covers only this field.
        unsafe { &(*item.as_ptr()).remote.link }
    }
}

/// A pointer to a shard.
///
/// # Invariant
/// **S1** The pointer points at a shard that is not freed while the pointer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardPtr(NonNull<Shard>);

impl ShardPtr {
    // The shard is not freed while the pointer is used (S1).
    words! {
        pub(crate) fn hot() -> &OwnerPtr<u8> = hot;
        pub(crate) fn bits() -> &OwnerU64 = bits;
        pub(crate) fn base() -> &OwnerPtr<u8> = base;
        pub(crate) fn current() -> &OwnerPtr<NearPart> = current;
        pub(crate) fn avail() -> &OwnerPtr<NearPart> = avail;
        pub(crate) fn groups() -> &OwnerPtr<PageGroup> = groups;
        pub(crate) fn record() -> *const () = record;
        pub(crate) fn pages() -> &OwnerUsize = pages;
        pub(crate) fn quiet() -> &QuietFields = quiet;
        /// Returns the address of the store to which the shard belongs.
        pub(crate) fn store() -> *const () = quiet.store;
        pub(crate) fn inbox() -> &Inbox<Far> = remote.inbox;
        pub(crate) fn turn() -> &Turn = remote.turn;
        pub(crate) fn cursor() -> &OwnerPtr<PageGroup> = remote.cursor;
    }

    /// # Safety
    /// The shard is not freed while the result is used (S1).
    #[inline]
    pub(crate) unsafe fn new(shard: NonNull<Shard>) -> Self {
        Self(shard)
    }

    /// # Safety
    /// The pointer is null, or points at a shard that is not freed while the result is used (S1).
    #[inline]
    pub(crate) unsafe fn from_raw(shard: *mut Shard) -> Option<Self> {
        NonNull::new(shard).map(Self)
    }

    /// Returns the shard to which `group` was last bound.
    ///
    /// # Safety
    /// The group was bound to a shard: one of its slots was claimed.
    #[inline]
    pub(crate) unsafe fn of(group: PageGroupPtr) -> Self {
        // SAFETY: the group was bound, and its pointer to the shard is never set back to null.
        let shard = unsafe { NonNull::new_unchecked(group.shard().get().cast()) };
        // S1: shards live as long as the store, and the store as long as its groups.
        Self(shard)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Shard {
        self.0.as_ptr()
    }

    pub(crate) fn as_non_null(self) -> NonNull<Shard> {
        self.0
    }

    /// Claims the slot in `hot`, or else one of `bits`. Returns `None` if both are empty. Only the
    /// owner may call this.
    #[inline]
    pub(crate) fn claim(self, geometry: &ArenaGeometry) -> Option<NonNull<u8>> {
        let slot = match NonNull::new(self.hot().get()) {
            Some(slot) => {
                self.hot().set(ptr::null_mut());
                slot
            }
            None => self.claim_current(geometry)?,
        };
        // SAFETY: the slot was free and lies in a group of this shard, so no other code accesses
        // its bytes.
        unsafe { unpoison(slot, geometry.stride) };
        used(geometry, slot);
        Some(slot)
    }

    /// Claims a slot of the current page from `bits`, or returns `None` if `bits` is empty.
    #[inline]
    fn claim_current(self, geometry: &ArenaGeometry) -> Option<NonNull<u8>> {
        let bits = self.bits().get();
        if bits == 0 {
            return None;
        }
        self.bits().set(bits & (bits - 1));
        let offset = bits.trailing_zeros() as usize * geometry.stride;
        // SAFETY: each bit in `bits` stands for a slot in the page that begins at `base` (O2).
        let slot = unsafe { self.base().get().add(offset) };
        prefetch::for_write(slot.wrapping_add(ahead(geometry)));
        // SAFETY: an address in a group is not null.
        Some(unsafe { NonNull::new_unchecked(slot) })
    }

    /// Frees a slot of a group of this shard. After the write that frees the slot, this function
    /// does not touch the group (E2).
    ///
    /// # Safety
    /// This thread owns the shard, and `group` belongs to the shard. `slot` was claimed from
    /// `group`, and the caller does not use the slot again.
    #[inline]
    pub(crate) unsafe fn put(self, geometry: &ArenaGeometry, group: PageGroupPtr, slot: NonNull<u8>) {
        used(geometry, slot);
        if self.hot().get().is_null() {
            // `publish` makes all accesses to the slot visible to a look.
            self.hot().publish(slot.as_ptr());
            return;
        }
        let position = geometry.position(slot.addr().get());
        let near = group.near(geometry, position.page);
        let bits = near.bits();
        if bits.is_unlisted() {
            return self.put_first(group, near, 1 << position.slot);
        }
        // This write also publishes all accesses to the slot. After this write, another thread can
        // free the group and the shard.
        near.local().publish(bits.and(1 << position.slot).word());
    }

    /// Frees the slot with the bit `slot` in a page that was full. Links the page first, because
    /// another thread can free the group as soon as the slot is free.
    #[cold]
    #[inline(never)]
    fn put_first(self, group: PageGroupPtr, near: NearPtr, slot: u64) {
        if weakened!("arena_link_after_free") {
            near.local().publish(Bits::listed(slot).word());
        }
        group.touch();
        self.list(near);
        near.local().publish(Bits::listed(slot).word());
    }

    /// Adds a page that is on no list to the front of the list `avail`. A look at a parked shard
    /// reads neither the page's link nor `avail`, so these writes need not be published.
    pub(crate) fn list(self, near: NearPtr) {
        near.next().set(self.avail().get());
        self.avail().set(near.as_ptr());
    }

    /// Sets the bits of freed slots in their page's word, and links the page if it was full. Only
    /// the owner may call this.
    pub(crate) fn book(self, near: NearPtr, slots: u64) {
        let bits = near.bits();
        if bits.is_unlisted() {
            self.list(near);
        }
        near.local().set(bits.with(slots).word());
    }

    /// Moves the hot slot and the slots in `bits` back into their pages' words. `hot` and `bits`
    /// are empty afterwards.
    pub(crate) fn flush_front(self, geometry: &ArenaGeometry) {
        if let Some(slot) = NonNull::new(self.hot().get()) {
            self.hot().set(ptr::null_mut());
            // SAFETY: the group of a free slot of this shard is live, and the slot's pointer
            // derives from the group (G1).
            let group = unsafe { PageGroupPtr::around(slot, geometry.group) };
            let position = geometry.position(slot.addr().get());
            self.book(group.near(geometry, position.page), 1 << position.slot);
        }
        // SAFETY: the group of the current page belongs to this shard, so it is live (G1).
        if let Some(near) = unsafe { NearPtr::from_raw(self.current().get()) } {
            near.local().set(near.bits().with(self.bits().get()).word());
        }
        self.bits().set(0);
    }

    /// Returns the free slots of a page that are not in the page's word: the hot slot and the slots
    /// in `bits`, if they belong to this page. This function only reads, so any thread may call it.
    pub(crate) fn front_slots(self, geometry: &ArenaGeometry, group: PageGroupPtr, page: usize) -> u64 {
        let mut slots = 0;
        // `observe` makes all accesses to the slot before its free visible to this thread.
        let hot = self.hot().observe();
        if hot.addr() & !(geometry.group - 1) == group.as_ptr().addr() {
            let position = geometry.position(hot.addr());
            if position.page == page {
                slots |= 1 << position.slot;
            }
        }
        if self.current().get() == group.near(geometry, page).as_ptr() {
            slots |= self.bits().get();
        }
        slots
    }
}

/// Returns the distance from a slot to the address to prefetch, in bytes: four slots, but at least
/// 64 bytes and at most 512.
const fn ahead(geometry: &ArenaGeometry) -> usize {
    match geometry.stride {
        0..16 => 64,
        16..128 => 4 * geometry.stride,
        _ => 512,
    }
}

/// Tells loom that this thread hands out or frees the slot, and has exclusive access to the slot.
#[inline]
pub(crate) fn used(geometry: &ArenaGeometry, slot: NonNull<u8>) {
    if cfg!(ephemera_loom) {
        // SAFETY: the caller has just claimed the slot or is about to free it, so its group is
        // live. The slot's pointer derives from the group (G1).
        let group = unsafe { PageGroupPtr::around(slot, geometry.group) };
        let position = geometry.position(slot.addr().get());
        group.touch();
        group.use_slot(geometry, position);
    }
}
