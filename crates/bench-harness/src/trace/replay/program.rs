//! A trace as a program: what each thread does, in slots instead of addresses.
//!
//! ```text
//! events   thread 1: alloc 0x10, 64   thread 2: free 0x10   thread 1: alloc 0x10, 32
//! program  lane 1:   s0 = alloc 64, publish 1; s1 = alloc 32      lane 2: wait until s0 is 1, free s0
//! ```
//!
//! A slot is used again by the lane that emptied it. Who uses a block that another lane filled waits until that one has said
//! so: the filling operation carries the slot's next generation, the waiting one the generation it needs. Since a block has one
//! user after another, no generation is missed.
//!
//! With more than one lane, operations are cut into *epochs* of equal length in the recorded order, and a lane begins an epoch
//! when all lanes are through the last but one. So threads that ran one after another do so again, and what was alive at a time
//! is so again, within two epochs.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::trace::{Book, Error, Event, Id, Step, Trace, What};

/// Operations of an epoch.
const EPOCH: u64 = 4096;
/// Lanes at most: beyond that, threads share one, in the recorded order.
const LANES: usize = 64;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fills a slot.
    Alloc,
    /// Fills a slot with zeroed memory.
    Zeroed,
    /// Empties it.
    Free,
    /// Changes the size of what it holds.
    Resize,
    /// Begins an epoch, whose number is in `size`.
    Epoch,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What it does.
    pub kind: Kind,
    /// The alignment as a power of two.
    pub align_log2: u8,
    /// The slot.
    pub slot: u32,
    /// The size; of a free, that of the block.
    pub size: u32,
    /// The size before, of a resize.
    pub old: u32,
    /// The generation to wait for; 0 none.
    pub wait: u32,
    /// The generation to publish; 0 none.
    pub publish: u32,
}

/// A block that nobody freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its slot.
    pub slot: u32,
    /// Its size.
    pub size: u32,
    /// Its alignment as a power of two.
    pub align_log2: u8,
}

/// A trace, ready to be replayed.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// What each lane does.
    pub lanes: Vec<Vec<Op>>,
    /// Slots in all.
    pub slots: usize,
    /// Lanes that take part in each epoch.
    pub epochs: Vec<u32>,
    /// What is left at the end.
    pub left: Vec<Left>,
    /// Operations that ask the allocator for something.
    pub ops: u64,
    /// Most bytes alive at a time, of those that are replayed.
    pub peak_live: u64,
    /// Blocks of 4 GiB and more, which are left out.
    pub huge: u64,
    /// Threads of the trace.
    pub threads: usize,
}

/// A block while the program is made.
#[derive(Clone, Copy, Debug, Default)]
struct Live {
    slot: u32,
    size: u32,
    align_log2: u8,
    /// Where it was filled: lane and operation.
    lane: u32,
    at: u32,
    /// Whether it is replayed.
    known: bool,
}

#[derive(Default)]
struct Maker {
    program: Program,
    book: Book,
    lives: Vec<Live>,
    /// Slots that each lane emptied.
    free: Vec<Vec<u32>>,
    generations: Vec<u32>,
    lane_of: HashMap<u32, u32>,
    /// The epoch of each lane's last operation, plus one.
    epoch_of: Vec<u32>,
    live: u64,
}

/// The alignment that a block is replayed with: what was asked for, or what `malloc` must give for that size.
fn align(asked: u8, size: u32) -> u8 {
    if asked > 0 { asked } else { (size.max(1).ilog2() as u8).min(4) }
}

impl Program {
    /// Makes a program of a trace.
    ///
    /// # Errors
    ///
    /// As [`Trace::events`].
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        let mut maker = Maker::default();
        for event in trace.events() {
            maker.add(&event?);
        }
        Ok(maker.finish())
    }

    /// Whether several threads take part.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.lanes.len() > 1
    }
}

impl Maker {
    fn lane(&mut self, thread: u32) -> usize {
        let lanes = self.lane_of.len();
        let lane = *self.lane_of.entry(thread).or_insert((lanes % LANES) as u32) as usize;
        if self.program.lanes.len() <= lane {
            self.program.lanes.push(Vec::new());
            self.free.push(Vec::new());
            self.epoch_of.push(0);
        }
        lane
    }

    fn add(&mut self, event: &Event) {
        let zeroed = matches!(event.what, What::Alloc { zeroed: true, .. });
        match self.book.apply(event) {
            Step::Alloc { id, lost } | Step::Found { id, lost } => {
                self.lose(lost, event);
                self.fill(id, event, if zeroed { Kind::Zeroed } else { Kind::Alloc });
            }
            Step::Free { id } => self.empty(id, event),
            Step::Resize { id, lost, .. } => {
                self.lose(lost, event);
                self.resize(id, event);
            }
            Step::Refused { lost, .. } => self.lose(lost, event),
            Step::Unknown | Step::Twice | Step::Pending => {}
        }
    }

    fn lose(&mut self, lost: Option<Id>, event: &Event) {
        if let Some(id) = lost {
            self.empty(id, event);
        }
    }

    /// Appends an operation to the lane; its place.
    fn push(&mut self, lane: usize, op: Op) -> u32 {
        let epoch = (self.program.ops / EPOCH) as u32;
        if self.epoch_of[lane] != epoch + 1 {
            self.epoch_of[lane] = epoch + 1;
            if self.program.epochs.len() <= epoch as usize {
                self.program.epochs.push(0);
            }
            self.program.epochs[epoch as usize] += 1;
            let begin =
                Op { kind: Kind::Epoch, align_log2: 0, slot: 0, size: epoch, old: 0, wait: 0, publish: 0 };
            self.program.lanes[lane].push(begin);
        }
        self.program.ops += 1;
        self.program.lanes[lane].push(op);
        (self.program.lanes[lane].len() - 1) as u32
    }

    fn fill(&mut self, id: Id, event: &Event, kind: Kind) {
        let block = *self.book.block(id);
        if self.lives.len() <= id as usize {
            self.lives.resize(id as usize + 1, Live::default());
        }
        let Some(size) = u32::try_from(block.size).ok().filter(|size| *size < u32::MAX) else {
            self.program.huge += 1;
            self.lives[id as usize] = Live::default();
            return;
        };
        let size = size.max(1);
        let lane = self.lane(event.thread);
        let slot = self.free[lane].pop().unwrap_or_else(|| {
            self.generations.push(0);
            (self.generations.len() - 1) as u32
        });
        let align_log2 = align(block.align_log2, size);
        let at = self.push(lane, Op { kind, align_log2, slot, size, old: 0, wait: 0, publish: 0 });
        self.lives[id as usize] = Live { slot, size, align_log2, lane: lane as u32, at, known: true };
        self.grow(size);
    }

    fn grow(&mut self, size: u32) {
        self.live += u64::from(size);
        self.program.peak_live = self.program.peak_live.max(self.live);
    }

    /// The generation that `lane` must wait for before it touches the block.
    fn wait(&mut self, live: &Live, lane: usize) -> u32 {
        if live.lane as usize == lane {
            return 0;
        }
        let generation = &mut self.generations[live.slot as usize];
        *generation += 1;
        self.program.lanes[live.lane as usize][live.at as usize].publish = *generation;
        *generation
    }

    fn empty(&mut self, id: Id, event: &Event) {
        let live = core::mem::take(&mut self.lives[id as usize]);
        if !live.known {
            return;
        }
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        let Live { slot, size, align_log2, .. } = live;
        self.push(lane, Op { kind: Kind::Free, align_log2, slot, size, old: 0, wait, publish: 0 });
        self.free[lane].push(slot);
        self.live -= u64::from(size);
    }

    fn resize(&mut self, id: Id, event: &Event) {
        let live = self.lives[id as usize];
        let size = u32::try_from(self.book.block(id).size).ok().filter(|size| *size < u32::MAX);
        let (Some(size), true) = (size, live.known) else {
            self.empty(id, event);
            self.fill(id, event, Kind::Alloc);
            return;
        };
        let lane = self.lane(event.thread);
        let wait = self.wait(&live, lane);
        let Live { slot, size: old, align_log2, .. } = live;
        let size = size.max(1);
        let at = self.push(lane, Op { kind: Kind::Resize, align_log2, slot, size, old, wait, publish: 0 });
        self.lives[id as usize] = Live { size, lane: lane as u32, at, ..live };
        self.live -= u64::from(old);
        self.grow(size);
    }

    fn finish(mut self) -> Program {
        let left = self.lives.iter().filter(|live| live.known);
        self.program.left =
            left.map(|live| Left { slot: live.slot, size: live.size, align_log2: live.align_log2 }).collect();
        self.program.slots = self.generations.len();
        self.program.threads = self.lane_of.len();
        if self.program.lanes.len() == 1 {
            self.program.lanes[0].retain(|op| op.kind != Kind::Epoch);
        }
        self.program
    }
}
