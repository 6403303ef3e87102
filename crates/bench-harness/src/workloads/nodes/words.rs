//! The accesses of R5: the identifiers of the corpus in order of occurrence. A few identifiers make
//! up most of the accesses.

use std::collections::HashMap;
use std::sync::LazyLock;

use rand::RngExt;
use rand::seq::SliceRandom;
use regex::Regex;

use super::corpus::fingerprint;
use crate::workloads::draws::stream;

/// The largest number of accesses. Later words of the corpus are left out.
const ACCESSES: usize = 20_000;
/// On average, one access in this number puts a value.
const PUT_ONE_IN: u64 = 10;

/// An identifier, ordered by its first eight bytes, then by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) prefix: u64,
    pub(super) id: u32,
}

impl Key {
    fn new(word: &str, id: u32) -> Self {
        let mut prefix = [0; 8];
        for (to, from) in prefix.iter_mut().zip(word.bytes()) {
            *to = from;
        }
        Self { prefix: u64::from_be_bytes(prefix), id }
    }

    /// Returns a hash of the key. The order of the hashes is unrelated to the order of the keys, so
    /// a treap stays balanced.
    pub(super) fn priority(self) -> u32 {
        (fingerprint(self.prefix, &self.id.to_le_bytes()) >> 32) as u32
    }
}

/// One access to the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The index of the key.
    pub(super) word: u32,
    /// Whether the access puts a value for the key. Otherwise it looks the key up.
    pub(super) put: bool,
}

/// The keys, the accesses, and the order of deletion.
#[derive(Debug)]
pub(crate) struct SourceWords {
    pub(super) keys: Vec<Key>,
    pub(super) accesses: Vec<Access>,
    pub(super) sweep: Vec<u32>,
}

impl SourceWords {
    /// Collects the words of `files`. `seed` decides which accesses put a value, and the order of
    /// deletion.
    pub(super) fn new(files: &[String], seed: u64) -> Self {
        let mut rng = stream(seed, 10);
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut keys = Vec::new();
        let mut accesses = Vec::new();
        for word in files.iter().flat_map(|text| identifiers(text)).take(ACCESSES) {
            let word = *numbers.entry(word).or_insert_with(|| {
                keys.push(Key::new(word, keys.len() as u32));
                keys.len() as u32 - 1
            });
            accesses.push(Access { word, put: rng.random_range(0..PUT_ONE_IN) == 0 });
        }
        let mut sweep: Vec<u32> = (0..keys.len() as u32).collect();
        sweep.shuffle(&mut rng);
        Self { keys, accesses, sweep }
    }
}

/// Matches comments, strings, numbers and words. A comment or a string without an end reaches to
/// the end of the source.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let parts =
        r#"(?s)//[^\n]*|/\*.*?(?:\*/|\z)|"(?:\\.|[^"\\])*["\\]?|[0-9][0-9A-Za-z]*|[A-Za-z_][0-9A-Za-z_]*"#;
    Regex::new(parts).expect("a valid expression")
});

/// Returns the words of a source outside of comments and strings: identifiers and keywords.
fn identifiers(text: &str) -> Vec<&str> {
    let is_word = |part: &&str| part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    PARTS.find_iter(text).map(|part| part.as_str()).filter(is_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_found_outside_of_comments_and_strings() {
        let text = "fn a_b(x: u8) // no\n{ /* no \n no */ let s = \"no \\\" no\"; x2 + 0x1f }";
        assert_eq!(identifiers(text), ["fn", "a_b", "x", "u8", "let", "s", "x2"]);
        assert_eq!(identifiers("\"open"), Vec::<&str>::new());
        assert_eq!(identifiers("/* open"), Vec::<&str>::new());
        assert_eq!(identifiers("é_x é"), ["_x"]);
    }

    #[test]
    fn the_accesses_are_the_words_in_their_order() {
        let words = SourceWords::new(&["let a = b + a;".to_owned(), "b".to_owned()], 1);
        let order: Vec<u32> = words.accesses.iter().map(|access| access.word).collect();
        assert_eq!(order, [0, 1, 2, 1, 2]);
        assert_eq!(words.keys.len(), 3);
        let mut sweep = words.sweep.clone();
        sweep.sort_unstable();
        assert_eq!(sweep, [0, 1, 2]);
    }
}
