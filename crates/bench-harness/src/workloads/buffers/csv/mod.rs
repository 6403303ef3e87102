//! R2, CSV: rows stream through a window of a thousand; each field that is not empty has a buffer, and a group-by counts the
//! rows of the window by a key. The reader is the csv crate's; it reuses its record, so that buffers alone are made.

mod table;

pub use self::table::{COLUMNS, CsvTable};

use std::sync::Arc;

use csv::ByteRecord;

use super::{digest, verify};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::tally;
use crate::workloads::{Cell, Context, litter, mix};

/// Rows in the window.
pub const ROWS: usize = 1000;
/// Groups; keys that share one are counted together.
const GROUPS: usize = 4096;

/// The rows of the window, and how many of them are in each group.
#[derive(Debug)]
pub struct RowWindow<B> {
    /// Fields, [`COLUMNS`] for each row.
    fields: Vec<Option<OrHeap<B>>>,
    /// Which field of a row is its key.
    keys: Vec<u8>,
    /// In a check run: numbers that depend on every byte of a row.
    digests: Vec<u64>,
    groups: Vec<u32>,
    next: usize,
}

impl<B> Default for RowWindow<B> {
    fn default() -> Self {
        Self {
            fields: (0..ROWS * COLUMNS).map(|_| None).collect(),
            keys: vec![0; ROWS],
            digests: vec![0; ROWS],
            groups: vec![0; GROUPS],
            next: 0,
        }
    }
}

/// The group of a key.
#[inline(always)]
fn group(key: &impl Readable) -> usize {
    digest(key) as usize % GROUPS
}

/// Takes the row at `place` out of the window.
#[inline(always)]
fn leave<S: Source>(window: &mut RowWindow<S::Buf>, place: usize, sum: &mut u64) {
    let first = place * COLUMNS;
    let key = first + usize::from(window.keys[place]);
    if let Some(key) = &window.fields[key] {
        window.groups[group(key)] -= 1;
    }
    let mut read = 0;
    for field in &mut window.fields[first..first + COLUMNS] {
        if let Some(old) = field.take() {
            if S::CHECKED {
                read = mix(read, digest(&old));
            }
            give(old);
        }
    }
    if S::CHECKED {
        if read != window.digests[place] {
            tally::damaged();
        }
        *sum = mix(*sum, read);
    }
}

/// Streams all rows of a table through the window; the checksum has the largest group after each thousand.
///
/// # Panics
///
/// When the text of the table is not CSV, which was tried when it was loaded.
#[inline(never)]
pub fn stream<S: Source>(source: &mut S, window: &mut RowWindow<S::Buf>, table: &CsvTable) -> u64 {
    let mut reader = table::reader(&table.text);
    let mut record = ByteRecord::new();
    let mut sum = 0;
    let mut row = 0;
    while reader.read_byte_record(&mut record).expect("the table was read before") {
        let place = window.next;
        window.next = if place + 1 == ROWS { 0 } else { place + 1 };
        leave::<S>(window, place, &mut sum);

        let mut written = 0;
        for (column, field) in record.iter().take(COLUMNS).enumerate() {
            if field.is_empty() {
                continue;
            }
            // SAFETY: the table says how much a window holds at most, and rows leave in the order in which they came.
            let buffer = unsafe { source.filled([field]) };
            verify::<S>(&buffer, field, &mut sum);
            if S::CHECKED {
                written = mix(written, digest(&buffer));
            }
            window.fields[place * COLUMNS + column] = Some(buffer);
        }
        let key = table.key_of(row);
        window.keys[place] = key;
        window.digests[place] = written;
        if let Some(key) = &window.fields[place * COLUMNS + usize::from(key)] {
            window.groups[group(key)] += 1;
        }
        row += 1;
        if row % ROWS == 0 {
            sum = mix(sum, window.groups.iter().max().copied().map_or(0, u64::from));
        }
    }
    sum
}

struct Csv<S: Source> {
    window: RowWindow<S::Buf>,
    table: Arc<CsvTable>,
    source: S,
}

impl<S: Source> Cell for Csv<S> {
    fn run(&mut self, units: u64) -> u64 {
        (0..units).fold(0, |sum, _| mix(sum, stream(&mut self.source, &mut self.window, &self.table)))
    }

    fn ops_per_unit(&self) -> u64 {
        self.table.rows as u64
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

/// A cell over the table of this host, on ground that is littered if wanted.
pub fn cell<S: Source>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let table = CsvTable::shared();
    if littered {
        litter::scatter::<S::Backing>(|| litter::of_lengths(table.window()), context.seed);
    }
    let demand = Demand { largest: table.largest, buffers: table.fields_alive, bytes: table.bytes_alive };
    Box::new(Csv { window: RowWindow::<S::Buf>::default(), source: S::create(&demand), table })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::blocks::System;
    use crate::contenders::buffers::Vectors;

    #[test]
    fn the_window_holds_a_thousand_rows_and_counts_them() {
        let table = CsvTable::generated(5);
        let demand = Demand { largest: table.largest, buffers: table.fields_alive, bytes: table.bytes_alive };
        let mut source = Vectors::<System>::create(&demand);
        let mut window = RowWindow::default();
        stream(&mut source, &mut window, &table);
        assert_eq!(window.groups.iter().sum::<u32>() as usize, ROWS, "every row has a key");
        let first = stream(&mut source, &mut window, &table);
        let alive = window.fields.iter().flatten().count();
        assert!(alive > ROWS && alive <= table.fields_alive, "{alive} of {}", table.fields_alive);
        assert_eq!(
            first,
            stream(&mut source, &mut window, &table),
            "a pass over a full window is like the last"
        );
    }
}
