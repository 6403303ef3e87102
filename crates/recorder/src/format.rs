//! The format of a trace file: a header of one 4 KiB page, then packets of one size. One thread
//! at a time writes to a packet.
//!
//! ```text
//! 0        4096            36864           69632
//! | header | packet        | packet        | packet ...   in the order in which they were claimed
//!
//! header   magic "EPHTRACE" | version u32 | packet size u32 | clock u64 | pid u32 | parent u32
//!          | origin u32 | stop reason u32 | stop sequence u64 | limit u64
//!          | length of the command u32 | command: words, each with a 0 at its end
//!          | at 4032: start's processor time u64 | end u64 | end's processor time u64
//!          | cost of two clock readings u32 | at 4088: dropped calls u64
//! packet   magic "CHNK" | thread u32 | used u32 | stream u32 | sequence u64 | time u64
//!          | events ... | zeros
//! event    op and alignment u8 | sequence + | time + | by op
//!            1 alloc    address ±, size
//!            2 zeroed   address ±, size
//!            3 free     address ±
//!            4 resize   address ±           before `realloc`
//!            5 resized  address ±, size     after `realloc`; size 0 if it refused
//!            6 thread   number              of the following events' thread; no sequence, no time
//! note     op 7 and kind u8 | numbers by kind, no sequence number
//!            0 clocks   time +, processor time of the thread, of the process, and of the
//!                       recorder for getting this packet, or 0
//!            1 took     nanoseconds of the allocator and of the recorder for the previous event
//! ```
//!
//! Numbers of fixed width are little-endian. The others are *varints*: seven bits a byte, the low
//! ones first, with the top bit set in all bytes but the last. `+` is the difference from the
//! previous event in this packet, or from the packet's header for the first event. `±` is a signed
//! difference with its sign in the lowest bit. Addresses are rotated right by four bits first,
//! because most are multiples of 16. Times are in ticks of 32 ns, counted from the clock reading in
//! the file header. Readers refuse sizes of 2^56 bytes and more. The low three bits of an event's
//! first byte are the op. The upper five bits are the base-2 logarithm of the requested alignment;
//! 0 means the alignment of `malloc`.
//!
//! The processor times of a note are in ticks since the thread or the process began. The file
//! header has nanoseconds: the process's processor time when the recording started, then the end
//! of the run and its processor time, both counted from that start. The last two are 0 unless the
//! program called `exit` during the recording. The cost of two clock readings is in picoseconds.
//!
//! Version 1, which this crate still reads, does not have notes. Its header lacks the fields from
//! offset 4032 on, except the number of dropped calls, so its traces do not contain processor
//! times.
//!
//! The *sequence numbers* count all events of the process. The free of a block has a lower number
//! than the allocation that reuses its memory, on any thread. The recorder updates `used`, the size
//! of a packet's events in bytes, after each event, so the file of a killed process is valid.
#![forbid(unsafe_code)]

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"EPHTRACE";
/// The version that this crate writes.
pub const VERSION: u32 = 2;
/// The oldest version that this crate reads.
pub const OLDEST: u32 = 1;
/// The size of the file header, in bytes.
pub const FILE_HEADER: usize = 4096;
/// The size of a packet, in bytes.
pub const PACKET: usize = 32 << 10;
/// The first bytes of a packet.
pub const PACKET_MAGIC: [u8; 4] = *b"CHNK";
/// The size of a packet's header, in bytes.
pub const PACKET_HEADER: usize = 32;
/// The size of the longest event in bytes: the first byte and four varints of ten bytes.
pub const LONGEST: usize = 41;
/// The maximum number of threads in the whole run of a process.
pub const MOST_THREADS: u64 = 1 << 22;
/// The base-2 logarithm of the nanoseconds in a tick.
pub const TICK_LOG2: u32 = 5;

/// Offsets of the fields of the file header.
pub mod header {
    /// The version of the format.
    pub const VERSION: usize = 8;
    /// The size of a packet, in bytes.
    pub const PACKET: usize = 12;
    /// The monotonic clock at the start of the recording, in nanoseconds.
    pub const CLOCK: usize = 16;
    /// The ID of the process.
    pub const PID: usize = 24;
    /// The ID of the parent process.
    pub const PARENT: usize = 28;
    /// The [`Origin`](super::Origin) of the recording.
    pub const ORIGIN: usize = 32;
    /// The reason why the recording ended early: a [`Stop`](super::Stop), or 0.
    pub const STOP: usize = 36;
    /// The sequence number from which on events may be missing, if the recording ended early.
    pub const STOP_SEQUENCE: usize = 40;
    /// The limit of the file, in bytes.
    pub const LIMIT: usize = 48;
    /// The length of the command, in bytes.
    pub const COMMAND_LENGTH: usize = 56;
    /// The command's words, each followed by a NUL.
    pub const COMMAND: usize = 60;
    /// Processor time of the process when the recording started, in nanoseconds. The command ends
    /// before this field.
    pub const START_PROCESSOR: usize = 4032;
    /// Nanoseconds from the start of the recording to the exit of the program; 0 unless the program
    /// called `exit` during the recording.
    pub const END: usize = 4040;
    /// Processor time of the process from the start of the recording to the exit, in nanoseconds.
    pub const END_PROCESSOR: usize = 4048;
    /// Picoseconds that two readings of the clock add to the interval between them.
    pub const CLOCK_COST: usize = 4056;
    /// The number of dropped calls.
    pub const DROPPED: usize = 4088;
}

/// Offsets of the fields of a packet's header.
pub mod packet {
    /// The number of the thread of the first event.
    pub const THREAD: usize = 4;
    /// The size of the events in bytes.
    pub const USED: usize = 8;
    /// The number of the stream. The packets of one stream are in the order of their events.
    pub const STREAM: usize = 12;
    /// The base sequence number; the first event's difference is relative to it.
    pub const SEQUENCE: usize = 16;
    /// The base time, in ticks; the first event's difference is relative to it.
    pub const TIME: usize = 24;
}

/// The operations of events.
pub mod op {
    /// A block was allocated.
    pub const ALLOC: u8 = 1;
    /// A zeroed block was allocated.
    pub const ZEROED: u8 = 2;
    /// A block is about to be freed.
    pub const FREE: u8 = 3;
    /// A block is about to enter `realloc`.
    pub const RESIZE: u8 = 4;
    /// `realloc` returned. The size is 0 if `realloc` refused.
    pub const RESIZED: u8 = 5;
    /// Another thread takes over the stream.
    pub const THREAD: u8 = 6;
    /// A note; [`note`](super::note) lists the kinds of notes.
    pub const NOTE: u8 = 7;
}

/// The kinds of notes. A note's first byte has the kind in place of an alignment.
pub mod note {
    /// The processor times of the thread and of the process, and the recorder's own.
    pub const CLOCKS: u8 = 0;
    /// The times of the previous event in the allocator and in the recorder.
    pub const TOOK: u8 = 1;
}

/// The processor times of a thread and its process at one moment, in nanoseconds. A trace stores
/// ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Nanoseconds since the start of the recording.
    pub time: u64,
    /// Processor time of the thread since it began.
    pub thread: u64,
    /// Processor time of the process since it began.
    pub process: u64,
    /// Processor time that the thread spent on getting this packet, or 0 if the packet is not new.
    pub recorder: u64,
}

/// Encodes a note of clocks that follows an event at `base_time`, in ticks. Returns a buffer and
/// the number of bytes used.
#[must_use]
pub fn encode_clocks(base_time: u64, clocks: &Clocks) -> ([u8; LONGEST], usize) {
    let time = (clocks.time >> TICK_LOG2).saturating_sub(base_time);
    let [thread, process, recorder] =
        [clocks.thread, clocks.process, clocks.recorder].map(|ns| ns >> TICK_LOG2);
    encode_note(note::CLOCKS, &[time, thread, process, recorder])
}

/// Encodes a note of the allocator's and the recorder's time, in nanoseconds. Returns a buffer and
/// the number of bytes used.
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
    /// The recording began with the program.
    Program = 1,
    /// The recording began with a fork. Blocks of the parent are unknown.
    Fork = 2,
    /// The program called [`start`](crate::start).
    Call = 3,
    /// The recording began with a program whose executable has its own `malloc`. The recorder sees
    /// only the calls that this `malloc` passes on.
    Bypassed = 4,
}

impl Origin {
    /// Returns the origin that a word of the header encodes, or `None` if there is no such origin.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        let all = [Self::Program, Self::Fork, Self::Call, Self::Bypassed];
        all.into_iter().find(|origin| *origin as u32 == word)
    }
}

/// The reason why a recording ended before its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// The file reached its limit.
    Limit = 1,
    /// The file could not grow, most likely because the disk is full.
    Disk = 2,
    /// The process had more threads at one time than there are streams, or more than
    /// [`MOST_THREADS`] in all.
    Threads = 3,
    /// The program may not write larger files (`RLIMIT_FSIZE`).
    FileSize = 4,
    /// The path no longer led to the file.
    Path = 5,
    /// The program entered a sandbox.
    Sandbox = 6,
    /// The file could not be mapped, most likely for lack of address space (`RLIMIT_AS`).
    Memory = 7,
}

impl Stop {
    /// Returns the reason that a word of the header encodes, or `None` if there is no such reason.
    #[must_use]
    pub fn from_word(word: u32) -> Option<Self> {
        let all =
            [Self::Limit, Self::Disk, Self::Threads, Self::FileSize, Self::Path, Self::Sandbox, Self::Memory];
        all.into_iter().find(|stop| *stop as u32 == word)
    }
}

/// Returns the first byte of an event. For a note, `align_log2` is the kind.
#[inline]
#[must_use]
pub fn lead(op: u8, align_log2: u8) -> u8 {
    op | align_log2 << 3
}

/// Returns the op and the base-2 logarithm of the alignment that an event's first byte encodes.
#[inline]
#[must_use]
pub fn unlead(byte: u8) -> (u8, u8) {
    (byte & 7, byte >> 3)
}

/// Returns the difference from one address to another, in the form that a trace stores.
#[inline]
#[must_use]
pub fn distance(from: u64, to: u64) -> u64 {
    let signed = to.rotate_right(4).wrapping_sub(from.rotate_right(4)).cast_signed();
    (signed << 1 ^ signed >> 63).cast_unsigned()
}

/// Returns the address at this difference from the address `from`: the inverse of
/// [`distance`](fn@distance).
#[inline]
#[must_use]
pub fn follow(from: u64, distance: u64) -> u64 {
    let signed = (distance >> 1) ^ (distance & 1).wrapping_neg();
    from.rotate_right(4).wrapping_add(signed).rotate_left(4)
}

/// Writes a varint to the start of `out`, which must have room for it. Returns the number of bytes.
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

/// The reason why a varint is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes end within the varint.
    Short,
    /// The varint has more than 64 bits.
    Long,
}

/// Reads a varint from `bytes` at `*at`, and moves `*at` past it.
///
/// # Errors
///
/// Returns [`Bad`] if the bytes end, or if the number has more than 64 bits.
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

/// The numbers of an event that the next event stores as differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base {
    /// The sequence number.
    pub sequence: u64,
    /// The time in ticks.
    pub time: u64,
    /// The address.
    pub address: u64,
}

/// Encodes an event after `base`. `size` is `None` for ops without a size. Returns a buffer and the
/// number of bytes used.
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
        fn varints_round_trip(value: u64, shift in 0..64_u32) {
            let value = value >> shift;
            let mut out = [0; 10];
            let length = put(&mut out, value);
            let mut at = 0;
            prop_assert_eq!(take(&out[..length], &mut at), Ok(value));
            prop_assert_eq!(at, length);
            prop_assert_eq!(take(&out[..length - 1], &mut 0), Err(Bad::Short));
        }

        #[test]
        fn differences_round_trip(from: u64, to: u64) {
            prop_assert_eq!(follow(from, distance(from, to)), to);
            prop_assert_eq!(follow(from, distance(from, from)), from);
        }
    }

    #[test]
    fn neighbouring_addresses_need_one_byte() {
        assert_eq!(distance(0x5555_0000_1000, 0x5555_0000_1010), 2);
        assert_eq!(distance(0x5555_0000_1010, 0x5555_0000_1000), 1);
    }

    #[test]
    fn truncated_and_long_varints_are_errors() {
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
