//! The text of R1: a real document if the toolchain's sources are installed, and a generated one
//! otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocator_api2::alloc::Global;
use rand::RngExt;

use super::{parse, walk};
use crate::workloads::draws::{SplitMix64, stream};
use crate::workloads::{FINGERPRINT, fingerprint};

/// The path of the real document below a toolchain's root.
const REAL: &str = "lib/rustlib/src/rust/library/stdarch/intrinsics_data/arm_intrinsics.json";

/// A JSON text and its origin.
#[derive(Debug)]
pub struct Document {
    /// The bytes of the text.
    pub text: Vec<u8>,
    /// The number of values in the text.
    pub nodes: u64,
    /// The origin, as a table states it.
    pub origin: String,
}

impl Document {
    /// The minimum length, in bytes, of a document that stands in for the real one.
    pub const LENGTH: usize = 5_000_000;

    /// Looks for the real document below all installed toolchains. Returns the path of the longest
    /// one, because some releases have a shortened file, or `None` if there is none.
    pub fn find() -> Option<PathBuf> {
        let length = |path: &PathBuf| path.metadata().map_or(0, |file| file.len());
        toolchains().iter().map(|root| root.join(REAL)).filter(|path| path.is_file()).max_by_key(length)
    }

    /// Reads the document at `path`. Generates one of at least `length` bytes if the file is
    /// missing or is not JSON.
    pub fn load(path: Option<&Path>, seed: u64, length: usize) -> Self {
        let real = path.and_then(|path| std::fs::read(path).ok()).and_then(|text| {
            let origin = format!("arm_intrinsics.json of rust-src, {} bytes", text.len());
            Self::new(text, origin)
        });
        real.unwrap_or_else(|| Self::generated(seed, length))
    }

    /// Generates a document of at least `length` bytes.
    pub fn generated(seed: u64, length: usize) -> Self {
        let text = generate(seed, length);
        let origin = format!("generated, {} bytes (rust-src is not installed)", text.len());
        Self::new(text, origin).expect("the generator writes JSON")
    }

    fn new(text: Vec<u8>, origin: String) -> Option<Self> {
        let nodes = walk(&parse(&text, Global).ok()?).nodes;
        Some(Self { text, nodes, origin })
    }

    /// Returns the 64-bit FNV-1a hash of the text. It shows whether two runs parsed the same text.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(FINGERPRINT, &self.text)
    }
}

/// Returns the roots of the active toolchain and of all others that rustup knows.
pub(crate) fn toolchains() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        output("rustc", &["--print", "sysroot"]).into_iter().map(PathBuf::from).collect();
    let listed = output("rustup", &["toolchain", "list", "--verbose"]);
    // A line consists of a name, remarks in brackets, and the path.
    roots.extend(
        listed.iter().filter_map(|line| line.find(std::path::MAIN_SEPARATOR).map(|at| line[at..].into())),
    );
    roots
}

/// Returns the lines of a command's output, or none if the command does not run.
fn output(program: &str, arguments: &[&str]) -> Vec<String> {
    let Ok(done) = Command::new(program).args(arguments).output() else { return Vec::new() };
    String::from_utf8_lossy(&done.stdout).lines().map(|line| line.trim().to_owned()).collect()
}

const SYLLABLES: [&str; 16] =
    ["va", "dd", "qs", "mul", "ld", "st", "cvt", "sh", "lane", "hi", "lo", "min", "max", "abs", "ro", "tbl"];

/// Returns a JSON catalogue of invented instructions with at least `length` bytes. A seed gives the
/// same text on every host. The text has mostly short strings and small objects in lists, and some
/// numbers, booleans, nulls and escapes.
pub(super) fn generate(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = stream(seed, 4);
    let mut text = String::with_capacity(length + 4096);
    text.push_str("[\n");
    while text.len() < length {
        if text.len() > 2 {
            text.push_str(",\n");
        }
        text.push_str(&entry(&mut rng));
    }
    text.push_str("\n]\n");
    text.into_bytes()
}

/// Returns an invented instruction.
fn entry(rng: &mut SplitMix64) -> String {
    format!(
        "  {{\n    \"name\": {},\n    \"arguments\": [{}],\n    \"returns\": {{\"value\": {}}},\n    \"cycles\": {}.{},\n    \
         \"widths\": [{}, {}],\n    \"safe\": {},\n    \"registers\": {{{}}},\n    \"steps\": [[{}]]\n  }}",
        string(rng, 2, 5),
        list(rng, 4, |rng, _| string(rng, 2, 6)),
        string(rng, 1, 3),
        rng.random_range(0..40_u64),
        rng.random_range(0..100_u64),
        8 << rng.random_range(0..4_u64),
        rng.random_range(0..1000_u64),
        rng.random_range(0..2_u64) == 0,
        list(rng, 3, |rng, i| format!("\"r{i}\": {{\"range\": null, \"kind\": {}}}", string(rng, 1, 2))),
        list(rng, 6, |rng, _| string(rng, 3, 20)),
    )
}

/// Returns one to `most` items, separated by commas. `item` returns the item with an index.
fn list(rng: &mut SplitMix64, most: u64, item: impl Fn(&mut SplitMix64, u64) -> String) -> String {
    let items: Vec<String> = (0..=rng.random_range(0..most)).map(|i| item(rng, i)).collect();
    items.join(", ")
}

/// Returns a quoted string of `low` to `high` syllables, sometimes with an escape.
fn string(rng: &mut SplitMix64, low: u64, high: u64) -> String {
    let mut text = "\"".to_owned();
    for _ in 0..low + rng.random_range(0..high - low + 1) {
        text.push_str(SYLLABLES[rng.random_range(0..16_u64) as usize]);
        text.push_str(match rng.random_range(0..24_u64) {
            0 => "_",
            1 => "\\n",
            2 => " ",
            _ => "",
        });
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_deterministic_and_long_enough() {
        let text = generate(3, 50_000);
        assert!((50_000..60_000).contains(&text.len()), "{}", text.len());
        assert_eq!(text, generate(3, 50_000));
        assert_ne!(text, generate(4, 50_000));
        let document = Document::generated(3, 50_000);
        assert!(document.nodes > 1_000, "{}", document.nodes);
        assert_eq!(document.fingerprint(), Document::generated(3, 50_000).fingerprint());
    }

    #[test]
    fn a_file_that_is_not_json_is_replaced_by_the_generated_document() {
        let document = Document::load(Some(Path::new(file!())), 1, 1000);
        assert!(document.origin.starts_with("generated"), "{}", document.origin);
    }
}
