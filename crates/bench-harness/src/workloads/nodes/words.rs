//! The accesses of R5: the identifiers of the corpus in order of occurrence. A few identifiers make
//! up most of the accesses.

use std::collections::HashMap;

use rand::RngExt;
use rand::seq::SliceRandom;

use super::corpus::fingerprint;
use crate::workloads::draws::stream;

/// The largest number of accesses. Later words of the corpus are left out.
const ACCESSES: usize = 20_000;
/// The average number of accesses per access that puts a value.
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

    /// Returns a hash of the key. The order of the hashes is unrelated to that of the keys, which
    /// keeps a treap balanced.
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
pub(super) struct SourceWords {
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

/// Returns the words of a source outside of comments and strings: identifiers and keywords.
fn identifiers(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    // Returns the offset after the first `end` at or after `from`, or the length of the source.
    let until = |from: usize, end: &[u8]| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.windows(end.len())
            .position(|part| part == end)
            .map_or(bytes.len(), |found| from + found + end.len())
    };
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'/' if bytes[at..].starts_with(b"//") => until(at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => until(at + 2, b"*/"),
            b'"' => string_end(bytes, at + 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = bytes[at..].iter().take_while(|byte| part(byte)).count();
                words.push(&text[at..at + length]);
                at + length
            }
            b'0'..=b'9' => at + bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count(),
            _ => at + 1,
        };
    }
    words
}

/// Returns the offset after the quotation mark that ends a string. If there is none, the offset is
/// at or past the end of the source.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
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
