//! Loom models of `OneRingAlloc`'s protocol, over the real heap, chunks and records, with a world of their own.
//!
//! Each ends with all blocks freed, and then nothing may be held, although no thread cleans up: a chunk that is lost
//! or stays leaves bytes in the account. One that is freed twice, or touched afterwards, trips its witness.
//! `xtask/controls.toml` says which weakening each model catches.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::record::{Lease, Record, Registry};
use loom::sync::Arc;
use loom::thread;

use super::shard::{Owner, Realm, Shard, World, clean, release, stats};
use crate::account::Account;
use crate::chunk::HEADER;
use crate::geometry::{Geometry, SLACK};
use crate::heap;

/// Chunks of two blocks.
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
struct Model(Arc<World<Tiny>>);

/// The world as long as a model lasts.
#[derive(Clone, Copy)]
struct Here<'w>(&'w World<Tiny>);

impl Realm for Here<'_> {
    type Geometry = Tiny;

    fn world(&self) -> &World<Tiny> {
        self.0
    }
}

/// A block on its way to another thread.
struct Sent(NonNull<u8>);

// SAFETY: a block may be freed by any thread, and the one who has it is the only one to use it.
unsafe impl Send for Sent {}

/// A thread that holds a record, as `thread.rs` does it with a thread-local.
struct Thread<'w> {
    lease: Lease<'w, Shard<Tiny>>,
    world: &'w World<Tiny>,
}

impl<'w> Thread<'w> {
    fn start(model: &'w Model) -> Self {
        let lease = model.0.registry.lease_any().unwrap();
        lease.record().shard().enter();
        Self { lease, world: &model.0 }
    }

    fn owner(&self) -> Owner<'w, Here<'w>> {
        Owner { record: self.lease.record(), realm: Here(self.world) }
    }

    fn allocate(&self) -> Sent {
        let block = heap::allocate(self.owner(), BLOCK).unwrap();
        // SAFETY: a fresh block.
        unsafe { block.write_bytes(1, BLOCK.size()) };
        Sent(block)
    }

    fn free(&self, block: Sent) {
        free_as(self.owner(), block);
    }

    fn trim(&self) {
        heap::trim(self.owner());
    }

    /// The end of a thread: frees what is empty, then releases the lease.
    fn exit(self) {
        self.trim();
        release(Here(self.world), self.lease);
    }
}

fn free_as(owner: Owner<'_, Here<'_>>, block: Sent) {
    // SAFETY: whoever has a `Sent` has the block.
    unsafe { heap::deallocate(owner, block.0, BLOCK) };
}

impl Model {
    fn new() -> Self {
        let records = core::array::from_fn(|_| Record::new(Shard::new()));
        Self(Arc::new(World::new(Registry::new(records, Shard::new))))
    }

    /// Frees as a thread does that has no record: NOWHERE, or GONE.
    fn free_elsewhere(&self, block: Sent) {
        let nowhere = Record::new(Shard::new());
        nowhere.shard().enter();
        free_as(Owner { record: &nowhere, realm: Here(&self.0) }, block);
    }

    /// Nothing is held. No thread looks at the records before this: memory that a later look would find has stayed.
    fn nothing_is_held(&self) {
        assert_eq!(self.0.account.held(), 0, "a chunk was lost, or stays");
        assert_eq!(stats(Here(&self.0)).blocks_live(), 0);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

#[test]
fn loom_a_foreign_free_beside_the_owners() {
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
fn loom_two_foreign_frees_in_one_chunk() {
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
fn loom_a_chunk_is_reused_only_after_its_foreign_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            // SAFETY: the block is this thread's until it is freed.
            unsafe { first.0.write_bytes(2, BLOCK.size()) };
            there.free_elsewhere(first);
        });
        thread.free(second);
        // Whether it comes from the same chunk or a new one depends on what the other thread did.
        let third = thread.allocate();
        thread.free(third);
        other.join().unwrap();
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_the_owner_ends_while_others_free() {
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
fn loom_the_owner_ends_while_one_frees_and_one_cleans() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let block = thread.allocate();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(block));
        let there = model.clone();
        let cleaner = thread::spawn(move || clean(Here(&there.0)));
        thread.exit();
        other.join().unwrap();
        cleaner.join().unwrap();
        model.nothing_is_held();
    });
}

#[test]
fn loom_a_new_thread_goes_on_where_one_ended() {
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
            let stats = stats(Here(&there.0));
            assert!(stats.blocks_live() <= 3);
        });
        // Fills one chunk, takes a second, and gives the first back.
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

/// Both blocks of an ended thread are freed at once: the first free abandons the chunk, and the last one frees it.
#[test]
fn loom_an_abandoned_chunk_goes_with_its_last_block() {
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

/// A chunk is abandoned and then freed by the record's next holder and another thread at once.
#[test]
fn loom_a_new_holder_frees_in_an_abandoned_chunk() {
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
