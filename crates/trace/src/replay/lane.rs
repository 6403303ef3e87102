//! Stores the operations of one lane, which replays one or more recorded threads. The last
//! operations are in memory. The earlier ones are packed on the [`Tape`], which all lanes share.
//!
//! ```text
//! segment 0      segment 1      ...    tail, at most 32,768 operations
//! | 4096 ops |   | 4096 ops |          | op | op | ...
//!   on the tape, packed                  in memory, as they are
//! ```
//!
//! A long trace has hundreds of millions of operations. Only the tail of each lane and the segment
//! that the lane plays are unpacked in memory. [`pack`] does the encoding.
#![forbid(unsafe_code)]

use std::io;
use std::sync::Arc;

use super::op::ProgramOp;
use super::pack::{LONGEST, pack, unpack};
use super::tape::Tape;

/// The number of operations in a segment.
pub(super) const SEGMENT: usize = 4096;
/// The maximum number of operations in memory at the end of a lane.
const TAIL: usize = if cfg!(ephemera_weaken = "replay_in_memory") { 1 << 20 } else { 8 } * SEGMENT;

/// The offset and the length of a segment on the tape, in bytes.
#[derive(Clone, Copy, Debug)]
struct TapeSegment {
    offset: u64,
    length: u32,
}

/// The operations of one lane.
#[derive(Clone, Debug)]
pub struct Lane {
    tape: Arc<Tape>,
    segments: Vec<TapeSegment>,
    /// One bit for each packed operation, which is 1 if the operation publishes. Missing words at
    /// the end count as 0.
    published: Vec<u64>,
    tail: Vec<ProgramOp>,
}

impl Lane {
    /// Creates a lane without operations.
    pub(super) fn new(tape: &Arc<Tape>) -> Self {
        Self { tape: Arc::clone(tape), segments: Vec::new(), published: Vec::new(), tail: Vec::new() }
    }

    fn packed(&self) -> u64 {
        (self.segments.len() * SEGMENT) as u64
    }

    /// Appends an operation and returns its index in the lane.
    pub(super) fn push(&mut self, op: ProgramOp) -> io::Result<u64> {
        if self.tail.len() == TAIL {
            let mut bytes = Vec::with_capacity(SEGMENT * LONGEST);
            for ops in self.tail.chunks(SEGMENT) {
                let first = (self.segments.len() * SEGMENT) as u64;
                for (at, _) in (first..).zip(ops).filter(|(_, op)| op.publish) {
                    set(&mut self.published, at);
                }
                pack(ops, &mut bytes);
                let offset = self.tape.append(&bytes)?;
                self.segments.push(TapeSegment { offset, length: bytes.len() as u32 });
            }
            self.tail.clear();
        }
        self.tail.push(op);
        Ok(self.packed() + self.tail.len() as u64 - 1)
    }

    /// Marks an operation as one that another lane waits for.
    pub(super) fn publish(&mut self, at: u64) {
        match at.checked_sub(self.packed()) {
            Some(at) => self.tail[at as usize].publish = true,
            None => set(&mut self.published, at),
        }
    }

    /// Removes the operations of the tail for which `keep` returns `false`.
    pub(super) fn retain(&mut self, keep: impl FnMut(&ProgramOp) -> bool) {
        self.tail.retain(keep);
    }

    /// Returns all operations; `None` if some of them are packed.
    #[must_use]
    pub fn whole(&self) -> Option<&[ProgramOp]> {
        self.segments.is_empty().then_some(&*self.tail)
    }

    /// Returns the operations in memory, which follow the packed ones.
    pub(super) fn tail(&self) -> &[ProgramOp] {
        &self.tail
    }

    /// Returns the number of segments before the tail.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Reads a segment into a buffer.
    ///
    /// # Panics
    ///
    /// Panics if the file of the tape cannot be read.
    pub(super) fn load(&self, index: usize, into: &mut SegmentBuffer) {
        let TapeSegment { offset, length } = self.segments[index];
        into.bytes.resize(length as usize, 0);
        if let Err(error) = self.tape.read(&mut into.bytes, offset) {
            panic!("the operations of the replay cannot be read from its file: {error}");
        }
        unpack(&into.bytes, &mut into.ops);
        let first = index * SEGMENT / 64;
        for (word, ops) in self.published.iter().skip(first).zip(into.ops.chunks_mut(64)) {
            let mut bits = *word;
            while bits > 0 {
                ops[bits.trailing_zeros() as usize].publish = true;
                bits &= bits - 1;
            }
        }
    }

    /// Returns the bytes of memory that the lane takes, without the tape.
    pub(super) fn resident(&self) -> u64 {
        let tail = self.tail.capacity() * size_of::<ProgramOp>();
        let segments = self.segments.capacity() * size_of::<TapeSegment>();
        (tail + segments + self.published.capacity() * 8) as u64
    }

    /// Returns all operations in order. The iterator reads one segment at a time.
    pub fn ops(&self) -> impl Iterator<Item = ProgramOp> {
        let segment = |index| {
            let mut buffer = SegmentBuffer::default();
            self.load(index, &mut buffer);
            buffer.ops
        };
        (0..self.segments.len()).flat_map(segment).chain(self.tail.iter().copied())
    }

    /// Returns the tape, which all lanes of a program share.
    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }
}

/// A buffer for one segment: its packed bytes and its operations.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentBuffer {
    bytes: Vec<u8>,
    ops: Vec<ProgramOp>,
}

impl SegmentBuffer {
    /// The size in bytes of a buffer that fits any segment.
    pub(super) const BYTES: u64 = (SEGMENT * (LONGEST + size_of::<ProgramOp>())) as u64;

    /// Returns a buffer whose pages are all resident, so no page becomes resident while the lane
    /// plays.
    pub(super) fn resident() -> Self {
        let mut buffer = Self { bytes: vec![1; SEGMENT * LONGEST], ops: vec![ProgramOp::BEGIN; SEGMENT] };
        buffer.ops.fill(ProgramOp { size: 1, ..ProgramOp::BEGIN });
        core::hint::black_box(buffer)
    }

    /// Returns the operations of the last loaded segment.
    pub(super) fn ops(&self) -> &[ProgramOp] {
        &self.ops
    }
}

fn set(bits: &mut Vec<u64>, at: u64) {
    let word = (at / 64) as usize;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (at % 64);
}

#[cfg(test)]
mod tests {
    use super::super::pack::tests::op;
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn a_lane_returns_its_operations_from_memory_and_from_a_file() {
        let dir = std::env::temp_dir();
        for directory in [None, Some(dir.as_path())] {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
            let tape = Arc::new(Tape::new(directory));
            let (mut lane, mut beside) = (Lane::new(&tape), Lane::new(&tape));
            let mut all: Vec<ProgramOp> = Vec::new();
            for count in 0..100_000 {
                let next = op(&mut rng);
                all.push(next);
                assert_eq!(lane.push(next).expect("there is room"), count);
                beside.push(op(&mut rng)).expect("there is room");
                // Some operations that were pushed long ago become published.
                let at = rng.random_range(0..all.len() as u64);
                if at.is_multiple_of(5) {
                    all[at as usize].publish = true;
                    lane.publish(at);
                }
            }
            assert!(lane.whole().is_none());
            assert_eq!(lane.segments(), 24);
            assert!(lane.ops().eq(all), "{directory:?}");
            let (memory, disk) = (tape.in_memory(), tape.on_disk());
            assert_eq!((memory > 0, disk > 0), (directory.is_none(), directory.is_some()));
            assert!(memory + disk > 400_000, "{memory} {disk}");
            assert!(lane.resident() < 2 << 20, "{}", lane.resident());
        }
    }
}
