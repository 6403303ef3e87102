//! What hangs on a thread's record: its heap and its inbox; and what all threads share.
//!
//! Takes its world by reference, so that models can make one of their own.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Global};
use ephemera_prim::epoch::Epoch;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::{FIRST, Record, Registry};
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
    heap: Heap,
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
        /// The shard of threads that own nothing.
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
pub(crate) struct World<G: 'static, const N: usize = FIRST> {
    pub(crate) registry: Registry<Shard<G>, N>,
    pub(crate) account: SharedAccount,
    epoch: Epoch,
    refill: Refill<G, N>,
}

/// Finds a block when the front has no room for it: in the slow path a thread may have to get its record first.
pub(crate) type Refill<G, const N: usize> =
    fn(&Owner<'_, G, N>, Layout, Class) -> Result<NonNull<u8>, AllocError>;

impl<G: Geometry, const N: usize> World<G, N> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<Shard<G>, N>, refill: Refill<G, N>) -> Self {
            Self { registry, account: SharedAccount::new(), epoch: Epoch::new(), refill }
        }
    }

    /// Gives back what records that no thread holds have in vain, and asks the threads that hold one to do the same
    /// when they next come to their slow path.
    pub(crate) fn clean(&self) {
        self.epoch.raise();
        self.clean_free();
    }

    fn clean_free(&self) {
        for lease in self.registry.records().filter_map(Record::try_lease) {
            lease.record().shard().enter();
            heap::trim(&Owner { record: lease.record(), world: self });
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

/// A thread as the owner of the heap on its record; NOWHERE and GONE own a heap without chunks.
#[derive(Debug)]
pub(crate) struct Owner<'w, G: 'static, const N: usize = FIRST> {
    pub(crate) record: &'w Record<Shard<G>>,
    pub(crate) world: &'w World<G, N>,
}

impl<G: Geometry, const N: usize> Owner<'_, G, N> {
    /// Books what other threads gave back to this record.
    fn drain(&self) {
        // SAFETY: this thread holds the record (the promise of `Env`).
        let taken = unsafe { self.record.shard().remote.inbox.take() };
        for (chunk, given) in taken {
            // SAFETY: C1: a chunk with an unbooked foreign free is not freed (F3).
            let chunk = unsafe { ChunkPtr::new(chunk) };
            heap::book_foreign(self, chunk, Live::from_word(given));
        }
    }
}

// SAFETY: the record's holder owns the heap on it (L1), and chunks carry the record as their identity. All chunks
// come from the global heap.
unsafe impl<G: Geometry, const N: usize> Env for Owner<'_, G, N> {
    type Geometry = G;
    type Backing = Global;
    type Account = SharedAccount;

    #[inline]
    fn heap(&self) -> &Heap {
        &self.record.shard().heap
    }

    #[inline]
    fn refill(&self, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
        (self.world.refill)(self, layout, class)
    }

    fn backing(&self) -> &Global {
        &Global
    }

    fn account(&self) -> &SharedAccount {
        &self.world.account
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
        G::RETAIN
    }

    fn settle(&self) {
        self.drain();
    }

    fn trim_asked(&self) -> bool {
        self.world.epoch.turned(&self.record.shard().epoch_seen)
    }

    fn last_resort(&self) {
        self.world.clean_free();
    }

    #[inline(never)]
    unsafe fn give_back(&self, chunk: ChunkPtr, given: Live) {
        let owner = chunk.owner().cast::<Record<Shard<G>>>();
        // SAFETY: a chunk's owner is the record that it was made under, and records are never freed (L3).
        let owner = unsafe { &*owner };
        let inbox = &owner.shard().remote.inbox;
        // SAFETY: what `given` counts is given up here by the one who had it, in a chunk of that record.
        let pushed = unsafe { inbox.give_back_add(chunk.as_non_null(), given.word()) };
        if pushed && owner.is_free() {
            // Nobody would look into that inbox until some thread takes the record.
            if let Some(lease) = owner.try_lease() {
                Owner { record: lease.record(), world: self.world }.drain();
            }
        }
    }
}
