//! Plays a program over a contender.

use core::alloc::Layout;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use core::time::Duration;

use super::lane::{Buffer, Lane};
use super::program::{Kind, Op, Program};
use crate::blocks::{Contender, RawAlloc};

/// A play touches one byte in each `LINE` bytes of a block, up to `TOUCHED`.
const LINE: usize = 64;
const TOUCHED: usize = 256;
/// Bytes of a page. A play that measures memory touches one byte of each.
const PAGE: usize = 4096;

/// The time that a play took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Nanoseconds of processor time, of all threads together, waiting left out.
    pub busy: u64,
    /// Nanoseconds spent waiting for other threads.
    pub waited: u64,
}

/// The place of a block that the program holds.
#[derive(Debug)]
struct Slot {
    block: AtomicPtr<u8>,
    generation: AtomicU32,
}

/// A contender with a program's slots.
pub struct Player<'a, C: Contender> {
    alloc: C,
    program: &'a Program,
    slots: Vec<Slot>,
    epochs: Vec<AtomicU32>,
    /// Room of each lane for the segment that it plays. None where a lane unwound with it.
    buffers: Vec<Buffer>,
    /// Whether a lane unwound, so that others would wait for its blocks without end.
    broken: AtomicBool,
    /// Whether every page of a block is touched, as memory is measured.
    whole: bool,
}

impl<C: Contender> core::fmt::Debug for Player<'_, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Player").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// A reference to the player that each lane has.
struct Shared<'a, 'p, C: Contender>(&'a Player<'p, C>);

// SAFETY: `Player::new` admits a program of several lanes only if `plays` says that the contender
// allocates and frees on any thread at the same time. The other fields are atomics, or do not
// change during a play.
unsafe impl<C: Contender> Send for Shared<'_, '_, C> {}

/// Whether a contender can replay: any size, freed one by one, and, with several threads, on any of
/// them.
#[must_use]
pub fn plays(caps: &crate::card::Caps, threaded: bool) -> bool {
    caps.any_size
        && caps.free_individually
        && caps.keeps_contents
        && (!threaded || caps.any_thread_free && caps.shared_alloc)
}

/// Processor time of the calling thread in nanoseconds.
fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a structure of the right type; the clock exists wherever threads
    // do.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Processor time of a lane that is not the contender's, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Off {
    /// Spent waiting for other lanes.
    waited: u64,
    /// Spent reading operations.
    read: u64,
}

/// Bytes that a player of a program takes.
pub(super) fn resident(program: &Program) -> u64 {
    let packed = program.lanes.iter().filter(|lane| lane.segments() > 0).count() as u64;
    (program.slots * size_of::<Slot>() + program.epochs.len() * 4) as u64 + packed * Buffer::BYTES
}

/// The buffers of a program's lanes. Lanes without segments need none.
fn buffers(program: &Program) -> Vec<Buffer> {
    let buffer = |lane: &Lane| if lane.segments() > 0 { Buffer::resident() } else { Buffer::default() };
    program.lanes.iter().map(buffer).collect()
}

/// Tells the other lanes when its own unwinds.
struct Tell<'a>(&'a AtomicBool);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

/// Waits until `ready`; the processor time that took is added to `waited`.
///
/// # Panics
///
/// If another lane panicked: this one may be waiting for it.
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

/// The layout of an operation.
#[inline(always)]
fn layout(size: u32, align_log2: u8) -> Layout {
    debug_assert!(Layout::from_size_align(size as usize, 1 << align_log2).is_ok());
    // SAFETY: the alignment is a power of two of at most 2^31, and a size below 2^32 does not
    // overflow when rounded up to it.
    unsafe { Layout::from_size_align_unchecked(size as usize, 1 << align_log2) }
}

/// Writes the first byte of each line of a block's beginning, and of each page where memory is
/// measured.
///
/// # Safety
///
/// The block is the caller's, and has `size` bytes.
#[inline(always)]
unsafe fn touch(block: *mut u8, from: usize, size: usize, whole: bool) {
    let mut write = |at: usize| {
        // SAFETY: the offset is below the size.
        let place = unsafe { block.add(at) };
        // SAFETY: as above, and the block is the caller's.
        unsafe { place.write_volatile(at as u8) };
    };
    (from.next_multiple_of(LINE)..size.min(TOUCHED)).step_by(LINE).for_each(&mut write);
    if whole {
        (from.next_multiple_of(PAGE)..size).step_by(PAGE).for_each(&mut write);
    }
}

impl<'a, C: Contender> Player<'a, C> {
    /// A player without a block.
    ///
    /// # Panics
    ///
    /// If the contender's card says that it cannot play such a program.
    #[must_use]
    pub fn new(program: &'a Program, whole: bool) -> Self {
        assert!(plays(&C::INFO.caps, program.is_threaded()), "{} cannot play this", C::INFO.name);
        let slot = || Slot { block: AtomicPtr::default(), generation: AtomicU32::new(0) };
        Self {
            alloc: C::create(),
            program,
            slots: core::iter::repeat_with(slot).take(program.slots).collect(),
            epochs: core::iter::repeat_with(AtomicU32::default).take(program.epochs.len()).collect(),
            buffers: buffers(program),
            broken: AtomicBool::new(false),
            whole,
        }
    }

    /// Plays once. The blocks that the program never frees are freed afterwards, untimed.
    ///
    /// # Panics
    ///
    /// If the contender refuses a block, on any thread. The blocks that are alive then leak.
    pub fn play(&mut self) -> Played {
        self.slots.iter_mut().for_each(|slot| *slot.generation.get_mut() = 0);
        for (epoch, lanes) in self.epochs.iter_mut().zip(&self.program.epochs) {
            *epoch.get_mut() = *lanes;
        }
        *self.broken.get_mut() = false;
        let mut room = core::mem::take(&mut self.buffers);
        if room.len() != self.program.lanes.len() {
            room = buffers(self.program);
        }
        let (busy, waited) = (AtomicU64::new(0), AtomicU64::new(0));
        let run = |player: &Self, lane: &Lane, buffer: &mut Buffer| {
            let _tell = Tell(&player.broken);
            let mut off = Off::default();
            let start = thread_time();
            player.lane(player.alloc.by_ref(), lane, buffer, &mut off);
            let took = thread_time() - start;
            busy.fetch_add(took.saturating_sub(off.waited + off.read), Relaxed);
            waited.fetch_add(off.waited, Relaxed);
        };
        let run = &run;
        let this = &*self;
        // One lane stays on this thread: allocators take a shorter way in a process without others.
        let mut lanes = this.program.lanes.iter().zip(&mut room);
        if let Some((first, buffer)) = lanes.next() {
            if this.program.is_threaded() {
                std::thread::scope(|scope| {
                    for (lane, buffer) in lanes {
                        let shared = Shared(this);
                        scope.spawn(move || {
                            let shared = shared;
                            run(shared.0, lane, buffer);
                        });
                    }
                    run(this, first, buffer);
                });
            } else {
                run(this, first, buffer);
            }
        }
        self.buffers = room;
        let alloc = self.alloc.by_ref();
        for left in &self.program.left {
            let block = self.slots[left.slot as usize].block.load(Relaxed);
            // SAFETY: the program fills the slot with a block of this layout and does not empty it.
            unsafe { alloc.dealloc(block, layout(left.size, left.align_log2)) };
        }
        Played { busy: busy.into_inner(), waited: waited.into_inner() }
    }

    /// Plays a lane: its segments, each read before its time counts, and its tail.
    fn lane<R: RawAlloc + Copy>(&self, alloc: R, lane: &Lane, buffer: &mut Buffer, off: &mut Off) {
        let mut epoch = None;
        for segment in 0..lane.segments() {
            let start = thread_time();
            lane.load(segment, buffer);
            off.read += thread_time() - start;
            self.ops(alloc, buffer.ops(), &mut epoch, &mut off.waited);
        }
        self.ops(alloc, lane.tail(), &mut epoch, &mut off.waited);
        self.end(epoch);
    }

    /// Plays operations of a lane.
    #[inline(never)]
    fn ops<R: RawAlloc + Copy>(&self, alloc: R, ops: &[Op], epoch: &mut Option<usize>, waited: &mut u64) {
        for op in ops {
            if op.kind == Kind::Epoch {
                self.begin(epoch, op.size as usize, waited);
                continue;
            }
            let slot = &self.slots[op.slot as usize];
            // ORDERING: Acquire. Pairs with the Release in `Player::ops`. Publishes: the block, and
            // what was written to it.
            if op.wait > 0
                && !cfg!(ephemera_weaken = "replay_no_wait")
                && slot.generation.load(Acquire) != op.wait
            {
                wait_for(waited, &self.broken, || slot.generation.load(Acquire) == op.wait);
            }
            let new = layout(op.size, op.align_log2);
            match op.kind {
                Kind::Free => {
                    // SAFETY: the program fills a slot with a block of this layout before it
                    // empties it.
                    unsafe { alloc.dealloc(slot.block.load(Relaxed), new) };
                    continue;
                }
                Kind::Alloc => {
                    // SAFETY: no size of a program is zero.
                    let block = unsafe { alloc.alloc(new) };
                    // SAFETY: the block is new and has the size.
                    unsafe { touch(block, 0, op.size as usize, self.whole) };
                    slot.block.store(block, Relaxed);
                }
                Kind::Zeroed => {
                    // SAFETY: as above.
                    let block = core::hint::black_box(unsafe { alloc.raw_alloc_zeroed(new) });
                    assert!(!block.is_null(), "the allocator refused {} zeroed bytes", op.size);
                    // SAFETY: as above.
                    unsafe { touch(block, 0, op.size as usize, self.whole) };
                    slot.block.store(block, Relaxed);
                }
                Kind::Resize | Kind::Epoch => {
                    let old = layout(op.old, op.align_log2);
                    let block = core::hint::black_box(slot.block.load(Relaxed));
                    let moved = if op.size >= op.old {
                        // SAFETY: the slot holds a block of the old layout; the new one is as large
                        // or larger.
                        unsafe { alloc.raw_grow(block, old, new) }
                    } else {
                        // SAFETY: the slot holds a block of the old layout; the new one is smaller
                        // and not empty.
                        unsafe { alloc.raw_shrink(block, old, new) }
                    };
                    let moved = core::hint::black_box(moved);
                    assert!(!moved.is_null(), "the allocator refused to make {} bytes {}", op.old, op.size);
                    // SAFETY: the block has the new size.
                    unsafe { touch(moved, op.old as usize, op.size as usize, self.whole) };
                    slot.block.store(moved, Relaxed);
                }
            }
            if op.publish {
                // This lane has the slot to itself, and saw the generation before when it got the
                // slot.
                let next = slot.generation.load(Relaxed) + 1;
                // ORDERING: Release. Pairs with the Acquire in `Player::ops`. Publishes: the block.
                slot.generation.store(next, Release);
            }
        }
    }

    /// Leaves one epoch for another, once all lanes are through the last but one before it.
    #[cold]
    fn begin(&self, now: &mut Option<usize>, next: usize, waited: &mut u64) {
        self.end(now.replace(next));
        // Two suffice: a lane enters an epoch after all lanes have left those before these two.
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
