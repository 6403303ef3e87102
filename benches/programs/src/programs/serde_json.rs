//! A JSON library: serde_json reads the recorded measurements, changes them and writes them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::ProgramResult;
use crate::checksum::Checksum;

/// The number of times that the document is read and written.
const PASSES: usize = 100;

/// The number of documents that are live at the same time.
const LIVE: usize = 8;

/// Reads, changes and writes the document. The trees of the last [`LIVE`] passes stay live.
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

/// Adds `ending` to every key and to every string.
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

/// Returns the number of values in a document.
fn count(value: &Value) -> u64 {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<u64>(),
        _ => 1,
    }
}
