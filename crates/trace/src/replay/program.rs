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
//! The trace is read once. [`ReplayProgram::beside`] moves most operations to a file ([`Lane`]), so
//! the memory that its program takes grows with the live blocks and with the addresses that the
//! trace used. With the length of the trace, it grows only by about one bit for each operation.
#![forbid(unsafe_code)]

use core::error::Error;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::grown;

use super::digest::Digest;
use super::lane::Lane;
use super::op::{Action, ProgramOp};
use ephemera_recorder::{Book, BookStep, Id, Trace, TraceError, TraceEvent, What};

/// The number of operations in an epoch, over all lanes.
const EPOCH: u64 = 4096;
/// The maximum number of lanes. Further threads share these lanes. A lane plays the operations of
/// its threads in the recorded order.
const LANES: usize = 64;

/// A trace, ready to be replayed.
///
/// The operations are private because a [`Player`](super::Player) relies on two properties: lanes
/// fill every slot before they empty it, and every operation has the layout that its block has at
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
    /// The number of blocks of 4 GiB - 1 bytes or more, which are left out.
    pub huge: u64,
    /// The number of threads that have operations in the program.
    pub(super) threads: usize,
    /// The digest of the trace's operations.
    pub digest: Digest,
}

/// A live block while the program is built.
#[derive(Clone, Copy, Debug)]
struct ReplayedBlock {
    /// The operation that allocated or resized the block last.
    op: ProgramOp,
    /// The lane of that operation, and the operation's index in the lane.
    lane: u32,
    at: u64,
}

impl ReplayedBlock {
    /// Returns the operation that waits for the generation `wait` and then frees the block.
    fn free(&self, wait: u32) -> ProgramOp {
        ProgramOp { action: Action::Free, old: 0, wait, ..self.op }
    }
}

#[derive(Default)]
struct ProgramMaker {
    program: ReplayProgram,
    file: Option<Arc<File>>,
    book: Book,
    /// The blocks by their numbers; `None` for a freed block and for one that the replay leaves
    /// out.
    lives: Vec<Option<ReplayedBlock>>,
    /// The slots that each lane emptied.
    free: Vec<Vec<u32>>,
    generations: Vec<u32>,
    lane_of: HashMap<u32, u32>,
    /// The epoch of each lane's last operation.
    epoch_of: Vec<Option<u32>>,
    live: u64,
}

/// Returns the size of a block in a replay, at least 1, or `None` if replays leave the block out.
/// They leave out blocks of 4 GiB - 1 bytes or more.
fn size(asked: u64) -> Option<u32> {
    u32::try_from(asked.max(1)).ok().filter(|size| *size < u32::MAX)
}

/// Returns the base-2 logarithm of a block's alignment in a replay: `asked`, or the alignment of
/// `malloc` if `asked` is 0. For `malloc`, C requires the largest power of two up to `size`, at
/// most 16.
fn align(asked: u8, size: u32) -> u8 {
    if asked > 0 { asked } else { (size.max(1).ilog2() as u8).min(4) }
}

impl ReplayProgram {
    /// Creates a program from a short trace. All operations stay in memory, and each takes about 20
    /// bytes. Use [`beside`](Self::beside) for a trace of any length.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`].
    pub fn of(trace: &Trace) -> Result<Self, TraceError> {
        Self::made(trace, None, TraceError::Read)
    }

    /// Creates a program from a trace of any length. All operations except the last ones of each
    /// lane go to a file in `directory`. The file has no name, so the system deletes it when the
    /// program is dropped.
    ///
    /// # Errors
    ///
    /// Returns the first error of [`Trace::events`], or an error if the file cannot be created or
    /// written.
    pub fn beside(trace: &Trace, directory: &Path) -> Result<Self, Box<dyn Error>> {
        let failed = |error: io::Error| -> Box<dyn Error> {
            format!(
                "the operations of the replay cannot be written beside the trace: {error}. Twice the length of the trace must be \
                 free there: copy the trace to a writable place with enough space"
            )
            .into()
        };
        let file = tempfile::tempfile_in(directory).map_err(|error| {
            format!("no file can be created beside the trace: {error}. Copy the trace to a writable place with enough space")
        })?;
        Self::made(trace, Some(Arc::new(file)), failed)
    }

    /// Creates a program. `failed` converts the error of a write to the file.
    fn made<E: From<TraceError>>(
        trace: &Trace,
        file: Option<Arc<File>>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<Self, E> {
        let mut maker = ProgramMaker { file, ..ProgramMaker::default() };
        for event in trace.events() {
            maker.add(&event?).map_err(&failed)?;
        }
        Ok(maker.finish())
    }

    /// Returns the number of bytes of memory that the program takes.
    pub(super) fn resident(&self) -> u64 {
        let own: u64 = self.lanes.iter().map(Lane::resident).sum();
        let tables = self.left.capacity() * size_of::<ProgramOp>() + self.epochs.capacity() * 4;
        own + tables as u64
    }

    /// Returns the lanes. A trace of one thread has one lane.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Returns a free of each block that the program never frees.
    pub fn left(&self) -> &[ProgramOp] {
        &self.left
    }

    /// Returns the size in bytes of the file that holds the packed operations.
    pub(super) fn on_disk(&self) -> u64 {
        self.lanes.iter().map(Lane::on_disk).sum()
    }

    /// Returns whether the program has several lanes.
    pub fn is_threaded(&self) -> bool {
        self.lanes.len() > 1
    }
}

impl ProgramMaker {
    fn lane(&mut self, thread: u32) -> usize {
        let lanes = self.lane_of.len();
        let lane = *self.lane_of.entry(thread).or_insert((lanes % LANES) as u32) as usize;
        if self.program.lanes.len() <= lane {
            self.program.lanes.push(Lane::new(self.file.clone()));
            self.free.push(Vec::new());
            self.epoch_of.push(None);
        }
        lane
    }

    fn add(&mut self, event: &TraceEvent) -> io::Result<()> {
        self.program.digest.add(event);
        let zeroed = matches!(event.what, What::Alloc { zeroed: true, .. });
        let step = self.book.apply(event);
        if let Some(lost) = step.lost() {
            self.empty(lost, event)?;
        }
        match step {
            BookStep::Alloc { id, .. } | BookStep::Found { id, .. } => {
                self.fill(id, event, if zeroed { Action::Zeroed } else { Action::Alloc })
            }
            BookStep::Free { id } => self.empty(id, event),
            BookStep::Resize { id, .. } => self.resize(id, event),
            BookStep::Refused { .. } | BookStep::Unknown | BookStep::Twice | BookStep::Pending => Ok(()),
        }
    }

    /// Appends an operation to the lane, and returns the operation's index in the lane. Begins an
    /// epoch first if the lane is not in the current epoch.
    fn push(&mut self, lane: usize, op: ProgramOp) -> io::Result<u64> {
        let epoch = (self.program.ops / EPOCH) as u32;
        if self.epoch_of[lane].replace(epoch) != Some(epoch) {
            *grown(&mut self.program.epochs, epoch as usize) += 1;
            self.program.lanes[lane].push(ProgramOp { size: epoch, ..ProgramOp::BEGIN })?;
        }
        self.program.ops += 1;
        self.program.lanes[lane].push(op)
    }

    fn fill(&mut self, id: Id, event: &TraceEvent, action: Action) -> io::Result<()> {
        let block = *self.book.block(id);
        *grown(&mut self.lives, id as usize) = None;
        let Some(size) = size(block.size) else {
            self.program.huge += 1;
            return Ok(());
        };
        let lane = self.lane(event.thread);
        let slot = self.free[lane].pop().unwrap_or(self.generations.len() as u32);
        grown(&mut self.generations, slot as usize);
        let align_log2 = align(block.align_log2, size);
        self.hold(id, lane, ProgramOp { action, align_log2, slot, size, old: 0, wait: 0, publish: false })
    }

    /// Appends an operation that allocates or resizes block `id`.
    fn hold(&mut self, id: Id, lane: usize, op: ProgramOp) -> io::Result<()> {
        let at = self.push(lane, op)?;
        self.lives[id as usize] = Some(ReplayedBlock { op, lane: lane as u32, at });
        self.live = self.live - u64::from(op.old) + u64::from(op.size);
        self.program.peak_live = self.program.peak_live.max(self.live);
        Ok(())
    }

    /// Returns the generation that `lane` must wait for before it uses the block, or 0 if the lane
    /// itself allocated or resized the block last. If another lane did, marks that operation as one
    /// that publishes.
    fn wait(&mut self, live: &ReplayedBlock, lane: usize) -> u32 {
        if live.lane as usize == lane {
            return 0;
        }
        let generation = &mut self.generations[live.op.slot as usize];
        *generation += 1;
        self.program.lanes[live.lane as usize].publish(live.at);
        *generation
    }

    fn empty(&mut self, id: Id, event: &TraceEvent) -> io::Result<()> {
        let Some(live) = self.lives[id as usize].take() else { return Ok(()) };
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        self.push(lane, live.free(wait))?;
        self.free[lane].push(live.op.slot);
        self.live -= u64::from(live.op.size);
        Ok(())
    }

    fn resize(&mut self, id: Id, event: &TraceEvent) -> io::Result<()> {
        let (Some(size), Some(live)) = (size(self.book.block(id).size), self.lives[id as usize]) else {
            self.empty(id, event)?;
            return self.fill(id, event, Action::Alloc);
        };
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        self.hold(id, lane, ProgramOp { action: Action::Resize, size, old: live.op.size, wait, ..live.op })
    }

    fn finish(mut self) -> ReplayProgram {
        self.program.left = self.lives.iter().flatten().map(|live| live.free(0)).collect();
        self.program.slots = self.generations.len();
        self.program.threads = self.lane_of.len();
        if let [lane] = &mut self.program.lanes[..] {
            lane.tail.retain(|op| op.action != Action::Epoch);
        }
        self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(directory: &Path) -> Result<ReplayProgram, Box<dyn Error>> {
        let file = tempfile::NamedTempFile::new().expect("the directory for temporary files is writable");
        ephemera_recorder::Writer::new("a command").save(file.path()).expect("it is writable");
        ReplayProgram::beside(&Trace::open(file.path()).expect("a whole trace"), directory)
    }

    #[test]
    fn a_file_that_cannot_be_created_is_an_error() {
        let error = beside(Path::new("/no/such/directory")).expect_err("there is no such directory");
        assert!(error.to_string().contains("no file can be created beside the trace"), "{error}");
    }

    #[test]
    fn the_file_of_a_program_has_no_name() {
        let dir = tempfile::tempdir().expect("the directory for temporary files is writable");
        let program = beside(dir.path()).expect("the directory is writable");
        std::fs::remove_dir(dir.path()).expect("it is empty");
        drop(program);
    }
}
