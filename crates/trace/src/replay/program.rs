//! Turns a trace into a program: the operations of each thread, with slots instead of addresses.
//!
//! ```text
//! events   thread 1: alloc 0x10, 64   thread 2: free 0x10   thread 1: alloc 0x10, 32
//! program  lane 1: s0 = alloc 64, publish 1; s1 = alloc 32     lane 2: wait for s0 = 1, free s0
//! ```
//!
//! A *slot* holds one block at a time, and the lane that empties a slot uses it again. Before a
//! lane uses a block that another lane allocated or resized, it waits for that operation. The
//! operation publishes the slot's next *generation*, and the waiting operation contains the
//! generation to wait for. Lanes use a block one after another, so no lane misses a generation.
//!
//! If there are several lanes, the operations are cut into *epochs* of equal length in the recorded
//! order. A lane begins an epoch when all lanes have finished the epoch before the previous one.
//! Threads that ran one after another therefore do so in the replay too, and the same blocks are
//! live together as in the recorded run, to within two epochs.
//!
//! The trace is read once, and most operations are moved to a file ([`Lane`]). The memory that a
//! program takes grows with the live blocks and with the addresses that the trace used. With the
//! length of the trace, it grows only by about one bit for each operation.
#![forbid(unsafe_code)]

use core::error::Error;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::digest::Digest;
use super::lane::Lane;
use super::op::{Action, ProgramOp};
use super::tape::Tape;
use ephemera_recorder::{Book, BookStep, Id, Trace, TraceError, TraceEvent, What};

/// The number of operations in an epoch, over all lanes.
const EPOCH: u64 = 4096;
/// The maximum number of lanes. Further threads share a lane, in the recorded order.
const LANES: usize = 64;

/// A trace, ready to be replayed.
///
/// The operations are private because a [`Player`](super::Player) relies on two properties: every
/// slot is filled before it is emptied, and every operation has the layout that its block has at
/// that time.
#[derive(Clone, Debug, Default)]
pub struct ReplayProgram {
    /// The operations of each lane.
    pub(super) lanes: Vec<Lane>,
    /// The number of slots.
    pub slots: usize,
    /// The number of lanes that take part in each epoch.
    pub(super) epochs: Vec<u32>,
    /// A free of each block that the program never frees.
    pub(super) left: Vec<ProgramOp>,
    /// The number of operations that call the allocator.
    pub ops: u64,
    /// The peak of the live bytes, without the blocks that a replay leaves out.
    pub peak_live: u64,
    /// The number of blocks of 4 GiB and more, which are left out.
    pub huge: u64,
    /// The number of threads of the trace.
    pub(super) threads: usize,
    /// The digest of the trace's operations.
    pub digest: Digest,
}

/// A live block while the program is built.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayedBlock {
    slot: u32,
    size: u32,
    align_log2: u8,
    /// The lane that allocated or resized the block last, and the index of that operation in the
    /// lane.
    lane: u32,
    at: u64,
    /// Whether the block is replayed.
    known: bool,
}

impl ReplayedBlock {
    /// Returns the operation that frees the block after it waits for a generation.
    fn free(&self, wait: u32) -> ProgramOp {
        let Self { slot, size, align_log2, .. } = *self;
        ProgramOp { action: Action::Free, align_log2, slot, size, old: 0, wait, publish: false }
    }
}

struct ProgramMaker {
    program: ReplayProgram,
    tape: Arc<Tape>,
    book: Book,
    lives: Vec<ReplayedBlock>,
    /// The slots that each lane emptied.
    free: Vec<Vec<u32>>,
    generations: Vec<u32>,
    lane_of: HashMap<u32, u32>,
    /// The epoch of each lane's last operation, plus one.
    epoch_of: Vec<u32>,
    live: u64,
}

/// Returns the base-2 logarithm of a block's alignment in a replay: `asked`, or the alignment of
/// `malloc` if `asked` is 0. For `malloc`, C requires the largest power of two up to `size`, at
/// most 16.
fn align(asked: u8, size: u32) -> u8 {
    if asked > 0 { asked } else { (size.max(1).ilog2() as u8).min(4) }
}

impl ReplayProgram {
    /// Creates a program from a short trace. The operations stay in memory.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`].
    pub fn of(trace: &Trace) -> Result<Self, TraceError> {
        Self::made(trace, None, TraceError::Read)
    }

    /// Creates a program from a trace of any length. Most operations go to a file in `directory`.
    /// The file has no name, so the system deletes it when the program is dropped.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`], or an error if the file cannot be created or
    /// written.
    pub fn beside(trace: &Trace, directory: &Path) -> Result<Self, Box<dyn Error>> {
        Self::made(trace, Some(directory), |error| {
            format!(
                "the operations of the replay cannot be written beside the trace: {error}. Twice the length of the trace must be \
                 free there: copy the trace to a writable place with enough space"
            )
            .into()
        })
    }

    /// Creates a program. `failed` converts the error of a write to the file.
    fn made<E: From<TraceError>>(
        trace: &Trace,
        directory: Option<&Path>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<Self, E> {
        let mut maker = ProgramMaker::new(directory);
        for event in trace.events() {
            maker.add(&event?).map_err(&failed)?;
        }
        Ok(maker.finish())
    }

    /// Returns the number of bytes of memory that the program takes.
    pub(super) fn resident(&self) -> u64 {
        let own: u64 = self.lanes.iter().map(Lane::resident).sum();
        let tables = self.left.capacity() * size_of::<ProgramOp>() + self.epochs.capacity() * 4;
        let memory = self.lanes.first().map_or(0, |lane| lane.tape().in_memory());
        own + tables as u64 + memory
    }

    /// Returns the lanes. A trace of one thread has one lane.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Returns a free of each block that the program never frees.
    #[must_use]
    pub fn left(&self) -> &[ProgramOp] {
        &self.left
    }

    /// Returns the size in bytes of the file that holds most operations.
    pub(super) fn on_disk(&self) -> u64 {
        self.lanes.first().map_or(0, |lane| lane.tape().on_disk())
    }

    /// Returns whether the program has several lanes.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.lanes.len() > 1
    }
}

impl ProgramMaker {
    fn new(directory: Option<&Path>) -> Self {
        Self {
            program: ReplayProgram::default(),
            tape: Arc::new(Tape::new(directory)),
            book: Book::new(),
            lives: Vec::new(),
            free: Vec::new(),
            generations: Vec::new(),
            lane_of: HashMap::new(),
            epoch_of: Vec::new(),
            live: 0,
        }
    }

    fn lane(&mut self, thread: u32) -> usize {
        let lanes = self.lane_of.len();
        let lane = *self.lane_of.entry(thread).or_insert((lanes % LANES) as u32) as usize;
        if self.program.lanes.len() <= lane {
            self.program.lanes.push(Lane::new(&self.tape));
            self.free.push(Vec::new());
            self.epoch_of.push(0);
        }
        lane
    }

    fn add(&mut self, event: &TraceEvent) -> io::Result<()> {
        self.program.digest.add(event);
        let zeroed = matches!(event.what, What::Alloc { zeroed: true, .. });
        match self.book.apply(event) {
            BookStep::Alloc { id, lost } | BookStep::Found { id, lost } => {
                self.lose(lost, event)?;
                self.fill(id, event, if zeroed { Action::Zeroed } else { Action::Alloc })
            }
            BookStep::Free { id } => self.empty(id, event),
            BookStep::Resize { id, lost, .. } => {
                self.lose(lost, event)?;
                self.resize(id, event)
            }
            BookStep::Refused { lost, .. } => self.lose(lost, event),
            BookStep::Unknown | BookStep::Twice | BookStep::Pending => Ok(()),
        }
    }

    fn lose(&mut self, lost: Option<Id>, event: &TraceEvent) -> io::Result<()> {
        lost.map_or(Ok(()), |id| self.empty(id, event))
    }

    /// Appends an operation to the lane, and returns the operation's index in the lane. Begins an
    /// epoch first if the lane is not in the current epoch.
    fn push(&mut self, lane: usize, op: ProgramOp) -> io::Result<u64> {
        let epoch = (self.program.ops / EPOCH) as u32;
        if self.epoch_of[lane] != epoch + 1 {
            self.epoch_of[lane] = epoch + 1;
            if self.program.epochs.len() <= epoch as usize {
                self.program.epochs.push(0);
            }
            self.program.epochs[epoch as usize] += 1;
            self.program.lanes[lane].push(ProgramOp { size: epoch, ..ProgramOp::BEGIN })?;
        }
        self.program.ops += 1;
        self.program.lanes[lane].push(op)
    }

    fn fill(&mut self, id: Id, event: &TraceEvent, action: Action) -> io::Result<()> {
        let block = *self.book.block(id);
        if self.lives.len() <= id as usize {
            self.lives.resize(id as usize + 1, ReplayedBlock::default());
        }
        let Some(size) = u32::try_from(block.size).ok().filter(|size| *size < u32::MAX) else {
            self.program.huge += 1;
            self.lives[id as usize] = ReplayedBlock::default();
            return Ok(());
        };
        let size = size.max(1);
        let lane = self.lane(event.thread);
        let slot = self.free[lane].pop().unwrap_or_else(|| {
            self.generations.push(0);
            (self.generations.len() - 1) as u32
        });
        let align_log2 = align(block.align_log2, size);
        let at =
            self.push(lane, ProgramOp { action, align_log2, slot, size, old: 0, wait: 0, publish: false })?;
        self.lives[id as usize] =
            ReplayedBlock { slot, size, align_log2, lane: lane as u32, at, known: true };
        self.grow(size);
        Ok(())
    }

    fn grow(&mut self, size: u32) {
        self.live += u64::from(size);
        self.program.peak_live = self.program.peak_live.max(self.live);
    }

    /// Returns the generation that `lane` must wait for before it uses the block; 0 if the lane
    /// itself allocated or resized the block last. If another lane did, marks that operation as one
    /// that publishes.
    fn wait(&mut self, live: &ReplayedBlock, lane: usize) -> u32 {
        if live.lane as usize == lane {
            return 0;
        }
        let generation = &mut self.generations[live.slot as usize];
        *generation += 1;
        self.program.lanes[live.lane as usize].publish(live.at);
        *generation
    }

    fn empty(&mut self, id: Id, event: &TraceEvent) -> io::Result<()> {
        let live = core::mem::take(&mut self.lives[id as usize]);
        if !live.known {
            return Ok(());
        }
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        self.push(lane, live.free(wait))?;
        self.free[lane].push(live.slot);
        self.live -= u64::from(live.size);
        Ok(())
    }

    fn resize(&mut self, id: Id, event: &TraceEvent) -> io::Result<()> {
        let live = self.lives[id as usize];
        let size = u32::try_from(self.book.block(id).size).ok().filter(|size| *size < u32::MAX);
        let (Some(size), true) = (size, live.known) else {
            self.empty(id, event)?;
            return self.fill(id, event, Action::Alloc);
        };
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        let ReplayedBlock { slot, size: old, align_log2, .. } = live;
        let size = size.max(1);
        let op = ProgramOp { action: Action::Resize, align_log2, slot, size, old, wait, publish: false };
        let at = self.push(lane, op)?;
        self.lives[id as usize] = ReplayedBlock { size, lane: lane as u32, at, ..live };
        self.live -= u64::from(old);
        self.grow(size);
        Ok(())
    }

    fn finish(mut self) -> ReplayProgram {
        let left = self.lives.iter().filter(|live| live.known);
        self.program.left = left.map(|live| live.free(0)).collect();
        self.program.slots = self.generations.len();
        self.program.threads = self.lane_of.len();
        if let [lane] = &mut self.program.lanes[..] {
            lane.retain(|op| op.action != Action::Epoch);
        }
        self.program
    }
}
