//! What hangs on a thread's record: its heap and its inbox; and what all threads share.
//!
//! Takes its world by reference, so that models can make one of their own.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Global};
use ephemera_prim::epoch::Epoch;
use ephemera_prim::foreign::Inbox;
#[cfg(not(ephemera_loom))]
use ephemera_prim::record::Lease;
use ephemera_prim::record::{Record, Registry};
use ephemera_prim::word::OwnerUsize;

use crate::account::SharedAccount;
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

    /// What all heaps hold and what of it is alive.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::of_account(&self.account);
        for record in self.registry.records() {
            stats.add_heap::<G>(&record.shard().heap);
        }
        stats.extra_records = self.registry.later_records();
        stats
    }
}

/// Which world it is: the one of the process, or that of a model.
pub(crate) trait Realm: Copy {
    type Geometry: Geometry;

    fn world(&self) -> &World<Self::Geometry>;

    /// A record that this thread holds has another front.
    fn front_changed() {}
}

/// Gives back what records that no thread holds have in vain, and asks the threads that hold one to do the same
/// when they next come to their slow path.
pub(crate) fn clean<R: Realm>(realm: R) {
    realm.world().epoch.raise();
    clean_free(realm);
}

fn clean_free<R: Realm>(realm: R) {
    realm.world().registry.records().for_each(|record| look_after(realm, record));
}

/// Books what came home to a record that no thread holds, and gives back what is empty, until nothing comes meanwhile.
#[cold]
#[inline(never)]
fn look_after<R: Realm>(realm: R, record: &Record<Shard<R::Geometry>>) {
    while let Some(lease) = record.try_lease() {
        record.shard().enter();
        heap::trim(Owner { record, realm });
        drop(lease);
        if record.shard().remote.inbox.is_empty() {
            return;
        }
    }
}

/// Gives up a record that was leased for a moment. Who pushed to it meanwhile saw that it was held, and left the look to this thread. (A
/// push that comes just behind the look is among what may stay, in the design of `ephemera-prim`.)
#[cfg(not(ephemera_loom))]
pub(super) fn give_up<R: Realm>(realm: R, lease: Lease<'_, Shard<R::Geometry>>) {
    let record = lease.record();
    drop(lease);
    if !record.shard().remote.inbox.is_empty() {
        look_after(realm, record);
    }
}

/// A thread as the owner of the heap on its record; NOWHERE and GONE own a heap without chunks.
#[derive(Debug)]
pub(crate) struct Owner<'w, R: Realm> {
    pub(crate) record: &'w Record<Shard<R::Geometry>>,
    pub(crate) realm: R,
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
    fn refill(self, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
        heap::refill(self, layout, class)
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

    /// Books what other threads gave back to this record.
    fn settle(&self) {
        // SAFETY: this thread holds the record (the promise of `Env`), or nothing ever comes to its inbox, since no chunk names it (H6).
        let taken = unsafe { self.record.shard().remote.inbox.take() };
        for (chunk, given) in taken {
            // SAFETY: C1: a chunk whose last blocks are booked only now was not freed (F3).
            let chunk = unsafe { ChunkPtr::new(chunk) };
            heap::book_foreign(*self, chunk, Live::from_word(given));
        }
    }

    fn trim_asked(&self) -> bool {
        self.realm.world().epoch.turned(&self.record.shard().epoch_seen)
    }

    fn last_resort(&self) {
        clean_free(self.realm);
    }

    #[inline(never)]
    unsafe fn give_back(self, chunk: ChunkPtr, given: Live) {
        let owner = chunk.owner().cast::<Record<Shard<R::Geometry>>>();
        // SAFETY: a chunk's owner is the record that it was made under, and records are never freed (L3).
        let owner = unsafe { &*owner };
        let inbox = &owner.shard().remote.inbox;
        // SAFETY: what `given` counts is given up here by the one who had it, in a chunk of that record.
        let pushed = unsafe { inbox.give_back_add(chunk.as_non_null(), given.word()) };
        if pushed && owner.is_free() {
            // Nobody would look into that inbox until some thread takes the record, nor does anybody need its empty chunks.
            look_after(self.realm, owner);
        }
    }
}
