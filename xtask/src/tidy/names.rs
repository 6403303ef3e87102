//! Requires that the name of a struct, enum, trait, union or type alias is defined once in the
//! workspace. A name with two meanings sends a reader to the wrong file.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Token;
use super::{Finding, SourceFile};

/// Public names that mean the same thing in each crate, with the meaning.
const SHARED: &[(&str, &str)] = &[
    ("Builder", "the builder of an allocator or pool"),
    ("Stats", "the statistics of an allocator or pool, with the same fields"),
    ("TryAllocError", "the error of a `try_alloc` that has the value or the reason"),
];

/// The definition of a type: the name, the file and the line.
#[derive(Debug, PartialEq)]
struct Definition<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
}

/// Checks all definitions outside of tests.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let exempt = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let repeated = repeated(files);
    let findings = repeated.iter().filter(|(name, _)| !exempt(name)).flat_map(|(name, definitions)| {
        let first = &definitions[0];
        definitions[1..].iter().map(move |other| {
            let text = format!(
                "`{name}` is also defined in {}:{}: choose a name that says which of the two it is",
                first.path, first.line
            );
            Finding::error(other.path, other.line, text)
        })
    });
    findings.collect()
}

/// Returns the definitions of every name that more than one file defines.
fn repeated(files: &[SourceFile]) -> BTreeMap<&str, Vec<Definition<'_>>> {
    let mut names: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (file, tokens) in library(files) {
        // The index after the last block of an `impl` or a trait, where `type` names an associated
        // type.
        let mut associated = 0;
        for (at, pair) in tokens.windows(2).enumerate() {
            let (kind, name) = (pair[0], pair[1].text);
            let defines = match kind.text {
                "struct" | "enum" | "union" => true,
                "type" => at >= associated,
                "impl" | "trait" if at >= associated => {
                    associated = item_end(&tokens, at);
                    kind.text == "trait"
                }
                "trait" => true,
                _ => false,
            };
            if defines && name.starts_with(char::is_uppercase) {
                let definition = Definition { name, path: &file.path, line: kind.line };
                names.entry(name).or_default().push(definition);
            }
        }
    }
    // Two definitions in one file are alternatives: a feature or the target selects one.
    names.retain(|_, definitions| definitions.iter().any(|other| other.path != definitions[0].path));
    names
}

/// Returns the files of libraries and programs, with their tokens. Leaves out code that only tests
/// build.
pub(super) fn library(files: &[SourceFile]) -> Vec<(&SourceFile, Vec<Token<'_>>)> {
    let mut tests = BTreeSet::new();
    let sources = files.iter().filter(|file| is_source(file));
    let mut found: Vec<_> = sources.map(|file| (file, without_tests(file, &mut tests))).collect();
    let is_test = |path: &str| {
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        module.match_indices('/').any(|(end, _)| tests.contains(&module[..end])) || tests.contains(module)
    };
    found.retain(|(file, _)| !is_test(&file.path));
    found
}

/// Returns whether a file is part of a library or a program.
fn is_source(file: &SourceFile) -> bool {
    let elsewhere = ["/tests/", "/examples/", "/fuzz/"].iter().any(|dir| file.path.contains(dir));
    file.is_package_code() && !elsewhere && file.name() != "build.rs" && file.name() != "tests.rs"
}

/// Returns the tokens of a file, without items that only tests build. Adds the modules that only
/// tests build to `tests`, as paths without `.rs`.
fn without_tests<'a>(file: &'a SourceFile, tests: &mut BTreeSet<String>) -> Vec<Token<'a>> {
    let tokens = file.tokens();
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token<'_>| token.text);
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if text(at) == "#" && text(at + 1) == "[" && text(at + 2) == "cfg" {
            let end = closing(&tokens, at + 1);
            if needs_test(&tokens[at..end]) {
                at = item_end(&tokens, end + 1);
                if text(at) == ";" && text(at.wrapping_sub(2)) == "mod" {
                    tests.insert(format!("{}/{}", directory(&file.path), text(at - 1)));
                }
            } else {
                at = end;
            }
        } else {
            kept.push(tokens[at]);
        }
        at += 1;
    }
    kept
}

/// Returns whether a `cfg` holds in test builds only. The criterion is a `test` outside of `any`
/// and `not`.
fn needs_test(cfg: &[Token<'_>]) -> bool {
    let mut at = 0;
    while let Some(token) = cfg.get(at) {
        match token.text {
            "test" => return true,
            "any" | "not" => at = closing(cfg, at + 1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// Returns the directory that holds the modules of the file at `path`.
pub(super) fn directory(path: &str) -> &str {
    let module = path.trim_end_matches(".rs");
    ["/lib", "/main", "/mod"].iter().find_map(|end| module.strip_suffix(end)).unwrap_or(module)
}

/// Returns the index of the bracket that closes the bracket at `open`, or the number of tokens if
/// no bracket closes it.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// Returns the index of the last token of the item that starts at `at`: a semicolon or a brace.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at,
            "{" => return closing(tokens, at),
            "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{SHARED, check, repeated};
    use crate::tidy::{SourceFile, source};
    use crate::workspace::Workspace;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| SourceFile::new(*path, *text)).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_definition_is_reported() {
        let files = [
            ("crates/a/src/lib.rs", "//! A.\npub struct Page(u8);\n"),
            ("crates/b/src/c.rs", "//! B.\nenum Leaf { A }\npub(crate) unsafe trait Page {}\n"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/b/src/c.rs:3: `Page` is also defined in crates/a/src/lib.rs:2"));
    }

    #[test]
    fn definitions_of_tests_do_not_count() {
        let page = "//! A.\nstruct Page;\n";
        let module = "//! B.\n#[cfg(test)]\nmod tests {\n    struct Page { a: u8 }\n}\nstruct Leaf;\n";
        let declared = "//! B.\n#[cfg(all(test, not_loom))]\nmod models;\n";
        for other in [
            ("crates/b/tests/all.rs", page),
            ("crates/b/src/d/tests.rs", page),
            ("crates/b/src/d.rs", module),
        ] {
            assert!(found(&[("crates/a/src/lib.rs", page), other]).is_empty(), "{other:?}");
        }
        let below = ("crates/b/src/models/inner.rs", page);
        assert_eq!(found(&[("crates/a/src/lib.rs", page), below]).len(), 1);
        let alternatives = ("crates/b/src/d.rs", "//! B.\nstruct Leaf;\nmod off {\n    struct Leaf;\n}\n");
        assert!(found(&[alternatives]).is_empty());
        let lib = ("crates/b/src/lib.rs", declared);
        assert!(found(&[("crates/a/src/lib.rs", page), lib, below]).is_empty());
    }

    #[test]
    fn other_cfgs_are_not_tests_and_other_words_are_not_definitions() {
        let page = ("crates/a/src/lib.rs", "//! A.\nstruct Page;\n");
        let other = ("crates/b/src/c.rs", "//! B.\n#[cfg(not(test))]\nstruct Page;\n");
        assert_eq!(found(&[page, other]).len(), 1);
        assert!(
            found(&[page, ("crates/b/src/c.rs", "//! struct Page\nfn f() { a.union(Page); }\n")]).is_empty()
        );
    }

    #[test]
    fn aliases_are_definitions_and_associated_types_are_not() {
        let page = ("crates/a/src/lib.rs", "//! A.\nstruct Page;\n");
        let alias = ("crates/b/src/c.rs", "//! B.\ntype Page = u8;\n");
        assert_eq!(found(&[page, alias]).len(), 1);
        let inside = "//! B.\ntrait Book {\n    type Page;\n}\nimpl Book for u8 {\n    type Page = u8;\n}\n";
        assert!(found(&[page, ("crates/b/src/c.rs", inside)]).is_empty());
    }

    #[test]
    fn an_item_that_is_not_only_for_tests_counts() {
        let page = ("crates/a/src/lib.rs", "//! A.\nstruct Page;\n");
        let shared = ("crates/b/src/c.rs", "//! B.\n#[cfg(any(unix, all(test, loom)))]\nstruct Page;\n");
        assert_eq!(found(&[page, shared]).len(), 1);
    }

    #[test]
    fn exempt_names_are_still_defined_more_than_once() {
        let files = source::load(&Workspace::load().unwrap().root).unwrap();
        let repeated = repeated(&files);
        let single: Vec<_> = SHARED.iter().filter(|(name, _)| !repeated.contains_key(name)).collect();
        assert!(single.is_empty(), "remove from the list what is defined once: {single:?}");
    }
}
