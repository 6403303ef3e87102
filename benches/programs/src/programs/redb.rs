//! An embedded store: redb keeps the lines of the repository's sources, in memory.

use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{Builder, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::checksum::{Checksum, ProgramResult};
use crate::files;

/// The table of lines, by file and line number.
const LINES: TableDefinition<'_, (u32, u32), &str> = TableDefinition::new("lines");
/// The table of words, each with the number of times that it occurs.
const WORDS: TableDefinition<'_, &str, u64> = TableDefinition::new("words");

/// The size of the page cache in bytes. The default of redb is 1 GiB.
const CACHE: usize = 16 << 20;

/// The maximum number of files whose lines a transaction stores.
const FILES: usize = 8;

/// Stores every line and counts the words. Each transaction stores the lines of up to [`FILES`]
/// files, and then removes every third line of the first file. After each transaction, the program
/// reads a range of lines.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let sources = files::texts(&root.join("crates"), "rs")?;
    let store = Builder::new().set_cache_size(CACHE).create_with_backend(InMemoryBackend::new())?;
    let mut checksum = Checksum::new();
    for (batch, group) in sources.chunks(FILES).enumerate() {
        let first = u32::try_from(batch * FILES)?;
        let write = store.begin_write()?;
        {
            let mut lines = write.open_table(LINES)?;
            let mut words = write.open_table(WORDS)?;
            for (file, text) in (first..).zip(group) {
                for (number, line) in (0..).zip(text.lines()) {
                    lines.insert((file, number), line)?;
                    for word in line.split_whitespace() {
                        let before = words.get(word)?.map_or(0, |count| count.value());
                        words.insert(word, before + 1)?;
                    }
                }
            }
            for number in (0..u32::try_from(group[0].lines().count())?).step_by(3) {
                let removed = lines.remove((first, number))?;
                checksum.number(removed.map_or(0, |line| line.value().len() as u64));
            }
        }
        write.commit()?;
        let read = store.begin_read()?;
        let lines = read.open_table(LINES)?;
        for entry in lines.range((first / 2, 10)..(first / 2 + 2, 50))? {
            let (key, line) = entry?;
            checksum.number(u64::from(key.value().1));
            checksum.bytes(line.value().as_bytes());
        }
        checksum.number(lines.len()?);
    }
    let read = store.begin_read()?;
    for entry in read.open_table(WORDS)?.iter()? {
        let (word, count) = entry?;
        checksum.bytes(word.value().as_bytes());
        checksum.number(count.value());
    }
    Ok(checksum)
}
