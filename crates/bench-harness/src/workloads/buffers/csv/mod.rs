//! R2, CSV: rows stream through a window of a thousand rows. Each field that is not empty has a
//! buffer, and a group-by counts the rows of the window by a key. The csv crate reads the rows and
//! reuses its record, so the loop allocates only the buffers.

mod table;

pub(crate) use self::table::CsvTable;

use csv::ByteRecord;

use self::table::{COLUMNS, ROWS};
use super::{digest, verify};
use crate::buffers::{OrHeap, Readable, Source, give};
use crate::tally;
use crate::workloads::{Cell, Context, StateCell, each, litter, mix};

/// The number of groups. Keys with the same group are counted together.
const GROUPS: usize = 4096;

/// The rows of the window, and the number of rows in each group.
struct RowWindow<B> {
    /// The fields, [`COLUMNS`] for each row.
    fields: Vec<Option<OrHeap<B>>>,
    /// For each row, the index of the key among its fields.
    keys: Vec<u8>,
    /// In a counted run, for each row a number that depends on every byte of its fields.
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

#[inline(always)]
fn group(key: &impl Readable) -> usize {
    digest(key) as usize % GROUPS
}

/// Removes the row with the index `place` from the window.
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

/// Streams all rows of a table through the window. The checksum includes the size of the largest
/// group, taken after every thousand rows.
///
/// # Panics
///
/// Panics if the text of the table is not CSV. This does not happen, because the text was checked
/// when it was loaded.
#[inline(never)]
fn stream<S: Source>(source: &mut S, window: &mut RowWindow<S::Buf>, table: &CsvTable) -> u64 {
    let mut reader = table::reader(&table.text);
    let mut record = ByteRecord::new();
    let mut sum = 0;
    let mut row = 0;
    while reader.read_byte_record(&mut record).expect("the table was checked when it was loaded") {
        let place = window.next;
        window.next = if place + 1 == ROWS { 0 } else { place + 1 };
        leave::<S>(window, place, &mut sum);

        let mut written = 0;
        for (column, field) in record.iter().take(COLUMNS).enumerate() {
            if field.is_empty() {
                continue;
            }
            // SAFETY: the source was made for the table's peak of fields and bytes in a window, and
            // rows leave in the order in which they arrived.
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

/// Builds a cell over this host's table, on a littered heap if `littered`.
pub(crate) fn cell<S: Source>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let table = CsvTable::shared();
    litter::scatter::<S::Backing>(littered, || litter::of_lengths(table.window()), context.seed);
    let (rows, source) = (table.rows, S::create(&table.demand));
    let run = |(window, source, table): &mut (RowWindow<S::Buf>, S, &CsvTable), units| {
        each(units, || stream(source, window, table))
    };
    // The drop of a ring may wait for its buffers, so the window is dropped before the source.
    StateCell::boxed(rows, (RowWindow::default(), source, table), run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::blocks::System;
    use crate::contenders::buffers::Vectors;

    #[test]
    fn the_window_holds_a_thousand_rows_and_counts_them() {
        let table = CsvTable::generated(5);
        let mut source = Vectors::<System>::create(&table.demand);
        let mut window = RowWindow::default();
        stream(&mut source, &mut window, &table);
        assert_eq!(window.groups.iter().sum::<u32>() as usize, ROWS, "every row has a key");
        let first = stream(&mut source, &mut window, &table);
        let alive = window.fields.iter().flatten().count();
        assert!(alive > ROWS && alive <= table.demand.buffers, "{alive} of {}", table.demand.buffers);
        assert_eq!(
            first,
            stream(&mut source, &mut window, &table),
            "a pass over a full window is like the last"
        );
    }
}
