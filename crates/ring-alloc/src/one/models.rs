//! Loom models of `OneRingAlloc`'s protocol, over the real heap, chunks and records. Each model has
//! its own world.
//!
//! At the end of each model, all blocks have been freed and all threads have exited, so the account
//! must be zero. A chunk that is leaked or kept leaves bytes on the account. A chunk that is freed
//! twice, or touched after its free, fails the check of its witness. `xtask/controls.toml` lists
//! the weakenings.

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
use crate::chunk::HEADER;
use crate::geometry::{Geometry, SLACK};
use crate::heap;

/// A geometry whose chunks hold two blocks of the layout [`BLOCK`].
#[derive(Debug)]
struct Tiny;

impl Geometry for Tiny {
    const SMALL_MAX: usize = 700;
    const SMALL_ALIGN: usize = 8;
    const SMALL_CHUNK: usize = 2 << 10;
    const MEDIUM_MAX: usize = 700;
    const MEDIUM_ALIGN: usize = 8;
    const MEDIUM_CHUNK: usize = 2 << 10;
    const RETAIN: usize = 0;
}

const BLOCK: Layout = Layout::new::<[u32; 175]>();

const _: () = assert!((Tiny::SMALL_CHUNK - SLACK - HEADER) / BLOCK.size() == 2, "a chunk has two blocks");

#[derive(Debug, Clone)]
struct Model(Arc<RingWorld<Tiny>>);

/// The realm of a model, which uses the model's world in place of the static one.
#[derive(Clone, Copy)]
struct ModelRealm<'w>(&'w RingWorld<Tiny>);

impl Realm for ModelRealm<'_> {
    type Geometry = Tiny;

    fn world(&self) -> &RingWorld<Tiny> {
        self.0
    }
}

/// A block that another thread may free.
struct Sent(NonNull<u8>);

// SAFETY: any thread may free a block, and only the thread that has the `Sent` uses the block.
unsafe impl Send for Sent {}

/// A thread that holds a record. In `thread.rs`, a thread-local names the record instead.
struct Thread<'w> {
    lease: Lease<'w, RingRecord<Tiny>>,
    world: &'w RingWorld<Tiny>,
}

impl<'w> Thread<'w> {
    fn start(model: &'w Model) -> Self {
        let lease = model.0.registry.lease_any().unwrap();
        lease.record().data().enter();
        Self { lease, world: &model.0 }
    }

    fn owner(&self) -> RecordOwner<'w, ModelRealm<'w>> {
        RecordOwner { record: self.lease.record(), realm: ModelRealm(self.world) }
    }

    fn allocate(&self) -> Sent {
        let block = heap::allocate(self.owner(), BLOCK).unwrap();
        // SAFETY: the block is new and has `BLOCK.size()` bytes.
        unsafe { block.write_bytes(1, BLOCK.size()) };
        Sent(block)
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
}

fn free_as(owner: RecordOwner<'_, ModelRealm<'_>>, block: Sent) {
    // SAFETY: the owner of a `Sent` owns its block, which is live and has this layout.
    unsafe { heap::deallocate(owner, block.0, BLOCK) };
}

impl Model {
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
    builder.check(model);
}

#[test]
fn loom_remote_free_beside_the_owners_free() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (mine, yours) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(yours));
        thread.free(mine);
        thread.trim();
        other.join().unwrap();
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_two_remote_frees_in_one_chunk_free_it() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let others = [thread.allocate(), thread.allocate()].map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        thread.trim();
        for other in others {
            other.join().unwrap();
        }
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_chunk_is_reused_only_after_its_remote_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            // SAFETY: the block belongs to this thread until it is freed.
            unsafe { first.0.write_bytes(2, BLOCK.size()) };
            there.free_elsewhere(first);
        });
        thread.free(second);
        // The other thread's progress decides whether this block comes from the same chunk or a new
        // chunk.
        let third = thread.allocate();
        thread.free(third);
        other.join().unwrap();
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_owner_exits_beside_remote_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let others = [first, second].map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        thread.exit();
        for other in others {
            other.join().unwrap();
        }
        model.nothing_is_held();
    });
}

#[test]
fn loom_owner_exits_beside_a_remote_free_and_a_trim() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let block = thread.allocate();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(block));
        let there = model.clone();
        let cleaner = thread::spawn(move || clean(ModelRealm(&there.0)));
        thread.exit();
        other.join().unwrap();
        cleaner.join().unwrap();
        model.nothing_is_held();
    });
}

#[test]
fn loom_next_holder_reuses_the_heap_of_an_ended_thread() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let kept = thread.allocate();
        let there = model.clone();
        let next = thread::spawn(move || {
            let thread = Thread::start(&there);
            let block = thread.allocate();
            thread.free(kept);
            thread.free(block);
            thread.exit();
        });
        thread.exit();
        next.join().unwrap();
        model.nothing_is_held();
    });
}

#[test]
fn loom_statistics_walk_beside_the_owner() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let there = model.clone();
        let reader = thread::spawn(move || {
            let stats = stats(ModelRealm(&there.0));
            assert!(stats.blocks_live() <= 3);
        });
        // The owner fills one chunk, takes a second chunk, and frees the first.
        let (first, second) = (thread.allocate(), thread.allocate());
        let third = thread.allocate();
        thread.free(first);
        thread.free(second);
        reader.join().unwrap();
        thread.free(third);
        thread.exit();
        model.nothing_is_held();
    });
}

/// Two threads free the two blocks of an exited thread. A chunk with a live block is abandoned, and
/// the last free frees the chunk.
#[test]
fn loom_abandoned_chunk_is_freed_with_its_last_block() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let blocks = [thread.allocate(), thread.allocate()];
        thread.exit();
        let others = blocks.map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        for other in others {
            other.join().unwrap();
        }
        model.nothing_is_held();
    });
}

/// A chunk may be abandoned while the record's next holder and another thread free its blocks.
#[test]
fn loom_next_holder_frees_in_an_abandoned_chunk() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        thread.exit();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(first));
        let next = Thread::start(&model);
        next.free(second);
        let third = next.allocate();
        next.free(third);
        next.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}

/// The record of one thread, for another thread that purges the record's chunks.
struct SentRecord(NonNull<HeapRecord<Tiny>>);

// SAFETY: threads share records, and a model keeps its records until all of its threads are joined.
unsafe impl Send for SentRecord {}

impl Thread<'_> {
    /// Starts a thread that frees a block of this owner, and then purges the owner's chunks.
    fn free_and_purge(&self, model: &Model, block: Sent) -> thread::JoinHandle<()> {
        let (there, record) = (model.clone(), SentRecord(NonNull::from(self.lease.record())));
        thread::spawn(move || {
            there.free_elsewhere(block);
            let record = record;
            // SAFETY: a model keeps its records until all of its threads are joined.
            IdleRings(ModelRealm(&there.0)).purge_units(unsafe { record.0.as_ref() }, IdleBy::Time);
        })
    }
}

/// Another thread frees a block of the front, and purges the chunk if it can. At the same time, the
/// owner replaces the chunk as the front, and later uses its memory again.
#[test]
fn loom_chunk_is_purged_while_its_owner_replaces_the_front() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let first = thread.allocate();
        let other = thread.free_and_purge(&model, first);
        // Only the first of these two blocks fits into the chunk, so the allocation of the second
        // one replaces the front.
        let blocks = [(); 2].map(|()| thread.allocate());
        for block in blocks {
            thread.free(block);
        }
        let again = [(); 2].map(|()| thread.allocate());
        other.join().unwrap();
        for block in again {
            thread.free(block);
        }
        thread.exit();
        model.nothing_is_held();
    });
}

/// The owner frees a block and exits, while another thread frees the chunk's other block and purges
/// the chunk.
#[test]
fn loom_chunk_is_purged_after_its_owners_last_use_of_it() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [mine, last, front] = [(); 3].map(|()| thread.allocate());
        let other = thread.free_and_purge(&model, last);
        thread.free(mine);
        thread.free(front);
        thread.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}

/// Two threads free the two blocks of a chunk, and one of them purges the chunk.
#[test]
fn loom_chunk_is_purged_after_the_last_use_by_other_threads() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        let there = model.clone();
        let frees = thread::spawn(move || there.free_elsewhere(first));
        let purges = thread.free_and_purge(&model, second);
        frees.join().unwrap();
        purges.join().unwrap();
        thread.free(front);
        thread.exit();
        model.nothing_is_held();
    });
}

/// A chunk may be lent while its owner exits, so that the owner cannot book the chunk's frees.
#[test]
fn loom_chunk_that_is_lent_while_its_owner_exits_is_freed() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let block = thread.allocate();
        let other = thread.free_and_purge(&model, block);
        thread.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}
