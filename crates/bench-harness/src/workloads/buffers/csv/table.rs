//! The text of R2: a thousand rows of each table that the csv package ships for its own benchmarks,
//! if its sources are on this host. Otherwise the rows are generated.

use core::fmt::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{env, fs};

use csv::{ByteRecord, Reader, ReaderBuilder};
use rand::RngExt;

use crate::buffers::Demand;
use crate::workloads::draws::stream;

/// The number of rows in the window.
pub(super) const ROWS: usize = 1000;
/// The maximum number of fields that the workload reads from a row.
pub(super) const COLUMNS: usize = 16;

/// The tables, each with the index of its key column.
const FILES: [(&str, u8); 4] =
    [("game.csv", 0), ("gtfs-mbta-stop-times.csv", 3), ("nfl.csv", 4), ("worldcitiespop.csv", 0)];
/// The number of consecutive rows from one table. The next rows are from the next table, so every
/// window contains rows of all tables.
const RUN: usize = 250;
/// The directory of the tables in the package's sources.
const FOLDER: &str = "examples/data/bench";

/// A text of rows, and the largest contents of a window over them.
#[derive(Debug)]
pub(crate) struct CsvTable {
    /// The rows as in the files.
    pub(crate) text: Vec<u8>,
    pub(crate) rows: usize,
    /// The number of fields that are not empty, in all rows.
    pub(crate) fields: usize,
    /// The largest field, and the largest numbers of fields and of bytes in a window.
    pub(crate) demand: Demand,
}

impl CsvTable {
    /// Returns the table of this host. The first call reads or generates it.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<CsvTable> = OnceLock::new();
        SHARED.get_or_init(|| Self::shipped().unwrap_or_else(|| Self::generated(4141)))
    }

    /// Returns the origin of the rows, as a table of the report states it. Looks for the files but
    /// does not read them.
    pub(crate) fn origin() -> &'static str {
        if folder().is_some() {
            "the csv package's own data"
        } else {
            "generated (no sources of the csv package)"
        }
    }

    /// Returns the key column of a row.
    #[inline(always)]
    pub(crate) fn key_of(&self, row: usize) -> u8 {
        FILES[row / RUN % FILES.len()].1
    }

    /// Returns the lengths of the fields in the first window.
    pub(super) fn window(&self) -> Vec<usize> {
        let rows = reader(&self.text).into_byte_records().take(ROWS).filter_map(Result::ok);
        rows.flat_map(|row| lengths(&row).collect::<Vec<_>>()).collect()
    }

    /// Returns the shipped tables, or `None` if a file is missing, too short or not valid.
    fn shipped() -> Option<Self> {
        let folder = folder()?;
        let read = |(name, _): &(&str, u8)| cut(&fs::read(folder.join(name)).ok()?);
        let runs = FILES.iter().map(read).collect::<Option<Vec<Vec<Vec<u8>>>>>()?;
        let text: Vec<u8> =
            (0..ROWS / RUN).flat_map(|run| runs.iter().flat_map(move |file| file[run].clone())).collect();
        Self::new(text)
    }

    /// Generates rows of invented measurements, the same on every host for a seed.
    pub(crate) fn generated(seed: u64) -> Self {
        let mut rng = stream(seed, 23);
        let mut text = String::new();
        for _ in 0..ROWS * FILES.len() {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "place{},{},{},station {},\"unit, {}\",",
                rng.random_range(0..40_u64),
                if rng.random_range(0..3_u64) == 0 { "" } else { "gusts" },
                rng.random_range(0..100_000_u64),
                rng.random_range(0..60_u64),
                rng.random_range(0..9_u64)
            );
            for _ in 0..rng.random_range(0..20_u64) {
                text.push_str("and so on ");
            }
            let _ = writeln!(text, ",{}.{}", rng.random_range(0..90_u64), rng.random_range(0..1000_u64));
        }
        Self::new(text.into_bytes()).expect("the generator writes CSV")
    }

    /// Reads a text to its end, and measures its windows. Returns `None` if the text is not CSV, or
    /// if a row has only empty fields.
    fn new(text: Vec<u8>) -> Option<Self> {
        let mut reader = reader(&text);
        let mut record = ByteRecord::new();
        let mut rows: Vec<(usize, usize)> = Vec::new();
        let mut largest = 0;
        while reader.read_byte_record(&mut record).ok()? {
            largest = largest.max(lengths(&record).max()?);
            rows.push((lengths(&record).count(), lengths(&record).sum()));
        }
        // After the last row the window continues with the first.
        let window = |first: usize| {
            let of = (first..first + ROWS).map(|row| rows[row % rows.len()]);
            of.fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1))
        };
        let windows: Vec<(usize, usize)> = (0..rows.len()).map(window).collect();
        Some(Self {
            rows: rows.len(),
            fields: rows.iter().map(|row| row.0).sum(),
            demand: Demand {
                largest,
                buffers: windows.iter().map(|window| window.0).max()?,
                bytes: windows.iter().map(|window| window.1).max()?,
            },
            text,
        })
    }
}

/// Returns a reader that accepts rows with any number of fields, and does not treat the first row
/// as a header.
pub(super) fn reader(text: &[u8]) -> Reader<&[u8]> {
    ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text)
}

/// Returns the lengths of the fields of a row that get a buffer.
fn lengths(row: &ByteRecord) -> impl Iterator<Item = usize> {
    row.iter().take(COLUMNS).map(<[u8]>::len).filter(|&length| length > 0)
}

/// Returns the first [`ROWS`] rows after the header row, split into runs of [`RUN`] rows. Returns
/// `None` if the text has fewer rows or does not parse.
fn cut(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut reader = reader(text);
    let mut record = ByteRecord::new();
    let mut ends = Vec::with_capacity(ROWS / RUN + 1);
    for row in 0..=ROWS {
        if !reader.read_byte_record(&mut record).ok()? {
            return None;
        }
        if row % RUN == 0 {
            ends.push(reader.position().byte() as usize);
        }
    }
    let whole = |ends: &[usize]| {
        let mut run = text.get(ends[0]..ends[1])?.trim_ascii().to_vec();
        run.push(b'\n');
        Some(run)
    };
    ends.windows(2).map(whole).collect()
}

/// Returns the directory of the package's data in cargo's registry of sources, or `None` if it is
/// not there.
fn folder() -> Option<PathBuf> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(cargo.join("registry").join("src")).ok()?;
    let packages = registries.flatten().filter_map(|registry| fs::read_dir(registry.path()).ok());
    let ours = |name: &str| name.strip_prefix("csv-").is_some_and(|version| version.starts_with('1'));
    let mut found: Vec<PathBuf> = packages
        .flat_map(|packages| packages.flatten())
        .filter(|package| ours(&package.file_name().to_string_lossy()))
        .map(|package| package.path().join(FOLDER))
        .filter(|folder| FILES.iter().all(|(name, _)| folder.join(name).is_file()))
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_rows_are_the_same_for_a_seed() {
        let table = CsvTable::generated(3);
        assert_eq!(table.text, CsvTable::generated(3).text);
        assert_ne!(table.text, CsvTable::generated(4).text);
        assert_eq!(table.rows, ROWS * FILES.len());
        assert!(table.demand.buffers > 4 * ROWS && table.demand.buffers < table.fields, "{table:?}");
    }

    #[test]
    fn a_run_ends_at_the_end_of_a_row_despite_quotes() {
        let rows: String = (0..=ROWS).map(|row| format!("{row},\"a\nb\"\n")).collect();
        let runs = cut(rows.as_bytes()).expect("there are enough rows");
        assert_eq!(runs.len(), ROWS / RUN);
        assert!(runs[0].starts_with(b"1,\"a\nb\"\n2,"), "the head is left out");
        assert!(runs[3].ends_with(b"\n1000,\"a\nb\"\n"));
        assert_eq!(cut(b"too,short\n"), None);
    }

    #[test]
    fn shipped_tables_are_used_if_present() {
        let table = CsvTable::shared();
        assert_eq!(table.rows, ROWS * FILES.len());
        assert_eq!(CsvTable::shipped().is_some(), CsvTable::origin().starts_with("the csv"));
    }
}
