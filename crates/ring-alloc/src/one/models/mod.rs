//! Loom models of `OneRingAlloc`'s protocol, over the real heap, chunks and records. Each model has
//! its own world.
//!
//! At the end of each model, all blocks have been freed and all threads have exited, so the account
//! must be zero. A chunk that is leaked or kept leaves bytes on the account. A chunk that is freed
//! twice, or touched after its free, fails the check of its witness. `xtask/controls.toml` lists
//! the weakenings.

mod chunks;
mod holes;

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::account::Account;
use ephemera_prim::idle::{IdleBy, IdleHeaps};
use ephemera_prim::record::{Lease, Record, Registry};
use loom::sync::Arc;
use loom::thread;

use super::record::{
    HeapRecord, IdleRings, Realm, RecordOwner, RingRecord, RingWorld, clean, release, stats,
};
use crate::geometry::Geometry;
use crate::heap;

/// Returns the layout of all blocks of a model: the largest small layout.
fn block<G: Geometry>() -> Layout {
    Layout::from_size_align(G::SMALL_MAX, 4).unwrap()
}

/// A model's world, which its threads share.
#[derive(Debug)]
struct Model<G: Geometry>(Arc<RingWorld<G>>);

impl<G: Geometry> Clone for Model<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The realm of a model, which uses the model's world in place of the static one.
struct ModelRealm<'w, G: Geometry>(&'w RingWorld<G>);

impl<G: Geometry> Clone for ModelRealm<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Geometry> Copy for ModelRealm<'_, G> {}

impl<G: Geometry> Realm for ModelRealm<'_, G> {
    type Geometry = G;

    fn world(&self) -> &RingWorld<G> {
        self.0
    }
}

/// A block that another thread may free.
struct Sent(NonNull<u8>);

// SAFETY: any thread may free a block, and only the thread that has the `Sent` uses the block.
unsafe impl Send for Sent {}

/// A thread that holds a record. In `thread.rs`, a thread-local names the record instead.
struct Thread<'w, G: Geometry> {
    lease: Lease<'w, RingRecord<G>>,
    world: &'w RingWorld<G>,
}

/// The record of one thread, for another thread that purges the record's chunks.
struct SentRecord<G: Geometry>(NonNull<HeapRecord<G>>);

// SAFETY: threads share records, and a model keeps its records until all of its threads are joined.
unsafe impl<G: Geometry> Send for SentRecord<G> {}

impl<'w, G: Geometry> Thread<'w, G> {
    fn start(model: &'w Model<G>) -> Self {
        let lease = model.0.registry.lease_any().unwrap();
        lease.record().data().enter();
        Self { lease, world: &model.0 }
    }

    fn owner(&self) -> RecordOwner<'w, ModelRealm<'w, G>> {
        RecordOwner { record: self.lease.record(), realm: ModelRealm(self.world) }
    }

    fn allocate(&self) -> Sent {
        let new = heap::allocate(self.owner(), block::<G>()).unwrap();
        // SAFETY: the block is new and has this many bytes.
        unsafe { new.write_bytes(1, block::<G>().size()) };
        Sent(new)
    }

    fn free(&self, block: Sent) {
        free_as(self.owner(), block);
    }

    fn trim(&self) {
        heap::trim(self.owner());
    }

    /// Simulates the exit of the thread: frees the empty chunks, then releases the lease.
    fn exit(self) {
        self.trim();
        release(ModelRealm(self.world), self.lease);
    }

    fn sent_record(&self) -> SentRecord<G> {
        SentRecord(NonNull::from(self.lease.record()))
    }

    /// Starts a thread that frees a block of this owner, and then evicts or purges the owner's
    /// chunks.
    fn free_and_purge(&self, model: &Model<G>, block: Sent) -> thread::JoinHandle<()> {
        model.free_and_purge([block], self.sent_record())
    }
}

fn free_as<G: Geometry>(owner: RecordOwner<'_, ModelRealm<'_, G>>, sent: Sent) {
    // SAFETY: the owner of a `Sent` owns its block, which is live and has this layout.
    unsafe { heap::deallocate(owner, sent.0, block::<G>()) };
}

impl<G: Geometry> Model<G> {
    fn new() -> Self {
        let records = core::array::from_fn(|_| Record::new(RingRecord::new()));
        Self(Arc::new(RingWorld::new(Registry::new(records, RingRecord::new))))
    }

    /// Frees a block as a thread without a record, in the state NOWHERE or GONE.
    fn free_elsewhere(&self, block: Sent) {
        let nowhere = Record::new(RingRecord::new());
        nowhere.data().enter();
        free_as(RecordOwner { record: &nowhere, realm: ModelRealm(&self.0) }, block);
    }

    /// Starts a thread that frees blocks, and then evicts or purges the chunks of a record.
    fn free_and_purge<const N: usize>(
        &self,
        blocks: [Sent; N],
        record: SentRecord<G>,
    ) -> thread::JoinHandle<()> {
        let there = self.clone();
        thread::spawn(move || {
            blocks.into_iter().for_each(|block| there.free_elsewhere(block));
            let record = record;
            // SAFETY: a model keeps its records until all of its threads are joined.
            IdleRings(ModelRealm(&there.0)).purge_units(unsafe { record.0.as_ref() }, IdleBy::Time);
        })
    }

    /// Checks that no memory is held. Does not trim first, so that memory which only a later trim
    /// would free counts as held.
    fn nothing_is_held(&self) {
        assert_eq!(self.0.account.now().held, 0, "a chunk was lost, or stays");
        assert_eq!(stats(ModelRealm(&self.0)).blocks_live(), 0);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    // Some models fill two chunks before their threads start.
    builder.max_branches = 5_000;
    builder.check(model);
}
