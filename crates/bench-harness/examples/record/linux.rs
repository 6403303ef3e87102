//! The commands of `record`, which record programs and rewrite traces.

use core::error::Error;
use std::alloc::System;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io, process};

use bench_harness::workloads::{Corpus, Document, answer};
use ephemera_trace::{Book, BookStep, Trace, TraceAlloc, TraceEvent, What, Writer, start};

#[global_allocator]
static HEAP: TraceAlloc<System> = TraceAlloc::new(System);

/// The seed of the document.
const SEED: u64 = 4141;
/// The minimum length of the document, in bytes.
const LENGTH: usize = 80_000;
/// The number of files to parse.
const FILES: usize = 1;
/// The number of requests: fifty for each page of the server.
const REQUESTS: u64 = 3_200;
/// The limit on the size of a recording, in bytes.
const LIMIT: u64 = 16 << 20;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["json", out] => json(out.as_ref()),
        ["syn", out] => syn(out.as_ref()),
        ["http", out] => http(out.as_ref()),
        ["thin", from, out, what] => thin(from.as_ref(), out.as_ref(), what),
        _ => {
            Err("usage: record json OUT | record syn OUT | record http OUT | record thin IN OUT WHAT".into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Records `serde_json` while it parses a text and drops the value.
fn json(out: &Path) -> Result<(), Box<dyn Error>> {
    let text = Document::generated(SEED, LENGTH).text;
    let file = begin(out)?;
    let value: serde_json::Value = serde_json::from_slice(&text)?;
    drop(value);
    thin(&file, out, &format!("serde_json::from_slice::<Value> of {} bytes", text.len()))?;
    Ok(fs::remove_file(file)?)
}

/// Records `syn` while it parses the texts and drops their trees.
fn syn(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = Corpus::load(None, FILES).files;
    files.truncate(FILES);
    let file = begin(out)?;
    let trees: Vec<syn::File> = files.iter().map(|text| syn::parse_file(text)).collect::<Result<_, _>>()?;
    drop(trees);
    let bytes: usize = files.iter().map(String::len).sum();
    thin(&file, out, &format!("syn::parse_file of {} files, {bytes} bytes", files.len()))?;
    Ok(fs::remove_file(file)?)
}

/// Records the server of R3 while it answers [`REQUESTS`] requests.
fn http(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = PathBuf::new();
    answer(REQUESTS, || {
        file = begin(out)?;
        Ok(())
    })?;
    thin(&file, out, &format!("the server of R3, {REQUESTS} requests"))?;
    Ok(fs::remove_file(file)?)
}

/// Starts a recording into a file beside `out`. Returns the path of that file.
fn begin(out: &Path) -> io::Result<PathBuf> {
    let path = CString::new(out.as_os_str().as_encoded_bytes())?;
    start(&path, LIMIT).map_err(io::Error::other)?;
    Ok(format!("{}.{}", out.display(), process::id()).into())
}

/// Copies the calls of the trace `from` to the trace `out`, with `what` as its command line. Leaves
/// out calls for blocks that were allocated before the recording. Replaces the addresses with small
/// numbers, and reuses freed numbers first. Makes the sequence numbers consecutive, sets all times
/// to 0, and assigns all calls to thread 1.
fn thin(from: &Path, out: &Path, what: &str) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(from)?;
    let mut book = Book::new();
    let mut thinned =
        Thinned { writer: Writer::new(what), numbers: Vec::new(), free: Vec::new(), made: 0, sequence: 0 };
    for event in trace.events() {
        let event = event?;
        let zeroed = matches!(event.what, What::Alloc { zeroed: true, .. });
        match book.apply(&event) {
            BookStep::Alloc { id, lost: None } => {
                let (size, align_log2) = (book.block(id).size, book.block(id).align_log2);
                let address = thinned.take(id as usize);
                thinned.push(What::Alloc { address, size, align_log2, zeroed });
            }
            BookStep::Free { id } => {
                let address = thinned.give(id as usize);
                thinned.push(What::Free { address });
            }
            BookStep::Resize { id, lost: None, .. } => {
                let address = thinned.numbers[id as usize];
                thinned.push(What::Resize { address });
                thinned.push(What::Resized { address, size: book.block(id).size });
            }
            // The block was allocated before the recording, or the call is the first half of a
            // resize.
            BookStep::Unknown | BookStep::Pending => {}
            other => return Err(format!("{}: {other:?} cannot be thinned", from.display()).into()),
        }
    }
    thinned.writer.save(out)?;
    println!("{}: {} events, {} bytes", out.display(), thinned.sequence, thinned.writer.bytes().len());
    Ok(())
}

/// The rewritten trace, and the addresses that it has used.
struct Thinned {
    writer: Writer,
    /// The address of each block, indexed by its number in the book.
    numbers: Vec<u64>,
    free: Vec<u64>,
    made: u64,
    sequence: u64,
}

impl Thinned {
    fn take(&mut self, id: usize) -> u64 {
        let address = self.free.pop().unwrap_or_else(|| {
            self.made += 16;
            self.made
        });
        if self.numbers.len() <= id {
            self.numbers.resize(id + 1, 0);
        }
        self.numbers[id] = address;
        address
    }

    fn give(&mut self, id: usize) -> u64 {
        self.free.push(self.numbers[id]);
        self.numbers[id]
    }

    fn push(&mut self, what: What) {
        self.sequence += 1;
        self.writer.push(&TraceEvent { sequence: self.sequence, time: 0, thread: 1, what });
    }
}
