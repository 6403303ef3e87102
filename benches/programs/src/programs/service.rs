//! A service with a cache: each request parses a document of 10 KB, and every second request leaves
//! a string of 100 bytes in the cache. In a variant with bursts, a few requests also allocate and
//! fill 64 MB.

use std::path::Path;

use serde_json::{Value, json};

use crate::checksum::{Checksum, ProgramResult};

/// The amount of work in a run of the service.
pub(crate) struct ServiceLoad {
    pub(super) requests: u64,
    /// The number of strings in the full cache.
    pub(super) cached: usize,
    /// The number of requests from one burst to the next, or `None` if there are no bursts.
    pub(super) burst_every: Option<u64>,
    /// Whether the service prints its resident memory after it has answered all requests.
    pub(super) prints_memory: bool,
}

/// The load of the program `service`.
pub(super) const SHORT: ServiceLoad =
    ServiceLoad { requests: 24_000, cached: 10_000, burst_every: None, prints_memory: false };

/// The load of the program `service-long`, for `cargo xtask bench --scopes`.
pub(super) const LONG: ServiceLoad =
    ServiceLoad { requests: 500_000, cached: 200_000, burst_every: None, prints_memory: true };

/// The load of the program `service-bursts`. Only the memory of this program is measured, so it
/// answers fewer requests than `service-long`.
pub(super) const BURSTS: ServiceLoad =
    ServiceLoad { requests: 50_000, cached: 200_000, burst_every: Some(10_000), prints_memory: false };

/// The number of blocks in a burst, and the size of each in bytes.
const BURST: (usize, usize) = (64_000, 1_000);

/// The number of requests from a burst to the next reading of the resident memory.
const AFTER: u64 = 10;

const ITEMS: u64 = 110;
/// The number of different documents.
const DOCUMENTS: u64 = 16;

/// The length of a cached string in bytes.
const KEPT: usize = 100;

/// Runs the program `service`, which answers its requests one after another. Does not read files of
/// the repository.
pub(crate) fn run(_root: &Path) -> ProgramResult {
    serve(&SHORT, |request| request())
}

/// Runs the program `service-long` of `cargo xtask bench --scopes`.
pub(crate) fn run_long(_root: &Path) -> ProgramResult {
    serve(&LONG, |request| request())
}

/// Runs the program `service-bursts`.
pub(crate) fn run_bursts(_root: &Path) -> ProgramResult {
    serve(&BURSTS, |request| request())
}

/// The result of a request: a number for the client and possibly a string for the cache, or the
/// parser's error.
type Answer = serde_json::Result<(u64, Option<String>)>;

/// Answers the requests of `load`. Each request is a closure, which `around` calls. For each burst,
/// prints the resident memory in bytes before the burst and [`AFTER`] requests after it. Returns
/// the checksum of all answers and of the final cache.
pub(super) fn serve(load: &ServiceLoad, around: impl Fn(&dyn Fn() -> Answer) -> Answer) -> ProgramResult {
    let documents: Vec<String> = (0..DOCUMENTS).map(document).collect();
    let mut cache: Vec<Option<String>> = vec![None; load.cached];
    let mut before = 0;
    let mut checksum = Checksum::new();
    for number in 0..load.requests {
        let text = &documents[(number % DOCUMENTS) as usize];
        // Bursts start after the first requests, which warm the service up.
        let since = load.burst_every.filter(|&every| number >= every).map(|every| number % every);
        if since == Some(0) {
            before = resident()?;
        }
        let (total, kept) = around(&|| {
            if since == Some(0) {
                burst();
            }
            answer(text, number)
        })?;
        if since == Some(AFTER) {
            println!("burst {before} {}", resident()?);
        }
        checksum.number(total);
        if kept.is_some() {
            // The new string replaces a cached string of any age.
            let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            cache[place as usize % load.cached] = kept;
        }
    }
    if load.prints_memory {
        println!("resident {}", resident()?);
    }
    cache.iter().flatten().for_each(|kept| checksum.bytes(kept.as_bytes()));
    Ok(checksum)
}

/// Allocates and fills the blocks of a burst, then frees them.
fn burst() {
    let (blocks, size) = BURST;
    let filled: Vec<Vec<u8>> = (0..blocks).map(|number| vec![number as u8; size]).collect();
    core::hint::black_box(filled);
}

/// Returns the resident memory of the process in bytes.
fn resident() -> Result<u64, Box<dyn core::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("the status has no VmRSS")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Parses a document and returns the sum of its prices. For an even `number`, also returns a string
/// to keep in the cache.
fn answer(text: &str, number: u64) -> Answer {
    let document: Value = serde_json::from_str(text)?;
    let items = document["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let total = items.iter().filter_map(|item| item["price"].as_u64()).sum();
    let kept = (number % 2 == 0).then(|| format!("{number:>KEPT$}"));
    Ok((total, kept))
}

/// Returns a document of about 10 KB.
fn document(number: u64) -> String {
    let item = |item: u64| {
        let price = (number * 104_729 + item * 1_299_709) % 10_007;
        json!({ "name": format!("article {price} of shelf {item}"), "price": price,
            "tags": ["new", format!("row {}", price % 17)], "stock": { "here": item % 7, "there": price % 5 } })
    };
    json!({ "number": number, "items": (0..ITEMS).map(item).collect::<Vec<_>>() }).to_string()
}
