//! Reads a trace: first the headers of the packets, then the events of all streams, merged by their
//! sequence numbers.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::TraceError;
use crate::format::{
    self, FILE_HEADER, MAGIC, OLDEST, Origin, PACKET, PACKET_HEADER, PACKET_MAGIC, Stop, VERSION, header,
    packet,
};
use crate::shown::shown;

pub use self::events::Events;

mod cursor;
mod events;

/// An operation on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block was allocated.
    Alloc {
        /// The address of the block.
        address: u64,
        /// The requested size in bytes.
        size: u64,
        /// The base-2 logarithm of the requested alignment, or 0 if the call requested none.
        align_log2: u8,
        /// Whether zeroed memory was requested.
        zeroed: bool,
    },
    /// A block is about to be freed.
    Free {
        /// The address of the block.
        address: u64,
    },
    /// A block is about to enter `realloc`.
    Resize {
        /// The address of the block.
        address: u64,
    },
    /// `realloc` returned a block, or refused.
    Resized {
        /// The address of the block.
        address: u64,
        /// The requested size in bytes, or 0 if `realloc` refused and left the block as it was.
        size: u64,
    },
}

/// A recorded operation on a block, with its position, its time and its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The sequence number: the position of the event among all events of the process.
    pub sequence: u64,
    /// Nanoseconds since the start of the recording.
    pub time: u64,
    /// The number of the thread, from 1.
    pub thread: u32,
    /// The operation and its block.
    pub what: What,
}

/// The times at the end of a run that ended with `exit`, in nanoseconds. Both count from the start
/// of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The wall time at the end.
    pub time: u64,
    /// The processor time that the process used until the end.
    pub processor: u64,
}

/// The largest thread number in a valid trace.
const THREADS: u64 = format::MOST_THREADS;

/// The maximum number of consecutive packets without a header. A recording leaves such packets if
/// the process ends before it uses all of the file, which the recorder extends in advance.
const UNBEGUN: u32 = 8192;

/// The offset of a packet in the file, and the length of its events, both in bytes.
#[derive(Clone, Copy, Debug)]
struct PacketPlace {
    offset: u64,
    used: usize,
}

/// The header of a trace, and the positions of its packets in the file.
#[derive(Debug)]
pub struct Trace {
    file: File,
    streams: Vec<Vec<PacketPlace>>,
    /// The base sequence number of each stream's first packet.
    firsts: Vec<u64>,
    /// The ID of the recorded process.
    pub pid: u32,
    /// The ID of the parent process.
    pub parent: u32,
    /// How the recording began, or `None` if this version does not know the header's value.
    pub origin: Option<Origin>,
    /// The reason why the recording ended before the program. `None` if the recording did not end
    /// early, or if this version does not know the reason.
    pub stop: Option<Stop>,
    /// The sequence number from which on events may be missing; `u64::MAX` if `stop` is `None`.
    stop_sequence: u64,
    /// The limit of the trace, in bytes.
    pub limit: u64,
    /// The number of calls that the recorder dropped while the recording continued.
    pub dropped: u64,
    /// The version of the format.
    version: u32,
    /// Processor time of the process at the start of the recording, in nanoseconds.
    pub start_processor: u64,
    /// The end of the run; `None` in version 1, without an `exit`, or if the recording ended first.
    pub end: Option<RunEnd>,
    /// Nanoseconds that two readings of the clock add to the interval between them.
    pub clock_cost: f64,
    /// The command, with spaces between its words. Control characters, and characters that reorder
    /// the displayed text, are escaped.
    pub command: String,
    /// The size of the file up to its last event, in bytes.
    pub bytes: u64,
    /// The length of the file in bytes, if the file ends within its header, or within the header or
    /// the events of a packet.
    pub truncated: Option<u64>,
}

/// Returns the little-endian word of 32 bits at offset `at`, or 0 if the bytes end within the word.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Reads the little-endian word of 64 bits at offset `at`.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Reads from `offset` until `out` is full or the file ends. Returns the number of bytes read.
fn read_at(file: &File, out: &mut [u8], offset: u64) -> Result<usize, TraceError> {
    use std::io::{Seek, SeekFrom};
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    let mut filled = 0;
    while filled < out.len() {
        match file.read(&mut out[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

impl Trace {
    /// Opens a trace and reads the headers of all packets. A file that was cut off is readable up
    /// to the cut.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a trace of a version that this crate
    /// reads, or has a packet with an invalid header. Also refuses pipes and devices, because the
    /// reader does not read packets in the file's order.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        // Opening a pipe without a writer would block, so the check comes first.
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Err(TraceError::Foreign { why: "it is a directory" });
        }
        if !kind.is_file() {
            let why = "it is a pipe or a device. Copy the trace to a file first";
            return Err(TraceError::Foreign { why });
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = [0; FILE_HEADER];
        let read = read_at(&file, &mut bytes, 0)?;
        if read < header::COMMAND || bytes[..8] != MAGIC {
            return Err(TraceError::Foreign { why: "it does not begin with EPHTRACE" });
        }
        let found = word(&bytes, header::VERSION);
        if !(OLDEST..=VERSION).contains(&found) {
            return Err(TraceError::Version { found });
        }
        if word(&bytes, header::PACKET) != PACKET as u32 {
            return Err(TraceError::Corrupt {
                offset: header::PACKET as u64,
                why: "packets have another size",
            });
        }
        let stop = Stop::from_word(word(&bytes, header::STOP));
        // In version 1, the command may extend to the end of the header.
        let later = found > OLDEST;
        let most = if later { header::START_PROCESSOR } else { FILE_HEADER } - header::COMMAND;
        let command = (word(&bytes, header::COMMAND_LENGTH) as usize).min(most);
        let has_dropped = header::COMMAND + command <= header::DROPPED;
        let end = RunEnd { time: long(&bytes, header::END), processor: long(&bytes, header::END_PROCESSOR) };
        let command = bytes[header::COMMAND..][..command].split(|byte| *byte == 0);
        let command: Vec<_> = command.filter(|word| !word.is_empty()).map(shown).collect();
        let mut trace = Self {
            file,
            streams: Vec::new(),
            firsts: Vec::new(),
            pid: word(&bytes, header::PID),
            parent: word(&bytes, header::PARENT),
            origin: Origin::from_word(word(&bytes, header::ORIGIN)),
            stop,
            stop_sequence: if stop.is_some() { long(&bytes, header::STOP_SEQUENCE) } else { u64::MAX },
            limit: long(&bytes, header::LIMIT),
            dropped: if has_dropped { long(&bytes, header::DROPPED) } else { 0 },
            version: found,
            start_processor: if later { long(&bytes, header::START_PROCESSOR) } else { 0 },
            end: (later && end.time > 0 && stop.is_none()).then_some(end),
            clock_cost: if later { f64::from(word(&bytes, header::CLOCK_COST)) / 1000.0 } else { 0.0 },
            command: command.join(" "),
            bytes: FILE_HEADER as u64,
            truncated: (read < FILE_HEADER).then_some(read as u64),
        };
        trace.find_packets(length)?;
        Ok(trace)
    }

    fn find_packets(&mut self, length: u64) -> Result<(), TraceError> {
        let mut known: BTreeMap<u32, (u64, Vec<(u64, PacketPlace)>)> = BTreeMap::new();
        let mut offset = FILE_HEADER as u64;
        let mut unbegun = 0;
        while offset < length {
            let mut header = [0; PACKET_HEADER];
            let read = read_at(&self.file, &mut header, offset)?;
            if read < PACKET_HEADER {
                if header.iter().any(|byte| *byte != 0) {
                    self.truncated = Some(length);
                }
                break;
            }
            let why = |why| TraceError::Corrupt { offset, why };
            if header[..4] == PACKET_MAGIC {
                unbegun = 0;
                let used = word(&header, packet::USED) as usize;
                if u64::from(word(&header, packet::THREAD)) > THREADS {
                    return Err(why("a thread number that no process reaches"));
                }
                if used > PACKET - PACKET_HEADER {
                    return Err(why("a packet with more bytes than fit"));
                }
                let there = (length - offset) as usize;
                let used = if there < PACKET_HEADER + used {
                    self.truncated = Some(length);
                    there - PACKET_HEADER
                } else {
                    used
                };
                let sequence = long(&header, packet::SEQUENCE);
                let stream = known.entry(word(&header, packet::STREAM)).or_insert((sequence, Vec::new()));
                if stream.1.last().is_some_and(|(before, _)| *before > sequence) {
                    return Err(why("a packet that begins before the previous one"));
                }
                stream.1.push((sequence, PacketPlace { offset, used }));
                self.bytes = offset + (PACKET_HEADER + used) as u64;
            } else if header.iter().any(|byte| *byte != 0) {
                // A packet that was claimed but not begun is all zeros.
                return Err(why("a packet that does not begin with CHNK"));
            } else if unbegun == UNBEGUN {
                return Err(why("more bytes without a packet than a recording leaves"));
            } else {
                unbegun += 1;
            }
            offset += PACKET as u64;
        }
        for (first, places) in known.into_values() {
            self.firsts.push(first);
            self.streams.push(places.into_iter().map(|(_, place)| place).collect());
        }
        Ok(())
    }
}
