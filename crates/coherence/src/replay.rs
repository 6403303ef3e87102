//! Reads a log of lackey and replays it on the cache model.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufRead};
use std::ops::Range;

use crate::caches::{Caches, LineAccess};
use crate::counts::{LineRegion, RegionCounts};
use crate::marks::{Fact, PREFIX, Phase, TABLE};

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The number of counted operations.
    pub operations: u64,
    /// The events that the allocator's own accesses caused.
    pub allocator: RegionCounts,
    /// The events that the program's accesses to its blocks caused.
    pub program: RegionCounts,
}

/// The reason why a log does not yield figures.
#[derive(Debug)]
pub enum Broken {
    /// The log cannot be read.
    Unreadable(io::Error),
    /// The log ends before the program's last mark, or without the number of operations.
    Short,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the log of memory accesses cannot be read: {error}"),
            Self::Short => f.write_str("the log of memory accesses ends before the traced program does"),
        }
    }
}

impl std::error::Error for Broken {}

/// The state of the replay of one log.
#[derive(Debug, Default)]
pub struct Replay {
    caches: Caches,
    /// The lines that contain bytes of blocks that the program used.
    used: HashSet<u64>,
    table: Option<u64>,
    statics: Vec<Range<u64>>,
    stacks: Vec<Range<u64>>,
    /// The running core, and the phase that it is in.
    now: Option<(Phase, usize)>,
    counting: bool,
    ended: bool,
    /// The pending load (address and size). The load waits, because the same instruction may
    /// still store.
    load: Option<(u64, u64)>,
    measured: Measured,
    others: Vec<String>,
}

impl Replay {
    /// Reads a log to its end. Returns the figures.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read, or if it ends too early. The error comes with
    /// the lines that were read and that are neither accesses, facts nor valgrind's own messages.
    pub fn run(mut log: impl BufRead) -> Result<Measured, (Broken, Vec<String>)> {
        let mut replay = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            match log.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => replay.line(line.trim_ascii_end()),
                Err(error) => return Err((Broken::Unreadable(error), replay.others)),
            }
        }
        if replay.ended && replay.measured.operations > 0 {
            Ok(replay.measured)
        } else {
            Err((Broken::Short, replay.others))
        }
    }

    /// Replays one line of the log.
    fn line(&mut self, line: &[u8]) {
        match line {
            [b'I', b' ', ..] => self.finish(),
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', place @ ..] => {
                let Some((address, bytes)) = place_of(place) else { return };
                if *kind == b'L' {
                    self.finish();
                    self.load = Some((address, bytes));
                } else {
                    self.store(address, bytes);
                }
            }
            _ => self.other(&String::from_utf8_lossy(line)),
        }
    }

    /// Handles a line that is not an access: stores a fact, ignores valgrind's own messages, and
    /// keeps any other message for a later error.
    fn other(&mut self, line: &str) {
        match Fact::read(line) {
            Some(Fact::Table(address)) => self.table = Some(address),
            Some(Fact::Static(range)) => self.statics.push(range),
            Some(Fact::Stack(range)) => self.stacks.push(range),
            Some(Fact::Operations(count)) => self.measured.operations = count,
            None if line.starts_with("==") || line.is_empty() || line.starts_with(PREFIX) => {}
            None => self.others.push(line.to_owned()),
        }
    }

    /// Replays the pending load.
    fn finish(&mut self) {
        if let Some((address, bytes)) = self.load.take() {
            self.access(address, bytes, LineAccess::Load);
        }
    }

    fn store(&mut self, address: u64, bytes: u64) {
        // An instruction that loads and stores one address fetches the line once, for writing.
        if self.load.is_some_and(|(loaded, _)| loaded == address) {
            self.load = None;
        }
        self.finish();
        match self.mark(address) {
            Some((Phase::Begin, _)) => self.counting = true,
            Some((Phase::End, _)) => (self.counting, self.ended) = (false, true),
            Some(mark) => self.now = Some(mark),
            None => self.access(address, bytes, LineAccess::Store),
        }
    }

    /// Returns the phase and the core of the mark at this address, or `None` if there is no mark.
    fn mark(&self, address: u64) -> Option<(Phase, usize)> {
        let index = address.checked_sub(self.table?)?;
        (index < TABLE as u64).then(|| Phase::at(index as usize))?
    }

    fn access(&mut self, address: u64, bytes: u64, access: LineAccess) {
        let Some((phase @ (Phase::Allocator | Phase::Use), core)) = self.now else { return };
        for line in Caches::lines(address, bytes) {
            let event = self.caches.access(core, line, access);
            if phase == Phase::Use && !self.is_stack(address) {
                self.used.insert(line);
            }
            if let (true, Some(event)) = (self.counting, event) {
                let region = self.region(line, address);
                let counts = match phase {
                    Phase::Use => &mut self.measured.program,
                    _ => &mut self.measured.allocator,
                };
                counts[region].add(event);
            }
        }
    }

    fn is_stack(&self, address: u64) -> bool {
        self.stacks.iter().any(|range| range.contains(&address))
    }

    fn region(&self, line: u64, address: u64) -> LineRegion {
        if self.is_stack(address) {
            LineRegion::Stacks
        } else if self.statics.iter().any(|range| range.contains(&address)) {
            LineRegion::Statics
        } else if self.used.contains(&line) {
            LineRegion::Blocks
        } else {
            LineRegion::Headers
        }
    }
}

/// Parses an access such as `1ffe0,8`: the address in hexadecimal, and the number of bytes. Returns
/// `None` if `text` is not an access.
fn place_of(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, bytes) = text.split_once(',')?;
    Some((u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Measured, Replay};
    use crate::counts::{EventCounts, LineRegion};
    use crate::marks::{Fact, Phase};

    const TABLE: u64 = 0x1000;

    /// Replays a log of these parts, all of which are counted. Returns the figures, or the text of
    /// the error.
    fn log(parts: &[String]) -> Result<Measured, String> {
        let mut text = Fact::Table(TABLE).line() + &mark(Phase::Begin, 0);
        text.extend(parts.iter().map(String::as_str));
        text += &(mark(Phase::End, 0) + &Fact::Operations(1).line());
        Replay::run(text.as_bytes()).map_err(|(error, _)| error.to_string())
    }

    fn mark(phase: Phase, core: usize) -> String {
        format!("I  400,3\n S {:x},1\n", TABLE + phase.index(core) as u64)
    }

    fn on(phase: Phase, core: usize, accesses: &str) -> String {
        mark(phase, core) + accesses + &mark(Phase::Outside, core)
    }

    #[test]
    fn accesses_count_for_the_core_and_phase_of_the_last_mark() {
        let stored = "I  401,4\n S 20000,8\n";
        let measured = log(&[
            on(Phase::Allocator, 0, stored),
            on(Phase::Allocator, 1, stored),
            on(Phase::Use, 0, stored),
            on(Phase::Allocator, 0, "I  401,4\n L 20008,8\n"),
        ])
        .expect("a whole log");
        assert_eq!(measured.allocator.total(), EventCounts { transfers: 1, ..EventCounts::default() });
        assert_eq!(
            measured.program[LineRegion::Blocks],
            EventCounts { transfers: 1, ..EventCounts::default() }
        );
    }

    #[test]
    fn accesses_outside_of_all_phases_move_nothing() {
        let stored = "I  401,4\n S 20000,8\n";
        let measured =
            log(&[on(Phase::Outside, 0, stored), on(Phase::Outside, 1, stored)]).expect("a whole log");
        assert_eq!(measured.allocator.total().events() + measured.program.total().events(), 0);
    }

    #[test]
    fn a_read_modify_write_is_one_event() {
        // lackey prints a locked addition as a load, then as a modify that merges this load with
        // the store.
        let added = "I  401,4\n L 20000,8\n M 20000,8\nI  405,4\n";
        let measured =
            log(&[on(Phase::Allocator, 0, added), on(Phase::Allocator, 1, added)]).expect("a whole log");
        assert_eq!(measured.allocator.total(), EventCounts { transfers: 1, ..EventCounts::default() });
        let two = "I  401,4\n L 20000,8\nI  405,4\n S 20000,8\n";
        let measured =
            log(&[on(Phase::Allocator, 0, two), on(Phase::Allocator, 1, two)]).expect("a whole log");
        assert_eq!(measured.allocator.total(), EventCounts { reads: 1, upgrades: 1, transfers: 0 });
    }

    #[test]
    fn lines_belong_to_the_regions_that_the_program_named() {
        let facts = Fact::Static(0x5000..0x6000).line() + &Fact::Stack(0x7000..0x8000).line();
        let all = "I  1,4\n S 5000,8\n S 7000,8\n S 9000,8\n";
        let measured =
            log(&[facts, on(Phase::Allocator, 0, all), on(Phase::Allocator, 1, all)]).expect("a whole log");
        let of = |region| measured.allocator[region].transfers;
        assert_eq!(LineRegion::ALL.map(of), [0, 1, 1, 1]);
    }

    #[test]
    fn a_log_without_its_end_gives_no_figures() {
        let text = Fact::Table(TABLE).line() + &mark(Phase::Begin, 0) + "Killed\n";
        let (error, others) = Replay::run(text.as_bytes()).expect_err("no end");
        assert!(error.to_string().contains("ends before"), "{error}");
        assert_eq!(others, ["Killed"]);
    }
}
