//! A search index: tantivy indexes paragraphs on two threads, and answers queries.

use std::path::Path;

use tantivy::collector::{DocSetCollector, TopDocs};
use tantivy::query::QueryParser;
use tantivy::schema::{INDEXED, STORED, Schema, TEXT, Value as _};
use tantivy::{Index, IndexWriter, TantivyDocument};

use crate::checksum::{Checksum, ProgramResult};
use crate::files::texts;

/// The number of indexing threads.
const THREADS: usize = 2;
/// The number of bytes that the indexing threads may fill before they write a segment.
const BUDGET: usize = 32 << 20;

/// The number of times that the index is built.
const PASSES: usize = 6;
/// The number of times that each index answers all queries.
const ROUNDS: usize = 4;

/// The queries: single words, combinations and a phrase.
const QUERIES: [&str; 8] = [
    "owner",
    "remote free",
    "+slow +path -test",
    "\"free list\"",
    "chunk OR unit OR page",
    "+fn +unsafe",
    "ratio median interval",
    "const usize",
];

/// Indexes the paragraphs of the repository's pages and sources, and queries the index.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let mut sources = texts(root, "md")?;
    sources.extend(texts(root, "rs")?);
    let mut checksum = Checksum::new();
    for _ in 0..PASSES {
        query(&indexed(&sources)?, &mut checksum)?;
    }
    Ok(checksum)
}

/// Returns an index of the paragraphs, each with its number.
fn indexed(sources: &[String]) -> tantivy::Result<Index> {
    let mut schema = Schema::builder();
    let text = schema.add_text_field("text", TEXT | STORED);
    let number = schema.add_u64_field("number", INDEXED | STORED);
    let index = Index::create_in_ram(schema.build());
    let mut writer: IndexWriter = index.writer_with_num_threads(THREADS, BUDGET)?;
    let paragraphs = sources.iter().flat_map(|source| source.split("\n\n"));
    for (at, paragraph) in (0_u64..).zip(paragraphs) {
        let mut document = TantivyDocument::default();
        document.add_text(text, paragraph);
        document.add_u64(number, at);
        writer.add_document(document)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    Ok(index)
}

/// Runs every query [`ROUNDS`] times, and adds the answers to the checksum. The checksum does not
/// depend on which segment a document is in.
fn query(index: &Index, checksum: &mut Checksum) -> tantivy::Result<()> {
    let searcher = index.reader()?.searcher();
    let (text, number) = (index.schema().get_field("text")?, index.schema().get_field("number")?);
    let parser = QueryParser::for_index(index, vec![text]);
    for _ in 0..ROUNDS {
        for words in QUERIES {
            let query = parser.parse_query(words)?;
            let found = searcher.search(&query, &DocSetCollector)?;
            let best = searcher.search(&query, &TopDocs::with_limit(20).order_by_score())?;
            checksum.number(best.len() as u64);
            let mut sum = 0_u64;
            for address in found {
                let document: TantivyDocument = searcher.doc(address)?;
                sum += document.get_first(number).and_then(|value| value.as_u64()).unwrap_or(0);
            }
            checksum.number(sum);
        }
    }
    Ok(())
}
