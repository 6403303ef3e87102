//! The corpus of R4 and R5: files of the standard library's sources, chosen by a hash of their
//! names. If the sources are not installed, a few files of this workspace take their place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workloads::{self, FINGERPRINT, blocks::json::toolchains};

/// The directory of the sources below a toolchain's root.
const SOURCES: &str = "lib/rustlib/src/rust/library";

/// The files of this workspace that take the place of the sources.
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

/// Rust sources and their origin.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The text of each file.
    pub files: Vec<String>,
    /// The origin, as a table states it.
    pub origin: String,
}

impl Corpus {
    /// Returns the directory of the sources below the active toolchain, or else below any other
    /// toolchain that has them. Returns `None` if none has them.
    pub fn find() -> Option<PathBuf> {
        toolchains().iter().map(|root| root.join(SOURCES)).find(|path| path.is_dir())
    }

    /// Reads at most `files` files below `root`. Returns the sample instead if the directory does
    /// not exist or contains no Rust files.
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

/// Continues the fingerprint `sum` with `bytes`. The first `sum` is 0.
pub(super) fn fingerprint(sum: u64, bytes: &[u8]) -> u64 {
    workloads::fingerprint(sum ^ FINGERPRINT, bytes)
}

/// Collects the Rust files below a directory, each with a hash of its path from the root.
/// [`Corpus::load`] takes the files with the smallest hashes.
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
    fn without_sources_the_sample_is_used_and_named() {
        for root in [None, Some(Path::new("no-such-directory"))] {
            let corpus = Corpus::load(root, 3);
            assert_eq!(corpus.files.len(), SAMPLE.len());
            assert!(corpus.origin.contains("not installed"), "{}", corpus.origin);
        }
    }

    #[test]
    fn the_same_files_are_drawn_each_time() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let corpus = Corpus::load(Some(&root), 5);
        assert_eq!(corpus.files.len(), 5);
        assert_eq!(corpus.files, Corpus::load(Some(&root), 5).files);
        assert_ne!(corpus.files, Corpus::load(Some(&root), 6).files[1..]);
    }
}
