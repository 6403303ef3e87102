//! Models of divided chunks: a purge while the owner takes a hole, the reuse of remotely freed
//! bytes, and the abandonment of a divided chunk.

use std::vec;
use std::vec::Vec;

use ephemera_prim::raw::base_addr;
use ephemera_prim::witness::Witness;
use loom::sync::Arc;
use loom::thread;

use super::{Sent, check};
use crate::chunk::{headers, suit};
use crate::cursor::room_of;
use crate::geometry::{Geometry, SLACK};
use crate::heap::RingEnv;

/// A geometry whose chunks have holes of 3 KiB or more.
#[derive(Debug)]
struct Divided;

impl Geometry for Divided {
    const SMALL_MAX: usize = 2_300;
    const SMALL_ALIGN: usize = 8;
    const SMALL_CHUNK: usize = 32 << 10;
    const MEDIUM_MAX: usize = 2_300;
    const MEDIUM_ALIGN: usize = 8;
    const MEDIUM_CHUNK: usize = 32 << 10;
    const RETAIN: usize = 0;
}

const _: () = assert!(suit::<Divided>(), "chunks can be divided");

/// The number of blocks for which a chunk has room.
const BLOCKS: usize = (Divided::SMALL_CHUNK - SLACK - headers::<Divided>()[0]) / room_of(Divided::SMALL_MAX);

type Model = super::Model<Divided>;
type Thread<'w> = super::Thread<'w, Divided>;

/// Returns the address of the chunk of a block.
fn chunk(block: &Sent) -> usize {
    base_addr(block.0, Divided::SMALL_CHUNK)
}

/// Fills two chunks, and frees all blocks of the first chunk except the first two. Returns these
/// two, and the blocks of the second chunk, which is the front.
fn with_holes(thread: &Thread<'_>) -> ([Sent; 2], Vec<Sent>) {
    thread.owner().heap().make_sparse();
    let [first, second] = [(); 2].map(|()| thread.allocate());
    let mut freed = Vec::new();
    let mut front = Vec::new();
    while front.is_empty() {
        let block = thread.allocate();
        if chunk(&block) == chunk(&first) { freed.push(block) } else { front.push(block) }
    }
    front.extend((0..freed.len() + 1).map(|_| thread.allocate()));
    freed.into_iter().for_each(|block| thread.free(block));
    ([first, second], front)
}

/// Lets another thread free the last old block of a chunk with holes and purge the chunk, while the
/// owner allocates blocks with `allocate`. Then frees all blocks.
fn purge_while_owner(allocate: fn(&Thread<'_>) -> Vec<Sent>) {
    check(move || {
        let model = Model::new();
        let thread = Thread::start(&model);
        let ([first, second], front) = with_holes(&thread);
        thread.free(first);
        let other = thread.free_and_purge(&model, second);
        let mine = allocate(&thread);
        other.join().unwrap();
        mine.into_iter().chain(front).for_each(|block| thread.free(block));
        thread.exit();
        model.nothing_is_held();
    });
}

/// The owner takes a hole of a chunk, or sees that another thread freed a block of it. That thread
/// purges the chunk, or sees that it is the front.
#[test]
fn loom_chunk_is_purged_while_its_owner_takes_a_hole() {
    purge_while_owner(|thread| vec![thread.allocate()]);
}

/// The owner takes a hole, fills the chunk and leaves it.
#[test]
fn loom_chunk_is_purged_while_its_owner_fills_a_hole() {
    purge_while_owner(|thread| {
        let mut mine = vec![thread.allocate()];
        while chunk(&mine[mine.len() - 1]) == chunk(&mine[0]) {
            mine.push(thread.allocate());
        }
        mine
    });
}

/// Two other threads free two blocks of the front, and the owner uses their memory again. The owner
/// may collect the bytes of the first free before it has booked that free.
#[test]
fn loom_bytes_of_a_remote_free_are_used_after_the_last_use_by_its_thread() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        thread.owner().heap().make_sparse();
        let [first, second] = [(); 2].map(|()| thread.allocate());
        // Fill the front, which is divided.
        let mut front: Vec<_> = (2..BLOCKS).map(|_| thread.allocate()).collect();
        // Stands in for the memory of the first block.
        let memory = Arc::new(Witness::new());
        let (used, freed) = (Arc::clone(&memory), first.0.addr().get());
        let (here, there) = (model.clone(), model.clone());
        let one = thread::spawn(move || {
            used.write();
            here.free_elsewhere(first);
        });
        let other = thread::spawn(move || there.free_elsewhere(second));
        let block = thread.allocate();
        if block.0.addr().get().abs_diff(freed) < Divided::SMALL_MAX {
            memory.write();
        }
        one.join().unwrap();
        other.join().unwrap();
        front.push(block);
        front.into_iter().for_each(|block| thread.free(block));
        thread.exit();
        model.nothing_is_held();
    });
}

/// The owner exits while another thread frees a block of a divided chunk, so that the chunk is
/// abandoned.
#[test]
fn loom_divided_chunk_is_abandoned() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let ([first, second], front) = with_holes(&thread);
        front.into_iter().for_each(|block| thread.free(block));
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(first));
        thread.exit();
        other.join().unwrap();
        model.free_elsewhere(second);
        model.nothing_is_held();
    });
}
