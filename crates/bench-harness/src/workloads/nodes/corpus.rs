//! The corpus of R4 and R5: files of the standard library's sources, chosen by a hash of their names, or a few files of this
//! harness where those are not installed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workloads::blocks::json::toolchains;

/// Where the sources lie below a toolchain's root.
const SOURCES: &str = "lib/rustlib/src/rust/library";

/// What stands in for them.
const SAMPLE: [(&str, &str); 8] = [
    ("blocks.rs", include_str!("../../blocks.rs")),
    ("tally.rs", include_str!("../../tally.rs")),
    ("runner/child.rs", include_str!("../../runner/child.rs")),
    ("runner/parent.rs", include_str!("../../runner/parent.rs")),
    ("stats/bootstrap.rs", include_str!("../../../../measure/src/stats/bootstrap.rs")),
    ("workloads/draws.rs", include_str!("../draws.rs")),
    ("workloads/slots.rs", include_str!("../slots.rs")),
    ("workloads/blocks/json/parser.rs", include_str!("../blocks/json/parser.rs")),
];

/// Rust sources, and where they are from.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The text of each file.
    pub files: Vec<String>,
    /// What a table says about them.
    pub origin: String,
}

impl Corpus {
    /// The library's directory below the active toolchain, else below any other that has it.
    #[must_use]
    pub fn find() -> Option<PathBuf> {
        toolchains().iter().map(|root| root.join(SOURCES)).find(|path| path.is_dir())
    }

    /// Reads so many files below `root`, or the sample where there is no such directory or nothing in it.
    #[must_use]
    pub fn load(root: Option<&Path>, files: usize) -> Self {
        let mut found = Vec::new();
        if let Some(root) = root {
            collect(root, root, &mut found);
        }
        found.sort_unstable();
        let texts = found.iter().filter_map(|(_, path)| fs::read_to_string(path).ok());
        let files: Vec<String> = texts.take(files).collect();
        if files.is_empty() {
            let files: Vec<String> = SAMPLE.iter().map(|(_, text)| (*text).to_owned()).collect();
            let origin = format!("{} (rust-src is not installed)", described("this harness", &files));
            return Self { files, origin };
        }
        let origin = described("rust-src", &files);
        Self { files, origin }
    }
}

fn described(of: &str, files: &[String]) -> String {
    let bytes: usize = files.iter().map(String::len).sum();
    let fingerprint = files.iter().fold(0, |sum, text| fingerprint(sum, text.as_bytes()));
    format!("{} files of {of}, {bytes} bytes, fingerprint {fingerprint:016x}", files.len())
}

/// FNV-1a over 64 bits, started from `sum`.
pub(super) fn fingerprint(sum: u64, bytes: &[u8]) -> u64 {
    let start = sum ^ 0xCBF2_9CE4_8422_2325;
    bytes.iter().fold(start, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Rust files below a directory, each with a hash of its path from the root, by which they are drawn.
fn collect(root: &Path, directory: &Path, found: &mut Vec<(u64, PathBuf)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            found.push((fingerprint(0, name.as_bytes()), path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_sources_the_sample_is_used_and_says_so() {
        for root in [None, Some(Path::new("no-such-directory"))] {
            let corpus = Corpus::load(root, 3);
            assert_eq!(corpus.files.len(), SAMPLE.len());
            assert!(corpus.origin.contains("not installed"), "{}", corpus.origin);
        }
    }

    #[test]
    fn files_are_drawn_alike_each_time() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let corpus = Corpus::load(Some(&root), 5);
        assert_eq!(corpus.files.len(), 5);
        assert_eq!(corpus.files, Corpus::load(Some(&root), 5).files);
        assert_ne!(corpus.files, Corpus::load(Some(&root), 6).files[1..]);
    }
}
