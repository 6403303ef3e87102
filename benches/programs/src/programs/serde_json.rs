//! A JSON library: serde_json parses the recorded measurements, changes them and serializes them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::checksum::{Checksum, ProgramResult};

/// The number of times that the document is parsed and serialized.
const PASSES: usize = 100;

/// The maximum number of documents that stay live after a pass.
const LIVE: usize = 8;

/// In each pass, parses, changes and serializes the document. The trees of the last [`LIVE`] passes
/// stay live.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let text = fs::read_to_string(root.join("docs/benchmarks/recorded.json"))?;
    let mut checksum = Checksum::new();
    let mut live: Vec<Value> = Vec::new();
    for pass in 0..PASSES {
        let mut document: Value = serde_json::from_str(&text)?;
        rename(&mut document, &format!("_{pass}"));
        checksum.bytes(serde_json::to_string(&document)?.as_bytes());
        if live.len() == LIVE {
            live.remove(0);
        }
        live.push(document);
    }
    checksum.number(live.iter().map(count).sum());
    Ok(checksum)
}

/// Appends `ending` to every key and to every string.
fn rename(value: &mut Value, ending: &str) {
    match value {
        Value::String(text) => text.push_str(ending),
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, ending)),
        Value::Object(map) => {
            for (key, mut value) in core::mem::take(map) {
                rename(&mut value, ending);
                map.insert(key + ending, value);
            }
        }
        _ => {}
    }
}

/// Returns the number of values in a document, including nested ones.
fn count(value: &Value) -> u64 {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<u64>(),
        _ => 1,
    }
}
