//! Reads one stream of a trace: its packets one after another, with their events and notes.
#![forbid(unsafe_code)]

use super::{PacketPlace, THREADS, Trace, TraceEvent, What, long, read_at, word};
use crate::error::TraceError;
use crate::format::{self, Bad, Base, Clocks, OLDEST, PACKET_HEADER, TICK_LOG2, note, op, packet};
use crate::timing::Timing;

/// The smallest invalid size of a block, in bytes. No supported processor gives a program more
/// address space.
const TOO_LARGE: u64 = 1 << 56;

/// The maximum time of an event, in ticks: the nanoseconds of a later time would exceed 64 bits.
const LATEST: u64 = u64::MAX >> TICK_LOG2;
const LATE: &str = "a time that no recording reaches";

/// Returns `base + step`, or the error `why` if the sum exceeds `most`.
fn sum(base: u64, step: u64, most: u64, why: &'static str) -> Result<u64, (Bad, &'static str)> {
    base.checked_add(step).filter(|sum| *sum <= most).ok_or((Bad::Long, why))
}

/// The position of a reader in a stream.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The index of the loaded packet within the stream, plus one; 0 before the first packet.
    packet: usize,
    pub(super) bytes: Vec<u8>,
    at: usize,
    base: Base,
    thread: u32,
    /// The operation of the last event; 0 before the first.
    op: u8,
    /// Whether an event of the packet was read.
    begun: bool,
    /// The event that was read and has not been returned yet.
    pub(super) ahead: Option<TraceEvent>,
}

impl Cursor {
    /// Returns the next event of the stream, whose packets are at `places`, or `None` after the
    /// last one. Adds the notes before the event to `timing`.
    pub(super) fn read(
        &mut self,
        trace: &Trace,
        places: &[PacketPlace],
        timing: &mut Timing,
    ) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            while self.at >= self.bytes.len() {
                let Some(place) = places.get(self.packet) else { return Ok(None) };
                self.load(trace, *place)?;
            }
            let begin = self.at;
            match self.decode(trace.version, timing) {
                Ok(None) => {}
                Ok(Some(event)) => return Ok(Some(event)),
                Err((Bad::Short, _)) if trace.truncated.is_some() && self.packet == places.len() => {
                    // The file was cut within this event.
                    self.at = self.bytes.len();
                }
                Err((_, why)) => {
                    let offset = places[self.packet - 1].offset + (PACKET_HEADER + begin) as u64;
                    return Err(TraceError::Corrupt { offset, why });
                }
            }
        }
    }

    fn load(&mut self, trace: &Trace, place: PacketPlace) -> Result<(), TraceError> {
        let mut header = [0; PACKET_HEADER];
        read_at(&trace.file, &mut header, place.offset)?;
        self.bytes.resize(place.used, 0);
        let read = read_at(&trace.file, &mut self.bytes, place.offset + PACKET_HEADER as u64)?;
        self.bytes.truncate(read);
        self.base =
            Base { sequence: long(&header, packet::SEQUENCE), time: long(&header, packet::TIME), address: 0 };
        self.thread = word(&header, packet::THREAD);
        self.at = 0;
        self.begun = false;
        self.packet += 1;
        Ok(())
    }

    /// Reads one event. Returns `None` for a note, and for an event that names the next thread.
    fn decode(
        &mut self,
        version: u32,
        timing: &mut Timing,
    ) -> Result<Option<TraceEvent>, (Bad, &'static str)> {
        let (op, align_log2) = format::unlead(self.bytes[self.at]);
        let mut at = self.at + 1;
        let mut number = || {
            format::take(&self.bytes, &mut at).map_err(|bad| match bad {
                Bad::Short => (bad, "an event that exceeds its packet"),
                Bad::Long => (bad, "a number of more than 64 bits"),
            })
        };
        if op == op::THREAD {
            let thread = number()?;
            if thread > THREADS {
                return Err((Bad::Long, "a thread number that no process reaches"));
            }
            self.thread = thread as u32;
            self.at = at;
            return Ok(None);
        }
        if op == op::NOTE && version > OLDEST {
            match align_log2 {
                note::CLOCKS => {
                    let mut ns = |base| Ok(sum(base, number()?, LATEST, LATE)? << TICK_LOG2);
                    let time = ns(self.base.time)?;
                    let clocks = Clocks { time, thread: ns(0)?, process: ns(0)?, recorder: ns(0)? };
                    timing.clocks(self.thread, &clocks);
                }
                note::TOOK => timing.took(self.thread, self.op, [number()?, number()?]),
                _ => return Err((Bad::Long, "a note of an unknown kind")),
            }
            self.at = at;
            return Ok(None);
        }
        if !(op::ALLOC..=op::RESIZED).contains(&op) {
            return Err((Bad::Long, "an unknown operation"));
        }
        let step = number()?;
        if step == 0 && self.begun {
            return Err((Bad::Long, "two events with one sequence number"));
        }
        // The largest number is not valid here, because it is the `Trace::stop_sequence` of a trace
        // without an early stop.
        let why = "a sequence number that no recording reaches";
        let sequence = sum(self.base.sequence, step, u64::MAX - 1, why)?;
        let time = sum(self.base.time, number()?, LATEST, LATE)?;
        let address = format::follow(self.base.address, number()?);
        let base = Base { sequence, time, address };
        let mut size = || match number()? {
            TOO_LARGE.. => Err((Bad::Long, "a size that no address space has")),
            size => Ok(size),
        };
        let what = match op {
            op::FREE => What::Free { address },
            op::RESIZE => What::Resize { address },
            op::RESIZED => What::Resized { address, size: size()? },
            _ => What::Alloc { address, size: size()?, align_log2, zeroed: op == op::ZEROED },
        };
        self.base = base;
        (self.op, self.begun) = (op, true);
        timing.event(op);
        self.at = at;
        Ok(Some(TraceEvent { sequence, time: time << TICK_LOG2, thread: self.thread, what }))
    }
}
