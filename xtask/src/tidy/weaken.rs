//! Compares the weakenings in the code with the table of negative controls. Each weakening needs a
//! row, and each row a weakening.

use std::collections::BTreeSet;

use super::{Finding, SourceFile};
use crate::controls::table::FILE;

/// The macros whose string arguments name weakenings.
const MACROS: [&str; 2] = [concat!("weakened!", "("), concat!("ordering!", "(")];

/// Compares the weakenings in the crates with `names`, the names in the table.
pub(super) fn check(files: &[SourceFile], names: &[String]) -> Vec<Finding> {
    let crates = || files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/"));
    let mut findings = Vec::new();
    let mut present = BTreeSet::new();
    for file in crates() {
        for (line, name) in weakenings(&file.text) {
            present.insert(name);
            if !names.iter().any(|listed| listed == name) {
                let text = format!(
                    "the weakening `{name}` has no row in {FILE}: name the test that must fail with it"
                );
                findings.push(Finding::error(&file.path, line, text));
            }
        }
    }
    for name in names {
        let quoted = format!("\"{name}\"");
        if !present.contains(name.as_str()) {
            let table = files.iter().find(|file| file.path == FILE);
            let line = table.and_then(|table| table.text.lines().position(|line| line.contains(&quoted)));
            let text = format!("no crate has a weakening `{name}`: remove the row, or correct its name");
            findings.push(Finding::error(FILE, line.map_or(1, |index| index + 1), text));
        }
    }
    findings
}

/// Returns the names of the weakenings in a file: the strings between the parentheses of the
/// macros. Each name comes with its line.
fn weakenings(text: &str) -> Vec<(usize, &str)> {
    let mut starts: Vec<_> = MACROS
        .into_iter()
        .flat_map(|name| text.match_indices(name))
        .map(|(at, name)| at + name.len())
        .collect();
    starts.sort_unstable();
    starts.into_iter().flat_map(|start| names_from(text, start)).collect()
}

/// Returns the strings between `start` and the closing parenthesis of the macro that opened before
/// it, each with its line.
fn names_from(text: &str, start: usize) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut depth = 1_i32;
    let mut at = start;
    // The quotes split the text into parts that are code and strings alternately.
    for (index, part) in text[start..].split('"').enumerate() {
        if index % 2 == 1 {
            names.push((text[..at].matches('\n').count() + 1, part));
        } else {
            for c in part.chars() {
                depth += i32::from(c == '(') - i32::from(c == ')');
                if depth == 0 {
                    return names;
                }
            }
        }
        at += part.len() + 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{MACROS, check};
    use crate::controls::table::FILE;
    use crate::tidy::SourceFile;

    fn found(code: &str, names: &[&str]) -> Vec<String> {
        let files = [SourceFile::new("crates/a/src/b.rs", code), SourceFile::new(FILE, "\nname = \"a\"\n")];
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        check(&files, &names).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_weakening_without_a_row_and_a_row_without_a_weakening_are_reported() {
        let code = format!("if {}\"a\") {{}}\n", MACROS[0]);
        assert!(found(&code, &["a"]).is_empty());
        assert!(found(&code, &[])[0].starts_with("crates/a/src/b.rs:1: the weakening `a`"));
        assert!(found("fn f() {}\n", &["a"])[0].starts_with("xtask/controls.toml:2: no crate has"));
        let two = format!("{}f = AcqRel, Relaxed if \"b\", Release if \"c\");", MACROS[1]);
        assert_eq!(found(&two, &["a"]).len(), 3);
        assert!(found("fn f() -> &str { \"a\" }\n", &["a"])[0].contains("no crate has a weakening `a`"));
    }

    #[test]
    fn the_names_of_a_macro_are_found_in_all_of_its_lines() {
        let code = format!(
            "{}\n    pub(super) a_order = AcqRel,\n    Relaxed if \"b\",\n    Release if \"c\"\n);\nlet d = \"d\";\n",
            MACROS[1]
        );
        assert!(found(&code, &["b", "c"]).is_empty());
        let said = found(&code, &[]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("crates/a/src/b.rs:3: the weakening `b`"), "{said:?}");
        assert!(said[1].starts_with("crates/a/src/b.rs:4: the weakening `c`"), "{said:?}");
        let both = format!("if {}\"b\") && {}\"c\") {{ f(\"d\") }}\n", MACROS[0], MACROS[0]);
        assert_eq!(found(&both, &[]).len(), 2);
    }
}
