//! Plays a program over an allocator. The modules `timed` and `memory` measure the time and the
//! memory of a play.

use core::alloc::GlobalAlloc;
use core::hint::black_box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use core::time::Duration;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::lane::{Lane, SegmentBuffer};
use super::op::{Action, ProgramOp};
use super::program::ReplayProgram;

/// The size of a cache line, in bytes. A play touches one byte of each line in the first
/// [`TOUCHED`] bytes of a block.
const LINE: usize = 64;
const TOUCHED: usize = 256;
/// The size of a page in bytes. A play that measures memory touches one byte of each page.
const PAGE: usize = 4096;

/// A slot, which holds one block at a time, and its generation.
#[derive(Debug)]
struct PlayerSlot {
    block: AtomicPtr<u8>,
    generation: AtomicU32,
}

/// A player of a program: an allocator, and the slots that hold the program's blocks.
#[derive(Debug)]
pub struct Player<'a, A> {
    alloc: A,
    program: &'a ReplayProgram,
    slots: Vec<PlayerSlot>,
    epochs: Vec<AtomicU32>,
    /// A buffer for each lane, with the segment that the lane plays.
    buffers: Vec<Mutex<SegmentBuffer>>,
    /// Whether a lane has panicked. If so, every other lane that waits panics too.
    broken: AtomicBool,
    /// Whether a play touches every page of a block, which a measurement of memory requires.
    whole: bool,
}

/// Returns the processor time of the calling thread in nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the number of bytes of memory that a player of a program takes for itself.
pub(super) fn resident(program: &ReplayProgram) -> u64 {
    let packed = program.lanes.iter().filter(|lane| !lane.segments.is_empty()).count() as u64;
    (program.slots * size_of::<PlayerSlot>() + program.epochs.len() * 4) as u64
        + packed * SegmentBuffer::BYTES
}

/// A value that sets the flag when it is dropped during a panic of its lane.
struct BreakOnPanic<'a>(&'a AtomicBool);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

/// Waits until `ready` returns true. Adds the processor time of the wait to `waited`.
///
/// # Panics
///
/// Panics if another lane has panicked before `ready` returns true, because this lane may be
/// waiting for that lane.
#[cold]
#[inline(never)]
fn wait_for(waited: &mut u64, broken: &AtomicBool, ready: impl Fn() -> bool) {
    let start = thread_time();
    let mut turns = 0_u32;
    while !ready() {
        assert!(!broken.load(Relaxed), "another lane of the replay ended early");
        turns = turns.saturating_add(1);
        match turns {
            0..100 => core::hint::spin_loop(),
            100..1000 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(20)),
        }
    }
    *waited += thread_time() - start;
}

/// Writes one byte to each cache line in the first [`TOUCHED`] bytes of a block. If `whole`, also
/// writes one byte to each page. Skips the lines and pages that begin before the offset `from`.
///
/// # Safety
///
/// The caller must own the block, which must have `size` bytes.
#[inline(always)]
unsafe fn touch(block: *mut u8, from: usize, size: usize, whole: bool) {
    let mut write = |at: usize| {
        // SAFETY: both loops below pass offsets below `size`, so the result lies within the block.
        let place = unsafe { block.add(at) };
        // SAFETY: the byte lies within the block, which the caller owns.
        unsafe { place.write_volatile(at as u8) };
    };
    (from.next_multiple_of(LINE)..size.min(TOUCHED)).step_by(LINE).for_each(&mut write);
    if whole {
        (from.next_multiple_of(PAGE)..size).step_by(PAGE).for_each(&mut write);
    }
}

impl<'a, A: GlobalAlloc + Sync> Player<'a, A> {
    /// Creates a player without any blocks. `whole` determines whether a play touches every page of
    /// a block.
    pub fn new(alloc: A, program: &'a ReplayProgram, whole: bool) -> Self {
        // A lane without segments gets an empty buffer.
        let buffer = |lane: &Lane| {
            let packed = !lane.segments.is_empty();
            Mutex::new(if packed { SegmentBuffer::resident() } else { SegmentBuffer::default() })
        };
        let slot = || PlayerSlot { block: AtomicPtr::default(), generation: AtomicU32::new(0) };
        Self {
            alloc,
            program,
            slots: core::iter::repeat_with(slot).take(program.slots).collect(),
            epochs: core::iter::repeat_with(AtomicU32::default).take(program.epochs.len()).collect(),
            buffers: program.lanes.iter().map(buffer).collect(),
            broken: AtomicBool::new(false),
            whole,
        }
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    /// Plays the program once, then frees the blocks that the program never frees. Returns the
    /// processor time of all lanes together in nanoseconds, without the time for waiting, for
    /// reading operations and for the last frees.
    ///
    /// # Panics
    ///
    /// Panics if the allocator refuses a block on any thread, or if the file of the operations
    /// cannot be read. The live blocks then leak.
    pub fn play(&mut self) -> u64 {
        self.slots.iter_mut().for_each(|slot| *slot.generation.get_mut() = 0);
        for (epoch, lanes) in self.epochs.iter_mut().zip(&self.program.epochs) {
            *epoch.get_mut() = *lanes;
        }
        *self.broken.get_mut() = false;
        let this = &*self;
        // The first lane stays on this thread, so a program with one lane does not start a thread.
        // Some allocators are faster in a single-threaded process.
        let busy = std::thread::scope(|scope| {
            let mut lanes = this.program.lanes.iter().zip(&this.buffers);
            let first = lanes.next();
            let others: Vec<_> =
                lanes.map(|(lane, buffer)| scope.spawn(|| this.lane(lane, buffer))).collect();
            let first = first.map(|(lane, buffer)| this.lane(lane, buffer));
            let others = others.into_iter().map(|lane| lane.join().unwrap_or_else(|why| resume_unwind(why)));
            others.chain(first).sum()
        });
        for left in &self.program.left {
            let block = self.slots[left.slot as usize].block.load(Relaxed);
            // SAFETY: the program fills the slot with a block of this layout and does not empty it.
            unsafe { self.alloc.dealloc(block, left.layout()) };
        }
        busy
    }

    /// Plays a lane: its segments and its tail. Returns the processor time in nanoseconds, without
    /// the time spent waiting or reading a segment.
    fn lane(&self, lane: &Lane, buffer: &Mutex<SegmentBuffer>) -> u64 {
        let _on_panic = BreakOnPanic(&self.broken);
        // After a panic the lock is poisoned. A later play overwrites the buffer before it reads
        // it.
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut waited, mut read, mut epoch) = (0, 0, None);
        let start = thread_time();
        for segment in 0..lane.segments.len() {
            let start = thread_time();
            lane.load(segment, &mut buffer);
            read += thread_time() - start;
            self.ops(&buffer.ops, &mut epoch, &mut waited);
        }
        self.ops(&lane.tail, &mut epoch, &mut waited);
        self.end(epoch);
        (thread_time() - start).saturating_sub(waited + read)
    }

    /// Plays operations of a lane. `epoch` is the lane's current epoch.
    #[inline(never)]
    fn ops(&self, ops: &[ProgramOp], epoch: &mut Option<usize>, waited: &mut u64) {
        for op in ops {
            if op.action == Action::Epoch {
                self.begin(epoch, op.size as usize, waited);
                continue;
            }
            let slot = &self.slots[op.slot as usize];
            // ORDERING: Acquire. Pairs with the Release in `Player::ops`: this thread sees the
            // block and its contents.
            if op.wait > 0 && !weakened!("replay_no_wait") && slot.generation.load(Acquire) != op.wait {
                wait_for(waited, &self.broken, || slot.generation.load(Acquire) == op.wait);
            }
            let layout = op.layout();
            let (block, touched) = match op.action {
                Action::Free => {
                    let block = black_box(slot.block.load(Relaxed));
                    // SAFETY: the program fills a slot with a block of this layout before it
                    // empties the slot.
                    unsafe { self.alloc.dealloc(block, layout) };
                    continue;
                }
                // SAFETY: `ProgramMaker` makes every size at least 1.
                Action::Alloc => (unsafe { self.alloc.alloc(layout) }, 0),
                // SAFETY: `ProgramMaker` makes every size at least 1.
                Action::Zeroed => (unsafe { self.alloc.alloc_zeroed(layout) }, 0),
                Action::Resize | Action::Epoch => {
                    let block = black_box(slot.block.load(Relaxed));
                    // SAFETY: the slot holds a block of the old layout. The new size is at least 1,
                    // and fits the alignment by `ProgramOp::layout`.
                    let block = unsafe { self.alloc.realloc(block, op.old_layout(), layout.size()) };
                    (block, op.old)
                }
            };
            let block = black_box(block);
            assert!(!block.is_null(), "the allocator refused {} bytes", op.size);
            // SAFETY: the block has `op.size` bytes, and no other lane uses it.
            unsafe { touch(block, touched as usize, op.size as usize, self.whole) };
            slot.block.store(block, Relaxed);
            if op.publish {
                // Only this lane uses the slot at this point. The lane stored the last generation
                // itself, or saw it when it waited for the slot.
                let next = slot.generation.load(Relaxed) + 1;
                // ORDERING: Release. Pairs with the Acquire in `Player::ops`. Publishes: the block.
                slot.generation.store(next, Release);
            }
        }
    }

    /// Begins an epoch. Waits until all lanes have left the epochs before the previous one.
    #[cold]
    fn begin(&self, now: &mut Option<usize>, next: usize, waited: &mut u64) {
        self.end(now.replace(next));
        // It suffices to check these two epochs, because their lanes waited for the earlier ones.
        for before in [next.checked_sub(3), next.checked_sub(2)].into_iter().flatten() {
            let epoch = &self.epochs[before];
            if epoch.load(Relaxed) != 0 {
                wait_for(waited, &self.broken, || epoch.load(Relaxed) == 0);
            }
        }
    }

    fn end(&self, epoch: Option<usize>) {
        if let Some(epoch) = epoch {
            self.epochs[epoch].fetch_sub(1, Relaxed);
        }
    }
}
