//! What hangs on a thread's record: its heap and its inbox; and what all threads share.
//!
//! Takes its world by reference, so that models can make one of their own.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Global};
use ephemera_prim::epoch::Epoch;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::{Lease, Record, Registry};
use ephemera_prim::word::OwnerUsize;

use crate::account::{Limit, SharedAccount};
use crate::chunk::{Chunk, ChunkPtr, HEADER};
use crate::geometry::{self, Class, Geometry};
use crate::heap::{self, Env, Heap};
use crate::live::Live;
use crate::stats::Stats;

/// One owner's heap, and what other threads gave back to it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard<G> {
    pub(super) heap: Heap,
    epoch_seen: OwnerUsize,
    remote: Remote,
    geometry: PhantomData<fn() -> G>,
}

/// On lines of its own: other threads push here while the owner allocates.
#[derive(Debug)]
#[repr(C, align(64))]
struct Remote {
    inbox: Inbox<Chunk>,
}

impl<G: Geometry> Shard<G> {
    const GEOMETRY: () = geometry::check::<G>(HEADER);

    ephemera_prim::const_unless_loom! {
        /// A shard without chunks.
        pub(crate) fn new() -> Self {
            let () = Self::GEOMETRY;
            Self::with_heap(Heap::new())
        }
    }

    #[cfg(not(ephemera_loom))]
    ephemera_prim::const_unless_loom! {
        /// The shard of threads that own nothing (H6).
        pub(crate) fn nowhere() -> Self {
            Self::with_heap(Heap::nowhere())
        }
    }

    ephemera_prim::const_unless_loom! {
        fn with_heap(heap: Heap) -> Self {
            Self {
                heap,
                epoch_seen: OwnerUsize::new(0),
                remote: Remote { inbox: Inbox::new() },
                geometry: PhantomData,
            }
        }
    }

    /// The holder of the record's lease goes on with this shard.
    pub(crate) fn enter(&self) {
        self.heap.enter();
    }
}

/// What all threads share.
#[derive(Debug)]
pub(crate) struct World<G: 'static> {
    pub(crate) registry: Registry<Shard<G>>,
    pub(crate) account: SharedAccount,
    epoch: Epoch,
}

impl<G: Geometry> World<G> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<Shard<G>>) -> Self {
            Self { registry, account: SharedAccount::new(), epoch: Epoch::new() }
        }
    }
}

/// What all heaps hold and what of it is live.
///
/// A thread that exits while this walks along its chunks may leave one of them behind, although it is empty. So the walker
/// looks after records without a holder that have empty chunks.
pub(crate) fn stats<R: Realm>(realm: R) -> Stats {
    let world = realm.world();
    let mut stats = Stats::of_account(&world.account);
    for record in world.registry.records() {
        let before = stats.empty_chunks();
        stats.add_heap::<R::Geometry>(&record.shard().heap);
        if stats.empty_chunks() != before && record.is_free() {
            look_after(realm, record);
        }
    }
    stats.extra_records = world.registry.later_records();
    stats
}

/// Which world it is: the one of the process, or that of a model.
pub(crate) trait Realm: Copy {
    type Geometry: Geometry;

    fn world(&self) -> &World<Self::Geometry>;

    /// A record that this thread holds has another front.
    fn front_changed() {}
}

/// Trims every record that no thread has leased, and asks the threads that have one to trim theirs in their next slow path.
pub(crate) fn clean<R: Realm>(realm: R) {
    let world = realm.world();
    if !cfg!(ephemera_weaken = "clean_without_epoch") {
        world.epoch.raise();
    }
    world.registry.records().for_each(|record| look_after(realm, record));
}

/// Drains the inbox of a record, if no thread has leased it, and frees its empty chunks.
fn look_after<R: Realm>(realm: R, record: &Record<Shard<R::Geometry>>) {
    record.look_after(has_mail, |record| drain(realm, record));
}

/// Ends a lease, and drains the remote frees that were pushed while it lasted.
pub(super) fn release<R: Realm>(realm: R, lease: Lease<'_, Shard<R::Geometry>>) {
    lease.release(has_mail, |record| drain(realm, record));
}

fn has_mail<G>(shard: &Shard<G>) -> bool {
    !shard.remote.inbox.is_empty()
}

/// How often a record was leased for a moment to be drained.
#[cfg(all(test, not(ephemera_loom)))]
pub(super) static DRAINS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Drains the inbox of a record that this thread has leased for a moment: chunks with live blocks count down from here on,
/// and empty ones are freed.
fn drain<R: Realm>(realm: R, record: &Record<Shard<R::Geometry>>) {
    #[cfg(all(test, not(ephemera_loom)))]
    DRAINS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    record.shard().enter();
    let owner = Owner { record, realm };
    owner.book(|chunk| heap::abandon(owner, chunk));
    heap::give_up_empties(owner);
}

/// A thread as the owner of the heap on its record; NOWHERE and GONE own a heap without chunks.
#[derive(Debug)]
pub(crate) struct Owner<'w, R: Realm> {
    pub(crate) record: &'w Record<Shard<R::Geometry>>,
    pub(crate) realm: R,
}

impl<R: Realm> Owner<'_, R> {
    /// Books all remote frees in the inbox, and calls `left` for each chunk that still has live blocks.
    fn book(self, left: impl Fn(ChunkPtr)) {
        // SAFETY: this thread holds the record (the promise of `Env`), or nothing ever comes to its inbox, since no chunk names it (H6).
        let taken = unsafe { self.record.shard().remote.inbox.take() };
        for (chunk, word) in taken {
            // SAFETY: C1: a chunk whose last blocks are booked only now was not freed (F3).
            let chunk = unsafe { ChunkPtr::new(chunk) };
            if heap::book_foreign(self, chunk, word) {
                left(chunk);
            }
        }
    }
}

impl<R: Realm> Clone for Owner<'_, R> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Realm> Copy for Owner<'_, R> {}

// SAFETY: the record's holder owns the heap on it (L1), nobody writes those of NOWHERE and GONE (H6), and chunks carry the record
// as their identity. All chunks come from the global heap.
unsafe impl<R: Realm> Env for Owner<'_, R> {
    type Geometry = R::Geometry;
    type Backing = Global;
    type Account = SharedAccount;

    #[inline]
    fn heap(&self) -> &Heap {
        &self.record.shard().heap
    }

    fn front_changed(&self) {
        R::front_changed();
    }

    #[inline]
    fn refill(self, layout: Layout, class: Class, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        heap::refill(self, layout, class, limit)
    }

    fn backing(&self) -> &Global {
        &Global
    }

    fn account(&self) -> &SharedAccount {
        &self.realm.world().account
    }

    #[inline]
    fn identity(&self) -> *const () {
        ptr::from_ref(self.record).cast()
    }

    #[inline]
    fn owns(&self, chunk: ChunkPtr) -> bool {
        chunk.owner() == self.identity()
    }

    fn retain(&self) -> usize {
        R::Geometry::RETAIN
    }

    fn settle(&self) {
        self.book(|_| ());
    }

    fn trim_asked(&self) -> bool {
        self.realm.world().epoch.turned(&self.record.shard().epoch_seen)
    }

    fn last_resort(&self) {
        clean(self.realm);
    }

    #[inline(never)]
    unsafe fn give_back(self, chunk: ChunkPtr, given: Live) {
        let record = chunk.record().cast::<Record<Shard<R::Geometry>>>();
        // SAFETY: a chunk's owner is the record that it was made under, and records are never freed (L3).
        let record = unsafe { &*record };
        let inbox = &record.shard().remote.inbox;
        // SAFETY: the caller had what `given` counts and gives it up, in a chunk of that record.
        let pushed = unsafe { inbox.give_back_add(chunk.as_non_null(), given.word()) };
        if pushed && record.is_free() {
            // No thread would look into that inbox until one takes the record.
            look_after(self.realm, record);
        }
    }
}
