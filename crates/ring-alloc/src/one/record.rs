//! Defines the data of a thread's record (a heap and an inbox), and the *world*: the state that all
//! threads share. Also implements the remote frees.
//!
//! Functions reach the world through a [`Realm`], so that each model can create its own world.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use crossbeam_utils::CachePadded;
use ephemera_prim::account::{Account, Limit, SharedAccount};
use ephemera_prim::epoch::Epoch;
#[cfg(not(ephemera_loom))]
use ephemera_prim::idle::{IDLE_MS, IdleQueue, LOOK_EVERY};
use ephemera_prim::idle::{IdleBy, IdleHeaps, Mail, Purged, PushedBytes};
use ephemera_prim::pages::Pages;
use ephemera_prim::record::{Lease, Record, Registry};
use ephemera_prim::word::OwnerUsize;

use super::idle_chunks::purge_chunks;
use crate::chunk::{self, Chunk, ChunkPtr};
use crate::geometry::{self, ChunkClass, Geometry};
use crate::heap::{self, ChunkHeap, Evictions, RingEnv};
use crate::live::LiveCount;
use crate::stats::Stats;

/// A record with the data of this allocator.
pub(super) type HeapRecord<G> = Record<RingRecord<G>>;

/// A record of a realm.
pub(super) type RealmRecord<R> = HeapRecord<<R as Realm>::Geometry>;

/// The heap of one owner, and its mail: the remote frees that the owner has not booked.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingRecord<G> {
    pub(super) heap: ChunkHeap,
    pub(super) evictions: Evictions,
    epoch_seen: OwnerUsize,
    /// The number of slow paths that the holders of this record have taken.
    pub(super) visits: OwnerUsize,
    /// The unbooked remote frees. The mail has its own cache line, because other threads push
    /// chunks to it while the owner allocates.
    pub(super) mail: CachePadded<Mail<Chunk, HeapRecord<G>>>,
    /// The number of bytes of the chunks that other threads pushed since the owner's last slow
    /// path. It has its own cache line, because those threads write it.
    pushed: CachePadded<PushedBytes>,
    geometry: PhantomData<fn() -> G>,
}

impl<G: Geometry> RingRecord<G> {
    ephemera_prim::const_unless_loom! {
        /// Creates the data of a record without chunks.
        pub(crate) fn new() -> Self {
            const { geometry::check::<G>(chunk::headers::<G>()) };
            Self::with_heap(ChunkHeap::new())
        }
    }

    #[cfg(not(ephemera_loom))]
    ephemera_prim::const_unless_loom! {
        /// Creates the record data of threads that do not own chunks (H6).
        pub(crate) fn nowhere() -> Self {
            Self::with_heap(ChunkHeap::nowhere())
        }
    }

    ephemera_prim::const_unless_loom! {
        fn with_heap(heap: ChunkHeap) -> Self {
            Self {
                heap,
                evictions: Evictions::new(),
                epoch_seen: OwnerUsize::new(0),
                visits: OwnerUsize::new(0),
                mail: CachePadded::new(Mail::new()),
                pushed: CachePadded::new(PushedBytes::new()),
                geometry: PhantomData,
            }
        }
    }

    /// Prepares the data for a new holder of the record.
    pub(crate) fn enter(&self) {
        self.heap.enter();
        self.pushed.forget();
    }
}

/// The state that all threads share.
#[derive(Debug)]
pub(crate) struct RingWorld<G: 'static> {
    pub(crate) registry: Registry<RingRecord<G>>,
    pub(crate) account: SharedAccount,
    epoch: Epoch,
    /// The records whose owners may be idle.
    #[cfg(not(ephemera_loom))]
    pub(super) idle: IdleQueue<HeapRecord<G>>,
}

/// The number of milliseconds without a slow path after which an owner is idle. In unit tests and
/// under Miri, an owner is idle at once.
#[cfg(not(ephemera_loom))]
const PAUSE_MS: usize = if cfg!(any(test, miri)) { 0 } else { IDLE_MS };

impl<G: Geometry> RingWorld<G> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<RingRecord<G>>) -> Self {
            Self {
                registry,
                account: SharedAccount::new(),
                epoch: Epoch::new(),
                #[cfg(not(ephemera_loom))]
                idle: IdleQueue::new(PAUSE_MS),
            }
        }
    }
}

/// Returns the statistics of all heaps.
///
/// A thread that exits while this function walks the thread's chunks may leave an empty chunk
/// behind, so this function also trims records that have empty chunks and no holder.
pub(crate) fn stats<R: Realm>(realm: R) -> Stats {
    let world = realm.world();
    let mut stats = Stats::of_account(world.account.now());
    for record in world.registry.records() {
        let (heap, before) = (&record.data().heap, stats.empty_chunks());
        stats.add_heap::<R::Geometry>(heap);
        // `has_empties` also finds chunks that ran empty after the walk had passed them.
        if stats.empty_chunks() != before || heap.has_empties() {
            look_after(realm, record);
        }
    }
    stats.extra_records = world.registry.later_records();
    stats
}

/// A way to reach a [`RingWorld`]: the world of the process, or of a model.
pub(crate) trait Realm: Copy {
    type Geometry: Geometry;

    fn world(&self) -> &RingWorld<Self::Geometry>;

    /// Tells the thread-local of this realm, if there is one, that the front of a record held by
    /// this thread has changed.
    fn front_changed() {}
}

/// Trims every record that no thread has leased, and asks the holders of all other records to trim
/// in their next slow path.
pub(crate) fn clean<R: Realm>(realm: R) {
    let world = realm.world();
    if !weakened!("clean_without_epoch") {
        world.epoch.raise();
    }
    world.registry.records().for_each(|record| look_after(realm, record));
}

/// If no thread has leased the record, drains its inbox and frees its empty chunks. A thread that
/// pushed a chunk to the inbox, or put borrowed chunks back, must then call this. Otherwise, no
/// thread would drain the inbox before the record is leased again.
pub(super) fn look_after<R: Realm>(realm: R, record: &RealmRecord<R>) {
    if record.is_free() {
        record.look_after(needs_drain, |record| drain(realm, record));
    }
}

/// Releases a lease. Then drains the record if other threads pushed chunks during the lease, or if
/// an eviction prevented a free.
pub(super) fn release<R: Realm>(realm: R, lease: Lease<'_, RingRecord<R::Geometry>>) {
    lease.release(needs_drain, |record| drain(realm, record));
}

/// Returns whether a thread that released the record must drain it again.
fn needs_drain<G>(data: &RingRecord<G>) -> bool {
    data.mail.is_some() || data.evictions.has_postponed()
}

/// The number of times that a thread leased a record only to drain it.
#[cfg(all(test, not(ephemera_loom)))]
pub(super) static DRAINS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Drains the inbox of a record that this thread has leased only to drain it. Abandons the drained
/// chunks that have live blocks, and frees the empty chunks.
fn drain<R: Realm>(realm: R, record: &RealmRecord<R>) {
    #[cfg(all(test, not(ephemera_loom)))]
    DRAINS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    record.data().enter();
    let owner = RecordOwner { record, realm };
    {
        // Another thread may otherwise evict a booked chunk before this thread has abandoned it.
        let _pass = (!weakened!("drain_keeps_no_chunks")).then(|| heap::list::keep_chunks(&owner));
        owner.book(|chunk| heap::slow::abandon(owner, chunk));
    }
    heap::slow::free_empties(owner);
}

/// A thread as the owner of its record's heap. NOWHERE and GONE have a heap without chunks.
#[derive(Clone, Copy)]
pub(crate) struct RecordOwner<'w, R: Realm> {
    pub(crate) record: &'w RealmRecord<R>,
    pub(crate) realm: R,
}

impl<R: Realm> RecordOwner<'_, R> {
    /// Books all remote frees in the record's mail. Calls `left` for each chunk in the mail that is
    /// not empty afterwards.
    fn book(self, left: impl Fn(ChunkPtr)) {
        // SAFETY: this thread holds the record, as `RingEnv` demands, or no chunk names the record
        // and its inbox stays empty (H6).
        let taken = unsafe { self.record.data().mail.take() };
        for (chunk, word) in taken {
            // SAFETY: this thread has dequeued the chunk, so the chunk is not lent, and is not
            // freed before its remote frees are booked (F3). It therefore satisfies C1.
            let chunk = unsafe { ChunkPtr::new(chunk) };
            if heap::slow::book_foreign(self, chunk, word) {
                left(chunk);
            }
        }
    }
}

// SAFETY: the record's holder has entered the heap and owns it (L1). The heaps of NOWHERE and GONE
// are never written (H6). The owner word of each chunk names the record. `front` reads the heap,
// and `front_changed` renews the copy in the thread-local (H7). All chunks come from `Pages`.
unsafe impl<R: Realm> RingEnv for RecordOwner<'_, R> {
    type Geometry = R::Geometry;
    type Backing = Pages;
    type Account = SharedAccount;
    const HANDS_OVER: bool = true;

    #[inline]
    fn heap(&self) -> &ChunkHeap {
        &self.record.data().heap
    }

    fn front_changed(&self) {
        R::front_changed();
    }

    /// Counts this slow path, and trims first if a thread has asked all owners to. In some of these
    /// slow paths, also looks for idle owners.
    fn refill(self, layout: Layout, class: ChunkClass, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        let (world, data) = (self.realm.world(), self.record.data());
        #[cfg(not(ephemera_loom))]
        if data.visits.add(1) % LOOK_EVERY == 0 {
            world.idle.look(&IdleRings(self.realm));
        }
        if world.epoch.turned(&data.epoch_seen) {
            heap::trim(self);
        }
        heap::refill(self, layout, class, limit)
    }

    fn backing(&self) -> &Pages {
        &Pages
    }

    fn account(&self) -> &SharedAccount {
        &self.realm.world().account
    }

    #[inline]
    fn identity(&self) -> *const () {
        ptr::from_ref(self.record).cast()
    }

    #[inline]
    fn evictions(&self) -> Option<&Evictions> {
        Some(&self.record.data().evictions)
    }

    fn may_rest(&self) -> bool {
        !self.account().is_limited() || weakened!("limited_chunks_rest")
    }

    fn book_mail(&self) {
        self.book(|_| ());
    }

    fn last_resort(&self) {
        clean(self.realm);
    }

    #[inline(never)]
    unsafe fn free_remotely(self, chunk: ChunkPtr, given: LiveCount) {
        let record = chunk.record().cast::<RealmRecord<R>>();
        // SAFETY: a chunk names the record that it was created for, and records are never freed
        // (L3).
        let record = unsafe { &*record };
        let inbox = &record.data().mail.inbox;
        #[cfg(not(ephemera_loom))]
        let bytes = chunk.class().chunk_size::<R::Geometry>();
        // SAFETY: the chunk belongs to that record. It is not freed yet, because it counts the
        // block or bytes (at least one) of `given` as live until this call. The counts of all live
        // blocks of a chunk, which has at most 1 MiB, add up to less than 2^62.
        let pushed = unsafe { inbox.give_back_add(chunk.as_non_null(), given.0) };
        if pushed {
            look_after(self.realm, record);
            #[cfg(not(ephemera_loom))]
            // SAFETY: records are never freed (L3), and `mail` always returns the same mail for a
            // record.
            unsafe {
                self.realm.world().idle.note_push(&IdleRings(self.realm), record, bytes);
            }
        }
    }
}

/// The records of a realm, for a thread that looks for idle owners.
#[derive(Debug)]
pub(super) struct IdleRings<R>(pub(super) R);

impl<R: Realm> IdleHeaps for IdleRings<R> {
    type Heap = RealmRecord<R>;
    type Unit = Chunk;

    fn mail<'h>(&self, record: &'h Self::Heap) -> &'h Mail<Chunk, Self::Heap> {
        &record.data().mail
    }

    fn pushed<'h>(&self, record: &'h Self::Heap) -> &'h PushedBytes {
        &record.data().pushed
    }

    fn visits(&self, record: &Self::Heap) -> usize {
        record.data().visits.get()
    }

    fn is_held(&self, record: &Self::Heap) -> bool {
        !record.is_free()
    }

    fn purge_units(&self, record: &Self::Heap, by: IdleBy) -> Purged {
        let (data, account) = (record.data(), &self.0.world().account);
        let purged = purge_chunks::<R::Geometry, _>(&data.heap, &data.evictions, &data.mail, account, by);
        self.drain_free_record(record);
        purged
    }

    fn drain_free_record(&self, record: &Self::Heap) {
        look_after(self.0, record);
    }
}
