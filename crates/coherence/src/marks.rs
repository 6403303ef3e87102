//! The marks: the protocol between the traced program and the reader of its log.
//!
//! The program has a static table with a byte for each phase and core. When a thread enters a
//! phase, it stores to the byte of its core and that phase. Before the first mark, the program
//! prints the table's address and the ranges of its static variables. It also prints the range of
//! each thread's stack.

use std::ops::Range;

use crate::caches::CORES;

/// The size of the table of marks in bytes.
pub const TABLE: usize = Phase::ALL.len() * CORES;

/// The prefix of the lines that the program prints for the reader.
pub const PREFIX: &str = "coherence:";

/// The activity of the running core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The program's own bookkeeping, which the model leaves out.
    Outside,
    /// A call to the allocator.
    Allocator,
    /// The program reads or writes its blocks.
    Use,
    /// The end of the warm-up. Counting starts.
    Begin,
    /// The end of counting.
    End,
}

impl Phase {
    /// All phases, in the order of the table.
    const ALL: [Self; 5] = [Self::Outside, Self::Allocator, Self::Use, Self::Begin, Self::End];

    /// Returns the index in the table for the mark of this phase and core.
    #[must_use]
    pub const fn index(self, core: usize) -> usize {
        self as usize * CORES + core
    }

    /// Returns the phase and the core of an index, or `None` if the index is not in the table.
    pub(crate) fn at(index: usize) -> Option<(Self, usize)> {
        Some((*Self::ALL.get(index / CORES)?, index % CORES))
    }
}

/// A fact that the program prints for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The address of the table of marks.
    Table(u64),
    /// A range of static variables.
    Static(Range<u64>),
    /// The stack and the thread-locals of a thread.
    Stack(Range<u64>),
    /// The number of counted operations.
    Operations(u64),
}

impl Fact {
    /// Returns the line that states the fact.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Table(address) => format!("{PREFIX} table {address:x}\n"),
            Self::Static(range) => format!("{PREFIX} static {:x} {:x}\n", range.start, range.end),
            Self::Stack(range) => format!("{PREFIX} stack {:x} {:x}\n", range.start, range.end),
            Self::Operations(count) => format!("{PREFIX} operations {count:x}\n"),
        }
    }

    /// Returns the fact that a line states, or `None` if the line states no fact.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(PREFIX)?.split_ascii_whitespace();
        let name = words.next()?;
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let first = number()?;
        match name {
            "table" => Some(Self::Table(first)),
            "static" => Some(Self::Static(first..number()?)),
            "stack" => Some(Self::Stack(first..number()?)),
            "operations" => Some(Self::Operations(first)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CORES, Fact, Phase, TABLE};

    #[test]
    fn each_index_of_the_table_names_one_phase_and_core() {
        for index in 0..TABLE {
            let (phase, core) = Phase::at(index).expect("the index lies in the table");
            assert_eq!(phase.index(core), index);
        }
        assert_eq!(Phase::at(TABLE), None);
        assert_eq!(Phase::at(CORES), Some((Phase::Allocator, 0)));
    }

    #[test]
    fn facts_are_read_as_they_were_printed() {
        for fact in [Fact::Table(0x10), Fact::Static(1..0xff), Fact::Stack(2..3), Fact::Operations(7)] {
            assert_eq!(Fact::read(fact.line().trim_end()), Some(fact));
        }
        assert_eq!(Fact::read("coherence: stack 1"), None);
        assert_eq!(Fact::read(" L 1ffe,8"), None);
    }
}
