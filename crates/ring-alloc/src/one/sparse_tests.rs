//! Tests of a sparse heap whose blocks other threads free. They use records with small chunks, so
//! that a few hundred blocks fill many of them.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::sync_channel;
use std::thread;

use allocator_api2::vec::Vec;
use ephemera_prim::account::Account;
use ephemera_prim::idle::{IdleBy, IdleHeaps};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};
use ephemera_testkit::SplitMix;

use super::record::{HeapRecord, IdleRings, Realm, RecordOwner, RingRecord, RingWorld, clean, release};
use crate::divided::Divided;
use crate::geometry::Geometry;
use crate::heap::{self, RingEnv};

static WORLD: RingWorld<Divided> =
    RingWorld::new(Registry::new([const { Record::new(RingRecord::new()) }; FIRST], RingRecord::new));

/// Gives access to [`WORLD`], which no other test uses.
#[derive(Debug, Clone, Copy)]
struct SmallChunks;

impl Realm for SmallChunks {
    type Geometry = Divided;

    fn world(&self) -> &RingWorld<Divided> {
        &WORLD
    }
}

/// A thread that holds a record.
struct Holder(Lease<'static, RingRecord<Divided>>);

impl Holder {
    fn start() -> Self {
        let lease = WORLD.registry.lease_any().expect("there is memory");
        lease.record().data().enter();
        Self(lease)
    }

    fn owner(&self) -> RecordOwner<'static, SmallChunks> {
        RecordOwner { record: self.0.record(), realm: SmallChunks }
    }

    /// Simulates the exit of the thread.
    fn exit(self) {
        heap::trim(self.owner());
        release(SmallChunks, self.0);
    }
}

/// A block whose bytes all have one value.
struct Stamped {
    start: NonNull<u8>,
    layout: Layout,
    stamp: u8,
}

// SAFETY: any thread may free a block, and only the thread that has the value uses the block.
unsafe impl Send for Stamped {}

impl Stamped {
    fn new(holder: &Holder, rng: &mut SplitMix, stamp: u8) -> Self {
        let layout = Layout::from_size_align(1 + rng.below(Divided::SMALL_MAX), 1 << rng.below(7));
        let layout = layout.expect("a valid layout");
        let start = heap::allocate(holder.owner(), layout).expect("no limit");
        // SAFETY: the block is new and has this many bytes.
        unsafe { start.write_bytes(stamp, layout.size()) };
        Self { start, layout, stamp }
    }

    /// Shrinks the block to half its size, and then frees it.
    fn free(self, holder: &Holder) {
        let half = Layout::from_size_align(self.layout.size().div_ceil(2), self.layout.align());
        let half = half.expect("a smaller layout is valid");
        self.check(self.layout);
        // SAFETY: the block is live with this layout, and the new one is not larger.
        let start = unsafe { heap::shrink(holder.owner(), self.start, self.layout, half) };
        let block = Self { start: start.expect("a shrink is not refused"), ..self };
        block.check(half);
        // SAFETY: the block is live with the layout `half`.
        unsafe { heap::deallocate(holder.owner(), block.start, half) };
    }

    fn check(&self, layout: Layout) {
        // SAFETY: the block is live with this layout, and was filled.
        let bytes = unsafe { core::slice::from_raw_parts(self.start.as_ptr(), layout.size()) };
        // Miri itself finds an access by a second user.
        let mut looks = bytes.iter().step_by(if cfg!(miri) { 64 } else { 1 });
        assert!(looks.all(|byte| *byte == self.stamp), "a block has two users");
    }
}

/// The number of blocks that the owner allocates.
const BLOCKS: usize = if cfg!(miri) { 200 } else { 200_000 };

/// Frees blocks as a thread that holds a record of its own. If `owner`, the record of the blocks,
/// is given, also frees or purges chunks of that record at every fourth block.
fn free_all(blocks: impl Iterator<Item = Stamped>, owner: Option<&HeapRecord<Divided>>) {
    let holder = Holder::start();
    for (number, block) in blocks.enumerate() {
        block.free(&holder);
        if let Some(owner) = owner.filter(|_| number % 4 == 0) {
            IdleRings(SmallChunks).purge_units(owner, IdleBy::Time);
        }
    }
    holder.exit();
}

/// An owner replaces blocks, of which one in ten lives long. Two other threads free one block in
/// six, and one of them also purges chunks.
#[test]
fn conc_blocks_that_other_threads_free_in_divided_chunks_do_not_overlap() {
    let holder = Holder::start();
    holder.owner().heap().make_sparse();
    let record = holder.0.record();
    let (mut rng, mut divided) = (SplitMix::new(3), 0);
    thread::scope(|threads| {
        let others = [None, Some(record)].map(|purged| {
            let (send, blocks) = sync_channel::<Stamped>(8);
            threads.spawn(move || free_all(blocks.into_iter(), purged));
            send
        });
        let mut lives = [(Vec::new(), 40), (Vec::new(), 20)];
        for number in 0..BLOCKS {
            let (blocks, most) = &mut lives[usize::from(rng.below(10) == 0)];
            blocks.push(Stamped::new(&holder, &mut rng, number as u8));
            let old = (blocks.len() > *most).then(|| blocks.remove(0));
            match (old, others.get(rng.below(12))) {
                (Some(block), Some(other)) => other.send(block).expect("the thread receives"),
                (Some(block), None) => block.free(&holder),
                (None, _) => {}
            }
            divided += usize::from(holder.owner().heap().divided_front().is_some());
            if number % 64 == 0 {
                let owner = holder.owner();
                // Another thread may be evicting chunks.
                if let Some(_kept) = heap::list::keep_lists(&owner) {
                    owner.heap().check_counts::<Divided>();
                }
            }
        }
        lives.into_iter().flat_map(|(blocks, _)| blocks).for_each(|block| block.free(&holder));
    });
    assert!(divided > BLOCKS / 4, "the heap divided chunks for {divided} blocks");
    holder.exit();
    clean(SmallChunks);
    assert_eq!(WORLD.account.now().held, 0);
}
