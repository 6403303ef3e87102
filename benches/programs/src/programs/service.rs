//! A service with a cache: each request parses a document of 10 KB, and every second one leaves a
//! string of 100 bytes in the cache.

use std::path::Path;

use serde_json::{Value, json};

use crate::Outcome;
use crate::checksum::Checksum;

/// The requests, and the strings in the full cache.
const REQUESTS: u64 = 24_000;
const CACHED: usize = 10_000;

/// The items of a document, and the different documents.
const ITEMS: u64 = 110;
const DOCUMENTS: u64 = 16;

/// The length of a cached string in bytes.
const KEPT: usize = 100;

/// Answers the requests one after the other. The repository's files are not read.
pub(crate) fn run(_root: &Path) -> Outcome {
    serve(|request| request())
}

/// The result of a request: a number for its client, and a string for the cache.
type Answer = serde_json::Result<(u64, Option<String>)>;

/// Answers the requests. `around` runs each of them.
pub(super) fn serve(around: impl Fn(&dyn Fn() -> Answer) -> Answer) -> Outcome {
    let documents: Vec<String> = (0..DOCUMENTS).map(document).collect();
    let mut cache: Vec<Option<String>> = vec![None; CACHED];
    let mut checksum = Checksum::new();
    for number in 0..REQUESTS {
        let text = &documents[(number % DOCUMENTS) as usize];
        let (total, kept) = around(&|| answer(text, number))?;
        checksum.number(total);
        if kept.is_some() {
            // A new string replaces one of any age.
            let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            cache[place as usize % CACHED] = kept;
        }
    }
    cache.iter().flatten().for_each(|kept| checksum.bytes(kept.as_bytes()));
    Ok(checksum)
}

/// Parses a document, and adds up its prices. Every second request returns a string to keep.
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
