//! Requires that `docs/glossary.md` has every term that a `DESIGN.md` defines.
//!
//! A definition is `**Term**:`, or a bold word in lower case after an article: "has the **lease**".

use crate::tidy::{Finding, SourceFile};

/// The glossary's path from the root.
const GLOSSARY: &str = "docs/glossary.md";

/// Compares the design pages with the glossary, and checks the glossary's order.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(glossary) = files.iter().find(|file| file.path == GLOSSARY) else { return Vec::new() };
    let listed: Vec<_> = entries(&glossary.text).collect();
    let mut findings = Vec::new();
    for pair in listed.windows(2).filter(|pair| pair[0].1 >= pair[1].1) {
        let advice = format!("`{}` follows `{}`: list each term once, alphabetically", pair[1].1, pair[0].1);
        findings.push(Finding::error(GLOSSARY, pair[1].0, advice));
    }
    for file in files.iter().filter(|file| file.name() == "DESIGN.md") {
        for (index, line) in file.text.lines().enumerate() {
            for term in defined(line).filter(|term| !has(&listed, term)) {
                let advice = format!("{GLOSSARY} lacks the term `{term}`: add a row");
                findings.push(Finding::error(&file.path, index + 1, advice));
            }
        }
    }
    findings
}

/// Returns the terms in the first cells of the glossary's table, in lower case, each with its line.
fn entries(text: &str) -> impl Iterator<Item = (usize, String)> {
    let rows = text.lines().enumerate().filter_map(|(index, line)| {
        let cell = line.strip_prefix("| ")?.split(" | ").next()?;
        Some((index + 1, cell.trim().to_lowercase()))
    });
    rows.filter(|(_, term)| term != "term")
}

/// Returns whether the glossary lists a term, or its singular.
fn has(listed: &[(usize, String)], term: &str) -> bool {
    let lower = term.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    listed.iter().any(|(_, entry)| *entry == lower || entry == singular)
}

/// Returns the terms that a line defines.
fn defined(line: &str) -> impl Iterator<Item = &str> {
    let mut parts = line.split("**");
    core::iter::from_fn(move || {
        loop {
            let before = parts.next()?;
            let bold = parts.next()?;
            let after = parts.clone().next()?;
            let article = ["a ", "an ", "the "].iter().any(|word| before.to_lowercase().ends_with(word));
            let word = bold.starts_with(char::is_lowercase) && !bold.contains(' ');
            let named =
                bold.starts_with(char::is_alphabetic) && !bold.ends_with(|c: char| c.is_ascii_digit());
            if named && (after.starts_with(':') || (article && word)) {
                return Some(bold);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{GLOSSARY, check, defined};
    use crate::tidy::SourceFile;

    fn found(design: &str, glossary: &str) -> Vec<String> {
        let files = [SourceFile::new("crates/a/DESIGN.md", design), SourceFile::new(GLOSSARY, glossary)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn definitions_are_recognised_and_other_bold_text_is_not() {
        let terms = |line| defined(line).collect::<Vec<_>>();
        assert_eq!(terms("* **Foreign word**: the word. **Group**: a block."), ["Foreign word", "Group"]);
        assert_eq!(terms("the thread that has the **lease** of a **record**"), ["lease", "record"]);
        assert!(terms("* **F1** A unit. **Skip.** A region. **No locks on the way.** A stream.").is_empty());
        assert!(terms("* **F2**: as **F1**").is_empty());
    }

    #[test]
    fn a_defined_term_must_be_in_the_glossary() {
        let glossary = "| term | meaning |\n|---|---|\n| inbox | the units |\n| unit | memory |\n";
        assert!(found("* **Unit**: memory.\n* **Inboxes**: no. **Units**: yes.\n", glossary).len() == 1);
        assert_eq!(
            found("Text.\n* **Lot**: pools.\n", glossary),
            ["crates/a/DESIGN.md:2: docs/glossary.md lacks the term `Lot`: add a row"]
        );
    }

    #[test]
    fn the_glossary_is_sorted_and_has_no_term_twice() {
        assert!(
            found("", "| term | meaning |\n|---|---|\n| A/A row | x |\n| abandoned | x |\n| GONE | x |\n")
                .is_empty()
        );
        assert!(found("", "| b | x |\n| a | x |\n")[0].starts_with("docs/glossary.md:2: `a` follows `b`"));
        assert_eq!(found("", "| b | x |\n| b | x |\n").len(), 1);
    }
}
