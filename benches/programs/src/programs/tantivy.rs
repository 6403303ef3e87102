//! A search index: tantivy indexes the lines of the repository with threads, and searches them.

use std::path::Path;

use tantivy::collector::Count;
use tantivy::query::QueryParser;
use tantivy::schema::{FAST, STORED, Schema, TEXT};
use tantivy::{Index, IndexWriter, TantivyDocument};

use crate::checksum::Checksum;
use crate::{Outcome, files};

/// The indexing threads, and the memory that all of them fill before they write a segment.
const THREADS: usize = 2;
const MEMORY: usize = 40_000_000;

/// The words of the queries.
const WORDS: [&str; 12] = [
    "allocator", "thread", "the", "memory", "unsafe", "ordering", "page", "free", "owner", "test", "vec",
    "nothing",
];

/// Indexes every line of the sources as a document, in memory, and counts the results of queries.
pub(crate) fn run(root: &Path) -> Outcome {
    let sources = files::texts(&root.join("crates"), "rs")?;
    let mut schema = Schema::builder();
    let body = schema.add_text_field("body", TEXT | STORED);
    let number = schema.add_u64_field("number", FAST | STORED);
    let index = Index::create_in_ram(schema.build());
    let mut writer: IndexWriter = index.writer_with_num_threads(THREADS, MEMORY)?;
    for (file, source) in sources.iter().enumerate() {
        for (line, text) in (0..).zip(source.lines()) {
            let mut document = TantivyDocument::default();
            document.add_text(body, text);
            document.add_u64(number, line);
            writer.add_document(document)?;
        }
        if file % 100 == 99 {
            writer.commit()?;
        }
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let mut checksum = Checksum::new();
    let searcher = index.reader()?.searcher();
    checksum.number(searcher.num_docs());
    let parser = QueryParser::for_index(&index, vec![body]);
    for one in WORDS {
        for other in WORDS {
            for query in [format!("{one} OR {other}"), format!("{one} AND {other}"), format!("\"{one} {other}\"")]
            {
                checksum.number(searcher.search(&parser.parse_query(&query)?, &Count)? as u64);
            }
        }
    }
    Ok(checksum)
}
