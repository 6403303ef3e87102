//! Writes a trace for tests and generators. The recorder itself writes into mapped memory.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::format::{
    self, Base, Clocks, FILE_HEADER, LONGEST, Origin, PACKET, PACKET_HEADER, Stop, TICK_LOG2, header, op,
    packet,
};
use crate::reader::{RunEnd, TraceEvent, What};

/// Builds a trace in memory.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    open: BTreeMap<u32, OpenPacket>,
}

/// The packet that a thread writes to.
#[derive(Debug)]
struct OpenPacket {
    offset: usize,
    used: usize,
    base: Base,
}

impl Writer {
    /// Creates a trace of `command` without events.
    #[must_use]
    pub fn new(command: &str) -> Self {
        let mut bytes = vec![0; FILE_HEADER];
        bytes[..8].copy_from_slice(&format::MAGIC);
        let command = &command.as_bytes()[..command.len().min(header::START_PROCESSOR - header::COMMAND)];
        let words = [
            (header::VERSION, format::VERSION),
            (header::PACKET, PACKET as u32),
            (header::PID, 1),
            (header::ORIGIN, Origin::Program as u32),
            (header::COMMAND_LENGTH, command.len() as u32),
        ];
        for (at, word) in words {
            bytes[at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[header::COMMAND..][..command.len()].copy_from_slice(command);
        Self { bytes, open: BTreeMap::new() }
    }

    /// Appends an event. Within a thread, sequence numbers must rise and times must not fall. No
    /// two events may have the same sequence number. Times are rounded down to ticks.
    pub fn push(&mut self, event: &TraceEvent) {
        let (op, align_log2, address, size) = match event.what {
            What::Alloc { address, size, align_log2, zeroed } => {
                (if zeroed { op::ZEROED } else { op::ALLOC }, align_log2, address, Some(size))
            }
            What::Free { address } => (op::FREE, 0, address, None),
            What::Resize { address } => (op::RESIZE, 0, address, None),
            What::Resized { address, size } => (op::RESIZED, 0, address, Some(size)),
        };
        let next = Base { sequence: event.sequence, time: event.time >> TICK_LOG2, address };
        self.make_room(event.thread, next);
        let Some(open) = self.open.get_mut(&event.thread) else { return };
        let (encoded, length) = format::encode(format::lead(op, align_log2), &open.base, &next, size);
        open.base = next;
        self.append(event.thread, &encoded[..length]);
    }

    /// Appends a note of a thread's clocks.
    pub fn clocks(&mut self, thread: u32, clocks: &Clocks) {
        let time = clocks.time >> TICK_LOG2;
        let sequence = self.open.get(&thread).map_or(0, |open| open.base.sequence);
        self.make_room(thread, Base { sequence, time, address: 0 });
        let base = self.open.get(&thread).map_or(time, |open| open.base.time);
        let (encoded, length) = format::encode_clocks(base, clocks);
        self.append(thread, &encoded[..length]);
    }

    /// Appends a note of the nanoseconds that the thread's last event took in the allocator and in
    /// the recorder. Does nothing for a thread without an event or a note.
    pub fn took(&mut self, thread: u32, allocator: u64, recorder: u64) {
        let Some(base) = self.open.get(&thread).map(|open| open.base) else { return };
        self.make_room(thread, base);
        let (encoded, length) = format::encode_took(allocator, recorder);
        self.append(thread, &encoded[..length]);
    }

    /// Sets the cost of two clock readings, and the processor time of the process at the start.
    /// Both are in nanoseconds.
    pub fn start(&mut self, clock_cost: f64, processor: u64) {
        let cost = (clock_cost * 1000.0) as u32;
        self.bytes[header::CLOCK_COST..][..4].copy_from_slice(&cost.to_le_bytes());
        self.bytes[header::START_PROCESSOR..][..8].copy_from_slice(&processor.to_le_bytes());
    }

    /// Sets the end of the run and its processor time.
    pub fn end(&mut self, end: &RunEnd) {
        self.bytes[header::END..][..8].copy_from_slice(&end.time.to_le_bytes());
        self.bytes[header::END_PROCESSOR..][..8].copy_from_slice(&end.processor.to_le_bytes());
    }

    /// Begins a packet for the event `next`, unless the thread has a packet with room.
    fn make_room(&mut self, thread: u32, next: Base) {
        let room = |open: &OpenPacket| PACKET_HEADER + open.used + LONGEST <= PACKET;
        if !self.open.get(&thread).is_some_and(room) {
            let offset = self.bytes.len();
            self.bytes.resize(offset + PACKET, 0);
            let bytes = &mut self.bytes[offset..];
            bytes[..4].copy_from_slice(&format::PACKET_MAGIC);
            bytes[packet::THREAD..][..4].copy_from_slice(&thread.to_le_bytes());
            bytes[packet::STREAM..][..4].copy_from_slice(&thread.to_le_bytes());
            bytes[packet::SEQUENCE..][..8].copy_from_slice(&next.sequence.to_le_bytes());
            bytes[packet::TIME..][..8].copy_from_slice(&next.time.to_le_bytes());
            let base = Base { address: 0, ..next };
            self.open.insert(thread, OpenPacket { offset, used: 0, base });
        }
    }

    fn append(&mut self, thread: u32, encoded: &[u8]) {
        let Some(open) = self.open.get_mut(&thread) else { return };
        self.bytes[open.offset + PACKET_HEADER + open.used..][..encoded.len()].copy_from_slice(encoded);
        open.used += encoded.len();
        let used = (open.used as u32).to_le_bytes();
        self.bytes[open.offset + packet::USED..][..4].copy_from_slice(&used);
    }

    /// Marks the recording as ended early: events from `sequence` on may be missing.
    pub fn stop(&mut self, why: Stop, sequence: u64) {
        self.bytes[header::STOP..][..4].copy_from_slice(&(why as u32).to_le_bytes());
        self.bytes[header::STOP_SEQUENCE..][..8].copy_from_slice(&sequence.to_le_bytes());
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the trace to the file `path`, which it creates or overwrites.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created or written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        File::create(path)?.write_all(&self.bytes)
    }
}
