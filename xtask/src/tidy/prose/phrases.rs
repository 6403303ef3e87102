//! The phrases that the rules of prose exclude, each with a better phrase; the words that mark
//! unfinished code; and the starts of sentences that have no subject.

/// A phrase in lower case, and the advice for it.
const PHRASES: &[(&str, &str)] = &[
    ("in vain", "say what failed, or \"without effect\""),
    ("for ever", "\"never freed\", \"permanently\" or \"without end\""),
    ("come home", HOME),
    ("comes home", HOME),
    ("came home", HOME),
    ("coming home", HOME),
    ("anew", "\"again\", or \"a new …\""),
    ("so many", "\"this number of\", or the number itself"),
    ("so much", "\"this much\", or the amount itself"),
    ("behind it", "\"after it\", or \"while it is held\""),
    ("behind that", "\"after that\""),
];

/// The advice for the phrases with the word "home".
const HOME: &str = "\"is freed\" or \"is booked\"";

/// Words in lower case that mark unfinished code.
const UNFINISHED: &[&str] = &["fixme", "xxx"];

/// Words that begin a clause in place of a subject, whatever word follows.
const PEOPLE: &[&str] = &["who", "whoever", "whose", "theirs"];

/// Words that begin a clause in place of a subject if a verb follows.
const THINGS: &[&str] = &["what", "whatever", "which", "whichever"];

/// Verbs that may follow the words of [`THINGS`].
const VERBS: &[&str] = &[
    "are", "begins", "came", "can", "cannot", "changed", "changes", "comes", "costs", "counts", "did",
    "differs", "does", "ends", "fails", "failed", "follows", "gives", "goes", "had", "has", "have", "holds",
    "is", "keeps", "lies", "lives", "may", "means", "must", "needs", "remains", "runs", "says", "stands",
    "stays", "takes", "was", "were", "will", "would",
];

/// Returns the offset of each fault in a paragraph, with the advice.
pub(super) fn found(text: &str) -> Vec<(usize, String)> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for (phrase, advice) in PHRASES {
        found.extend(
            whole(&lower, phrase).map(|at| (at, format!("\"{phrase}\" is not plain: write {advice}"))),
        );
    }
    for word in UNFINISHED {
        let advice = "marks unfinished code: finish it, or describe the fault in an issue";
        found.extend(whole(&lower, word).map(|at| (at, format!("\"{word}\" {advice}"))));
    }
    found.extend(sentences(&lower).filter_map(|(at, sentence)| {
        let start = headless(sentence)?;
        Some((at, format!("a sentence begins with \"{start}\": name its subject")))
    }));
    found
}

/// Returns the offsets of a phrase where it begins and ends at the boundary of a word.
fn whole(text: &str, phrase: &str) -> impl Iterator<Item = usize> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let offsets = text.match_indices(phrase).map(|(at, _)| at);
    offsets.filter(move |&at| !text[..at].ends_with(word) && !text[at + phrase.len()..].starts_with(word))
}

/// Returns the sentences of a paragraph with their offsets.
fn sentences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(". ").flat_map(|part| part.split_inclusive("? ")).map(move |sentence| {
        let start = at;
        at += sentence.len();
        (start, sentence)
    })
}

/// Returns the first two words of a sentence that begins with a clause in place of a subject.
/// Returns `None` for any other sentence and for a question.
fn headless(sentence: &str) -> Option<String> {
    if sentence.trim_end().ends_with('?') {
        return None;
    }
    let mut words = sentence.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    let clause = PEOPLE.contains(&first) || (THINGS.contains(&first) && VERBS.contains(&second));
    clause.then(|| format!("{first} {second}"))
}

#[cfg(test)]
mod tests {
    use super::{PHRASES, UNFINISHED, found};

    #[test]
    fn every_phrase_is_found_as_a_whole_word_only() {
        for (phrase, advice) in PHRASES {
            assert_eq!(*phrase, phrase.to_ascii_lowercase());
            let text = format!("It is {phrase}, as before.");
            let [(at, said)] = &found(&text)[..] else { panic!("{phrase} is found once") };
            assert_eq!(*at, 6, "{phrase}");
            assert!(said.contains(phrase) && said.ends_with(advice), "{said}");
            assert!(found(&format!("It is x{phrase}s.")).is_empty(), "{phrase}");
        }
        assert_eq!(found("Anew.").len(), 1);
    }

    #[test]
    fn words_of_unfinished_code_are_found_as_whole_words_only() {
        for word in UNFINISHED {
            let advice = "marks unfinished code: finish it, or describe the fault in an issue";
            let said = format!("\"{word}\" {advice}");
            assert_eq!(found(&format!("{}: later.", word.to_ascii_uppercase())), [(0, said)]);
            assert!(found(&format!("It is a{word}.")).is_empty(), "{word}");
        }
    }

    #[test]
    fn a_sentence_without_a_subject_is_reported() {
        let texts =
            ["Who frees it looks.", "Whoever pushes, looks.", "What came is booked.", "Which is none."];
        for text in texts {
            assert_eq!(found(text).len(), 1, "{text}");
            let second = format!("The owner looks. {text}");
            assert_eq!(found(&second)[0].0, 17, "{second}");
        }
    }

    #[test]
    fn questions_and_nominal_headings_are_accepted() {
        for text in
            ["Who frees it?", "What is live?", "What to do about a miss.", "The thread that frees it."]
        {
            assert!(found(text).is_empty(), "{text}");
        }
        assert_eq!(found("Is it free? Who knows.").len(), 1, "the question ends before the second sentence");
    }
}
