//! Stores the operations of one lane, which replays one or more recorded threads. The last
//! operations are in memory. The earlier ones are packed in a file, which all lanes share.
//!
//! ```text
//! segment 0      segment 1      ...    tail, at most 32,768 operations
//! | 4096 ops |   | 4096 ops |          | op | op | ...
//!   in the file, packed                  in memory, as they are
//! ```
//!
//! A long trace has hundreds of millions of operations. Only the tail of each lane and the segment
//! that the lane plays are unpacked in memory. [`pack`] does the encoding. A lane without a file
//! keeps all its operations in memory.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::grown;

use super::op::ProgramOp;
use super::pack::{LONGEST, pack, unpack};

/// The number of operations in a segment.
pub(super) const SEGMENT: usize = 4096;
/// The maximum number of operations in memory at the end of a lane that has a file.
const TAIL: usize = 8 * SEGMENT;

/// The offset and the length of a segment in the file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneSegment {
    offset: u64,
    length: u32,
}

/// The operations of one lane.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// The file of the packed operations. One thread builds all lanes and reads use offsets, so the
    /// shared cursor stays at the end of the file.
    file: Option<Arc<File>>,
    pub(super) segments: Vec<LaneSegment>,
    /// One bit for each packed operation, which is 1 if the operation publishes. Missing words at
    /// the end count as 0.
    published: Vec<u64>,
    /// The operations in memory, which follow the packed ones.
    pub(super) tail: Vec<ProgramOp>,
}

impl Lane {
    /// Creates a lane without operations. Without a file, all its operations stay in memory.
    pub(super) fn new(file: Option<Arc<File>>) -> Self {
        Self { file, ..Self::default() }
    }

    fn packed(&self) -> u64 {
        (self.segments.len() * SEGMENT) as u64
    }

    /// Appends an operation and returns its index in the lane. If the tail is full, first packs the
    /// tail into the file, and returns an error if the file cannot be written.
    pub(super) fn push(&mut self, op: ProgramOp) -> io::Result<u64> {
        let is_full = self.tail.len() == TAIL && !weakened!("replay_in_memory");
        if let Some(mut file) = self.file.as_deref().filter(|_| is_full) {
            let mut bytes = Vec::with_capacity(SEGMENT * LONGEST);
            for ops in self.tail.chunks(SEGMENT) {
                let first = self.packed();
                for (at, _) in (first..).zip(ops).filter(|(_, op)| op.publish) {
                    set(&mut self.published, at);
                }
                pack(ops, &mut bytes);
                let offset = file.stream_position()?;
                file.write_all(&bytes)?;
                self.segments.push(LaneSegment { offset, length: bytes.len() as u32 });
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

    /// Returns all operations, or `None` if some of them are packed.
    pub fn whole(&self) -> Option<&[ProgramOp]> {
        self.segments.is_empty().then_some(&*self.tail)
    }

    /// Reads a segment into a buffer.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be read.
    pub(super) fn load(&self, index: usize, into: &mut SegmentBuffer) {
        let LaneSegment { offset, length } = self.segments[index];
        into.bytes.resize(length as usize, 0);
        let file = self.file.as_ref().expect("the segments are in it");
        if let Err(error) = file.read_exact_at(&mut into.bytes, offset) {
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

    /// Returns the number of bytes that the lane takes in the file.
    pub(super) fn on_disk(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.length)).sum()
    }

    /// Returns the number of bytes of memory that the lane takes.
    pub(super) fn resident(&self) -> u64 {
        let tail = self.tail.capacity() * size_of::<ProgramOp>();
        let segments = self.segments.capacity() * size_of::<LaneSegment>();
        (tail + segments + self.published.capacity() * 8) as u64
    }

    /// Returns all operations in order. The iterator reads one segment at a time, and panics if the
    /// file cannot be read.
    pub fn ops(&self) -> impl Iterator<Item = ProgramOp> {
        let segment = |index| {
            let mut buffer = SegmentBuffer::default();
            self.load(index, &mut buffer);
            buffer.ops
        };
        (0..self.segments.len()).flat_map(segment).chain(self.tail.iter().copied())
    }
}

/// A buffer for one segment: its packed bytes and its operations.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentBuffer {
    bytes: Vec<u8>,
    /// The operations of the last loaded segment.
    pub(super) ops: Vec<ProgramOp>,
}

impl SegmentBuffer {
    /// The size in bytes of a buffer that fits any segment.
    pub(super) const BYTES: u64 = (SEGMENT * (LONGEST + size_of::<ProgramOp>())) as u64;

    /// Returns a buffer whose pages are all resident, so none of them becomes resident while the
    /// lane plays.
    pub(super) fn resident() -> Self {
        let mut buffer = Self { bytes: vec![1; SEGMENT * LONGEST], ops: vec![ProgramOp::BEGIN; SEGMENT] };
        buffer.ops.fill(ProgramOp { size: 1, ..ProgramOp::BEGIN });
        core::hint::black_box(buffer)
    }
}

fn set(bits: &mut Vec<u64>, at: u64) {
    *grown(bits, (at / 64) as usize) |= 1 << (at % 64);
}
