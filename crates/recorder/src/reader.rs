//! Reads a trace: the chunks' heads first, then the events of all streams, merged by their sequence.
#![forbid(unsafe_code)]

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::format::{
    self, CHUNK, CHUNK_HEAD, CHUNK_MAGIC, HEAD, MAGIC, OLDEST, Origin, Stop, VERSION, chunk, head,
};
use crate::shown::shown;
use crate::timing::Timing;

use self::cursor::Cursor;

mod cursor;

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block came.
    Alloc {
        /// Where it is.
        address: u64,
        /// Bytes asked for.
        size: u64,
        /// The alignment asked for as a power of two; 0 where none was.
        align_log2: u8,
        /// Whether it was asked for zeroed.
        zeroed: bool,
    },
    /// A block goes.
    Free {
        /// Where it was.
        address: u64,
    },
    /// A block goes into `realloc`.
    Resize {
        /// Where it was.
        address: u64,
    },
    /// It comes out of it.
    Resized {
        /// Where it is.
        address: u64,
        /// Bytes asked for; 0 where they were refused and the block stayed.
        size: u64,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place among all events.
    pub sequence: u64,
    /// Nanoseconds since the start.
    pub time: u64,
    /// The thread's number, from 1.
    pub thread: u32,
    /// What happened.
    pub what: What,
}

/// The end of a run that exited, in nanoseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When it came.
    pub time: u64,
    /// Processor time of the process until then.
    pub processor: u64,
}

/// Threads that a process can have had, as far as a trace is believed.
const THREADS: u64 = format::MOST_THREADS;

/// Most consecutive chunks without a head: threads that were killed claimed them, or the file was
/// extended in advance.
const UNBEGUN: u32 = 8192;

/// Where a chunk's events are.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    used: usize,
}

/// A trace's head, and where its chunks are.
#[derive(Debug)]
pub struct Trace {
    file: File,
    streams: Vec<Vec<Place>>,
    /// Where each stream's first chunk begins counting.
    firsts: Vec<u64>,
    /// The process that was recorded.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// How the recording began; `None` for a word that this version does not know.
    pub origin: Option<Origin>,
    /// Why it ended before the program.
    pub stop: Option<Stop>,
    /// Events from here on are incomplete.
    stop_sequence: u64,
    /// Most bytes that the trace was allowed.
    pub limit: u64,
    /// Calls that are not in the trace, although it goes on after them.
    pub dropped: u64,
    /// Version of the format.
    version: u32,
    /// Processor time of the process at the start of the recording, in nanoseconds.
    pub start_processor: u64,
    /// How the run ended; `None` where it did not exit, and where the recording ended first.
    pub end: Option<End>,
    /// Nanoseconds that reading the clock twice adds to the interval between the readings.
    pub clock_cost: f64,
    /// The command, its words separated by spaces, its control characters escaped.
    pub command: String,
    /// Bytes of the file that mean something.
    pub bytes: u64,
    /// Where the file ends within a chunk, if it does.
    pub truncated: Option<u64>,
}

/// Reads a little-endian word.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Reads two of them as one.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Reads as much of `out` as there is at `offset`.
fn read_at(file: &File, out: &mut [u8], offset: u64) -> Result<usize, Error> {
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
    /// Opens a trace and looks at all its chunks' heads. A file that was cut off is readable up to there.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no trace, or where a chunk's head means nothing.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = [0; HEAD];
        let read = read_at(&file, &mut bytes, 0)?;
        if read < head::COMMAND || bytes[..8] != MAGIC {
            return Err(Error::Foreign { why: "it does not begin with EPHTRACE" });
        }
        let found = word(&bytes, head::VERSION);
        if !(OLDEST..=VERSION).contains(&found) {
            return Err(Error::Version { found });
        }
        if word(&bytes, head::CHUNK) != CHUNK as u32 {
            return Err(Error::Corrupt { offset: head::CHUNK as u64, why: "chunks of another size" });
        }
        let stop = Stop::from_word(word(&bytes, head::STOP));
        // In the first version, the command may run on to the head's end.
        let later = found > OLDEST;
        let most = if later { head::START_PROCESSOR } else { HEAD } - head::COMMAND;
        let command = (word(&bytes, head::COMMAND_LENGTH) as usize).min(most);
        let has_dropped = head::COMMAND + command <= head::DROPPED;
        let end = End { time: long(&bytes, head::END), processor: long(&bytes, head::END_PROCESSOR) };
        let command = bytes[head::COMMAND..][..command].split(|byte| *byte == 0);
        let command: Vec<_> = command.filter(|word| !word.is_empty()).map(shown).collect();
        let mut trace = Self {
            file,
            streams: Vec::new(),
            firsts: Vec::new(),
            pid: word(&bytes, head::PID),
            parent: word(&bytes, head::PARENT),
            origin: Origin::from_word(word(&bytes, head::ORIGIN)),
            stop,
            stop_sequence: if stop.is_some() { long(&bytes, head::STOP_SEQUENCE) } else { u64::MAX },
            limit: long(&bytes, head::LIMIT),
            dropped: if has_dropped { long(&bytes, head::DROPPED) } else { 0 },
            version: found,
            start_processor: if later { long(&bytes, head::START_PROCESSOR) } else { 0 },
            end: (later && end.time > 0 && stop.is_none()).then_some(end),
            clock_cost: if later { f64::from(word(&bytes, head::CLOCK_COST)) / 1000.0 } else { 0.0 },
            command: command.join(" "),
            bytes: HEAD as u64,
            truncated: (read < HEAD).then_some(read as u64),
        };
        trace.find_chunks(length)?;
        Ok(trace)
    }

    fn find_chunks(&mut self, length: u64) -> Result<(), Error> {
        let mut known: BTreeMap<u32, (u64, Vec<(u64, Place)>)> = BTreeMap::new();
        let mut offset = HEAD as u64;
        let mut unbegun = 0;
        while offset < length {
            let mut head = [0; CHUNK_HEAD];
            let read = read_at(&self.file, &mut head, offset)?;
            if read < CHUNK_HEAD {
                if head.iter().any(|byte| *byte != 0) {
                    self.truncated = Some(length);
                }
                break;
            }
            let why = |why| Error::Corrupt { offset, why };
            if head[..4] == CHUNK_MAGIC {
                unbegun = 0;
                let used = word(&head, chunk::USED) as usize;
                if u64::from(word(&head, chunk::THREAD)) > THREADS {
                    return Err(why("a thread of a number that no process reaches"));
                }
                if used > CHUNK - CHUNK_HEAD {
                    return Err(why("a chunk that says it has more than fits"));
                }
                let there = (length - offset) as usize;
                let used = if there < CHUNK_HEAD + used {
                    self.truncated = Some(length);
                    there - CHUNK_HEAD
                } else {
                    used
                };
                let sequence = long(&head, chunk::SEQUENCE);
                let stream = known.entry(word(&head, chunk::STREAM)).or_insert((sequence, Vec::new()));
                if stream.1.last().is_some_and(|(before, _)| *before > sequence) {
                    return Err(why("a chunk that begins before the one before it"));
                }
                stream.1.push((sequence, Place { offset, used }));
                self.bytes = offset + (CHUNK_HEAD + used) as u64;
            } else if head.iter().any(|byte| *byte != 0) {
                // A chunk that was claimed and not begun is all zeros.
                return Err(why("a chunk that does not begin with CHNK"));
            } else if unbegun == UNBEGUN {
                return Err(why("more bytes without a chunk than a recorder leaves"));
            } else {
                unbegun += 1;
            }
            offset += CHUNK as u64;
        }
        for (first, places) in known.into_values() {
            self.firsts.push(first);
            self.streams.push(places.into_iter().map(|(_, place)| place).collect());
        }
        Ok(())
    }

    /// All events in the order in which they happened.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        let waiting =
            self.firsts.iter().enumerate().map(|(stream, &first)| Reverse((first, stream))).collect();
        let mut cursors = Vec::new();
        cursors.resize_with(self.streams.len(), Cursor::default);
        Events { trace: self, cursors, waiting, current: None, failed: false, timing: Timing::default() }
    }
}

/// The events of a trace, in order. Ends after the first error.
#[derive(Debug)]
pub struct Events<'a> {
    trace: &'a Trace,
    cursors: Vec<Cursor>,
    /// Streams by the sequence number of what comes next, or a lower one.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream that was read last.
    current: Option<usize>,
    failed: bool,
    timing: Timing,
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.advance() {
            Ok(event) => {
                let whole = |event: &Event| {
                    event.sequence < self.trace.stop_sequence || cfg!(ephemera_weaken = "trace_ragged_end")
                };
                event.filter(whole).map(Ok)
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl Events<'_> {
    /// Returns what the notes read so far say: all of them, once the events are at their end.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    fn advance(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(stream) = self.current {
                let cursor = &mut self.cursors[stream];
                if cursor.ahead.is_none() {
                    cursor.ahead = cursor.read(self.trace, &self.trace.streams[stream], &mut self.timing)?;
                }
                let Some(event) = cursor.ahead else {
                    self.current = None;
                    cursor.bytes = Vec::new();
                    continue;
                };
                if self.waiting.peek().is_none_or(|Reverse((next, _))| event.sequence < *next) {
                    return Ok(cursor.ahead.take());
                }
                self.waiting.push(Reverse((event.sequence, stream)));
                self.current = None;
            }
            let Some(Reverse((next, stream))) = self.waiting.pop() else { return Ok(None) };
            // Its event is ahead and first, or its first chunk was not read yet.
            if let Some(event) = self.cursors[stream].ahead
                && event.sequence == next
            {
                self.current = Some(stream);
                return Ok(self.cursors[stream].ahead.take());
            }
            self.current = Some(stream);
        }
    }
}
