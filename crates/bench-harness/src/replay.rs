//! Selects the contenders that take part in the replay of a trace.

use ephemera_trace::replay::{Candidate, Field, REFERENCE, TWIN};

use crate::card::ContenderClass;
use crate::contenders::{self, played};

/// The key of upstream's `OneRingAlloc`. At thread exit that allocator writes to freed memory,
/// which corrupts the heap of the whole process. It therefore takes part in the replay of a program
/// with several threads only if the user names it in `--peers`.
const SPOILS: &str = "upstream-one-ring";

/// Returns the contenders that can replay a program, and those that cannot, with the reasons.
/// `threaded` says whether the program has several threads. If `peers` is not empty, only the
/// reference, its second entry and the contenders with these keys take part.
pub fn field(threaded: bool, peers: &[String]) -> Field {
    let mut field = Field::default();
    for entry in contenders::of(ContenderClass::Blocks) {
        let always = [REFERENCE, TWIN].contains(&entry.key);
        if !(always || peers.is_empty() || peers.iter().any(|peer| peer == entry.key)) {
            continue;
        }
        let spoils = threaded && entry.key == SPOILS && peers.is_empty();
        let why = spoils
            .then_some("may crash at thread exit; name it in --peers to include it")
            .or_else(|| played::why_not(&entry.info.caps, threaded));
        match (entry.replay, why) {
            (Some(build), None) => {
                field.candidates.push(Candidate { key: entry.key, name: entry.info.name, build });
            }
            (_, why) => {
                field.left_out.push((entry.key.to_owned(), why.unwrap_or("not built in").to_owned()));
            }
        }
    }
    field
}
