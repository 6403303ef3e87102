//! The file: a head of one page, then chunks of one size, each written by one thread at a time.
//!
//! ```text
//! 0        4096            36864           69632
//! | head   | chunk         | chunk         | chunk ...      chunks in the order in which they were claimed
//!
//! head     magic "EPHTRACE" | version u32 | chunk size u32 | clock u64 | pid u32 | parent u32 | origin u32
//!          | stop reason u32 | stop sequence u64 | limit u64 | length of the command u32 | command, words ended by 0
//!          | at 4032: start's processor time u64 | end u64 | end's processor time u64 | cost of two clock readings u32
//!          | at 4088: dropped calls u64
//! chunk    magic "CHNK" | thread u32 | used u32 | stream u32 | sequence u64 | time u64 | events ... | zeros
//! event    op and alignment u8 | sequence + | time + | by op
//!            1 alloc    address ±, size          4 resize   address ±   before the call, the block goes
//!            2 zeroed   address ±, size          5 resized  address ±, size   after it, the block is here; size 0: refused
//!            3 free     address ±                6 thread   number alone: who writes from here on
//! note     op 7 and kind u8 | numbers by kind, no sequence number
//!            0 clocks   time +, processor time of the thread, of the process, and what the chunk before cost to replace
//!            1 took     nanoseconds that the allocator took for the event before, and that the recorder took to write it
//! ```
//!
//! Numbers of fixed width are little-endian. The others are *varints*: seven bits a byte, low ones
//! first, the top bit set on all but the last. `+` is the difference to the event before in this
//! chunk (to the chunk's head for the first), `±` the same with its sign in the lowest bit;
//! addresses are rotated right by four bits first, since most are multiples of 16. Times are in
//! ticks of 32 ns since the clock of the head. The op stands in the low three bits of its byte, the
//! alignment above, as the power of two that was asked for; 0 means what `malloc` gives.
//!
//! Processor times are in ticks too, those of a note since the thread or the process began. The
//! head has nanoseconds: the process's processor time when the recording started, then the end of
//! the run and its processor time, both since that start. The two of the end are 0 where the
//! program ended without `exit`. The cost of the clock is in picoseconds.
//!
//! Version 1 has no notes and no fields behind 4032. It is still read: such a trace has no
//! processor times.
//!
//! The *sequence* counts all events of the process: a block is freed before the number of the call
//! that gets its memory again, on whatever thread. `used` is written after each event, so the file
//! of a killed process is whole.
#![forbid(unsafe_code)]

/// What a trace begins with.
pub const MAGIC: [u8; 8] = *b"EPHTRACE";
/// The version that this crate writes.
pub const VERSION: u32 = 2;
/// The oldest version that this crate reads.
pub const OLDEST: u32 = 1;
/// Bytes of the head.
pub const HEAD: usize = 4096;
/// Bytes of a chunk.
pub const CHUNK: usize = 32 << 10;
/// What a chunk begins with.
pub const CHUNK_MAGIC: [u8; 4] = *b"CHNK";
/// Bytes of a chunk's head.
pub const CHUNK_HEAD: usize = 32;
/// No event is longer: a byte and four varints.
pub const LONGEST: usize = 41;
/// Most threads that a process may have had, one after another.
pub const MOST_THREADS: u64 = 1 << 22;
/// Nanoseconds in a tick, as a power of two.
pub const TICK_LOG2: u32 = 5;

/// Places of the head's fields.
pub mod head {
    /// Version.
    pub const VERSION: usize = 8;
    /// Chunk size.
    pub const CHUNK: usize = 12;
    /// Clock at the start, in nanoseconds of the monotonic clock.
    pub const CLOCK: usize = 16;
    /// Process.
    pub const PID: usize = 24;
    /// Its parent.
    pub const PARENT: usize = 28;
    /// How the recording began: an [`Origin`](super::Origin).
    pub const ORIGIN: usize = 32;
    /// Why it ended early: a [`Stop`](super::Stop), or 0.
    pub const STOP: usize = 36;
    /// Events from this sequence number on are incomplete, if it ended early.
    pub const STOP_SEQUENCE: usize = 40;
    /// Most bytes that the file may have.
    pub const LIMIT: usize = 48;
    /// Length of the command.
    pub const COMMAND_LENGTH: usize = 56;
    /// The command's words, each ended by a zero.
    pub const COMMAND: usize = 60;
    /// Processor time of the process when the recording started, in nanoseconds. The command ends
    /// before this field.
    pub const START_PROCESSOR: usize = 4032;
    /// Nanoseconds from the start to the exit of the program; 0 where it ended without `exit`.
    pub const END: usize = 4040;
    /// Processor time of the process from the start to that end, in nanoseconds.
    pub const END_PROCESSOR: usize = 4048;
    /// Picoseconds that two readings of the clock add to the interval between them.
    pub const CLOCK_COST: usize = 4056;
    /// Calls that were dropped.
    pub const DROPPED: usize = 4088;
}

/// Places of the fields of a chunk's head.
pub mod chunk {
    /// The thread of its first event.
    pub const THREAD: usize = 4;
    /// Bytes of events.
    pub const USED: usize = 8;
    /// The stream that the chunk belongs to: its chunks follow one another.
    pub const STREAM: usize = 12;
    /// What the first event's sequence number is counted from.
    pub const SEQUENCE: usize = 16;
    /// What its time is counted from.
    pub const TIME: usize = 24;
}

/// Operations.
pub mod op {
    /// A block.
    pub const ALLOC: u8 = 1;
    /// A zeroed block.
    pub const ZEROED: u8 = 2;
    /// A block goes.
    pub const FREE: u8 = 3;
    /// A block goes into `realloc`.
    pub const RESIZE: u8 = 4;
    /// It comes out of it.
    pub const RESIZED: u8 = 5;
    /// Another thread takes the stream over.
    pub const THREAD: u8 = 6;
    /// A measurement, of a kind in [`note`](super::note).
    pub const NOTE: u8 = 7;
}

/// Kinds of notes, which stand where an event has its alignment.
pub mod note {
    /// The thread's and the process's processor time, and the recorder's own.
    pub const CLOCKS: u8 = 0;
    /// The times in the allocator and in the recorder for the event before.
    pub const TOOK: u8 = 1;
}

/// Processor times at one moment of a thread, in nanoseconds. A trace keeps them in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Nanoseconds since the start.
    pub time: u64,
    /// Processor time of the thread since it began.
    pub thread: u64,
    /// Processor time of the process since it began.
    pub process: u64,
    /// Processor time that the thread has just spent in the recorder's slow path.
    pub recorder: u64,
}

/// Encodes a note of clocks behind an event at `base_time`, in ticks; returns the bytes and their
/// number.
#[must_use]
pub fn encode_clocks(base_time: u64, clocks: &Clocks) -> ([u8; LONGEST], usize) {
    let time = (clocks.time >> TICK_LOG2).saturating_sub(base_time);
    let [thread, process, recorder] =
        [clocks.thread, clocks.process, clocks.recorder].map(|ns| ns >> TICK_LOG2);
    encode_note(note::CLOCKS, &[time, thread, process, recorder])
}

/// Encodes a note of what the allocator and the recorder took, in nanoseconds; returns the bytes
/// and their number.
#[inline]
#[must_use]
pub fn encode_took(allocator: u64, recorder: u64) -> ([u8; LONGEST], usize) {
    encode_note(note::TOOK, &[allocator, recorder])
}

fn encode_note(kind: u8, numbers: &[u64]) -> ([u8; LONGEST], usize) {
    let mut out = [0; LONGEST];
    out[0] = lead(op::NOTE, kind);
    let mut at = 1;
    for number in numbers {
        at += put(&mut out[at..], *number);
    }
    (out, at)
}

/// How a recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// With the program.
    Program = 1,
    /// By a fork: blocks of the parent are unknown.
    Fork = 2,
    /// By a call of the program itself.
    Call = 3,
    /// With a program whose executable has a `malloc` of its own: the recorder sees only the calls
    /// that this one passes on.
    Bypassed = 4,
}

impl Origin {
    /// The origin that a head names.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        let all = [Self::Program, Self::Fork, Self::Call, Self::Bypassed];
        all.into_iter().find(|origin| *origin as u32 == word)
    }
}

/// Why a recording ended before its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// The file reached its limit.
    Limit = 1,
    /// The file could not grow: no space, most likely.
    Disk = 2,
    /// More threads at a time than there are streams, or more in all than [`MOST_THREADS`].
    Threads = 3,
    /// The program may not write larger files (`RLIMIT_FSIZE`).
    FileSize = 4,
    /// The file could not be opened again by its path.
    Path = 5,
    /// The program entered a sandbox.
    Sandbox = 6,
    /// The file could not be mapped: no address space, most likely (`RLIMIT_AS`).
    Memory = 7,
}

impl Stop {
    /// The reason that a head names.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        let all =
            [Self::Limit, Self::Disk, Self::Threads, Self::FileSize, Self::Path, Self::Sandbox, Self::Memory];
        all.into_iter().find(|stop| *stop as u32 == word)
    }
}

/// The first byte of an event.
#[inline]
#[must_use]
pub fn lead(op: u8, align_log2: u8) -> u8 {
    op | align_log2 << 3
}

/// Op and alignment of a first byte.
#[inline]
#[must_use]
pub fn unlead(byte: u8) -> (u8, u8) {
    (byte & 7, byte >> 3)
}

/// The distance from one address to another, as it is written.
#[inline]
#[must_use]
pub fn distance(from: u64, to: u64) -> u64 {
    let signed = to.rotate_right(4).wrapping_sub(from.rotate_right(4)).cast_signed();
    (signed << 1 ^ signed >> 63).cast_unsigned()
}

/// The address that a distance leads to.
#[inline]
#[must_use]
pub fn follow(from: u64, distance: u64) -> u64 {
    let signed = (distance >> 1) ^ (distance & 1).wrapping_neg();
    from.rotate_right(4).wrapping_add(signed).rotate_left(4)
}

/// Writes a varint into `out` and returns its length, at most 10.
#[inline]
pub fn put(out: &mut [u8], mut value: u64) -> usize {
    let mut length = 0;
    for byte in out.iter_mut() {
        length += 1;
        if value < 0x80 {
            *byte = value as u8;
            break;
        }
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    length
}

/// What is wrong with a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes end within it.
    Short,
    /// It does not fit 64 bits.
    Long,
}

/// Reads a varint from `bytes` at `*at`, which moves behind it.
///
/// # Errors
///
/// Where the bytes end, or where the number has more than 64 bits.
#[inline]
pub fn take(bytes: &[u8], at: &mut usize) -> Result<u64, Bad> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).ok_or(Bad::Short)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return Err(Bad::Long);
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Bad::Long)
}

/// One event as a stream writes it: what the next one is relative to goes along.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base {
    /// Sequence number of the event before.
    pub sequence: u64,
    /// Its time in ticks.
    pub time: u64,
    /// The address it spoke of.
    pub address: u64,
}

/// Writes an event behind `base`; the bytes and how many there are. `size` is `None` for ops
/// without one.
#[inline]
#[must_use]
pub fn encode(lead: u8, base: &Base, event: &Base, size: Option<u64>) -> ([u8; LONGEST], usize) {
    let mut out = [0; LONGEST];
    out[0] = lead;
    let mut at = 1;
    at += put(&mut out[at..], event.sequence.wrapping_sub(base.sequence));
    at += put(&mut out[at..], event.time.saturating_sub(base.time));
    at += put(&mut out[at..], distance(base.address, event.address));
    if let Some(size) = size {
        at += put(&mut out[at..], size);
    }
    (out, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64, shift in 0..64_u32) {
            let value = value >> shift;
            let mut out = [0; 10];
            let length = put(&mut out, value);
            let mut at = 0;
            prop_assert_eq!(take(&out[..length], &mut at), Ok(value));
            prop_assert_eq!(at, length);
            prop_assert_eq!(take(&out[..length - 1], &mut 0), Err(Bad::Short));
        }

        #[test]
        fn distances_lead_back(from: u64, to: u64) {
            prop_assert_eq!(follow(from, distance(from, to)), to);
            prop_assert_eq!(follow(from, distance(from, from)), from);
        }
    }

    #[test]
    fn neighbours_are_a_byte_apart() {
        assert_eq!(distance(0x5555_0000_1000, 0x5555_0000_1010), 2);
        assert_eq!(distance(0x5555_0000_1010, 0x5555_0000_1000), 1);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(take(&[0xff; 11], &mut 0), Err(Bad::Long));
        assert_eq!(take(&[0x80; 9], &mut 0), Err(Bad::Short));
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(take(&most, &mut 0), Ok(u64::MAX));
    }

    #[test]
    fn the_longest_event_fits() {
        let base = Base::default();
        let far = Base { sequence: u64::MAX, time: u64::MAX, address: 1 << 63 | 0xf };
        let (_, length) = encode(lead(op::ALLOC, 31), &base, &far, Some(u64::MAX));
        assert!(length <= LONGEST);
        assert_eq!(unlead(lead(op::THREAD, 31)), (op::THREAD, 31));
    }
}
