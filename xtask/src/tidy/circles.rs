//! Requires that the files of a crate use each other in one direction only. In a circle, no file
//! can be understood before the others.
//!
//! A file uses another file if one of its paths leads there: a path that starts with `crate`,
//! `super` or `self`, or with the name of one of the file's own modules. A public `use` is a table
//! of contents. The check ignores it, unless the file mentions the imported name elsewhere. A path
//! through a public `use` leads to the file of the item. The check ignores tests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::names::{closing, directory, library};
use super::source::Token;
use super::{Finding, SourceFile};

/// A path in a file.
struct CodePath<'a> {
    /// The parts of the path, from the root of the crate. The part `{}` is a placeholder for a
    /// module without a file.
    parts: Vec<&'a str>,
    /// Whether the path starts with a name in scope, and so may lead to another crate.
    is_relative: bool,
    /// The name that a `use` brings into scope. Empty for other paths.
    name: &'a str,
    is_public_use: bool,
    /// The line of the path. For a public `use`, the line of the first mention of the name that it
    /// brings into scope, or `None` if the file never mentions the name.
    line: Option<usize>,
}

/// The parts of a module's name. Empty for the root of the crate.
type Name<'a> = Vec<&'a str>;

/// The files of a crate, by module, with the paths in each file.
type Modules<'a> = BTreeMap<Name<'a>, (&'a SourceFile, Vec<CodePath<'a>>)>;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    crates(files).values().flat_map(circles).collect()
}

fn crates(files: &[SourceFile]) -> BTreeMap<&str, Modules<'_>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (file, tokens) in library(files) {
        let Some((name, inner)) = file.path.split_once("/src/") else { continue };
        if !inner.starts_with("bin/") {
            let module: Name<'_> = directory(&file.path)[name.len() + 4..].split('/').skip(1).collect();
            let paths = paths(&module, &tokens);
            // A `main.rs` beside a `lib.rs` is another crate.
            crates.entry(name).or_default().entry(module).or_insert((file, paths));
        }
    }
    crates
}

/// Returns the paths in `tokens`, which are the code of the file of `module`.
fn paths<'a>(module: &[&'a str], tokens: &[Token<'a>]) -> Vec<CodePath<'a>> {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut here = module.to_vec();
    // The indices of the last tokens of the open modules that have no file of their own.
    let mut ends: Vec<usize> = Vec::new();
    // The words that may name an item in scope, with the line of the first mention. A word after a
    // dot names a field or method, and one after `fn` or `mod` names a new item.
    let mut mentions: BTreeMap<&str, usize> = BTreeMap::new();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    while let Some(token) = tokens.get(at) {
        let before = text(at.wrapping_sub(1));
        if ends.last() == Some(&at) {
            ends.pop();
            here.pop();
        } else if token.text == "mod" && text(at + 2) == "{" {
            ends.push(closing(tokens, at + 2));
            here.push("{}");
        } else if token.text == "use" && text(at + 1) != "<" {
            let is_public = before == "pub" || before == ")";
            at = tree(tokens, at + 1, &[], &mut |words, name| {
                found.push(CodePath { name, is_public_use: is_public, ..path(&here, words, token.line) });
            });
        } else if !["::", ".", "$", "fn", "mod"].contains(&before) && !["*", "_"].contains(&token.text) {
            mentions.entry(token.text).or_insert(token.line);
            let words = tokens[at..].iter().step_by(2).zip(tokens[at + 1..].iter().step_by(2));
            let len = words.take_while(|(_, colons)| colons.text == "::").count();
            if len > 0 {
                let words: Name<'_> =
                    tokens[at..].iter().step_by(2).take(len + 1).map(|token| token.text).collect();
                found.push(path(&here, &words, token.line));
                at += 2 * len;
            }
        }
        at += 1;
    }
    for import in found.iter_mut().filter(|path| path.is_public_use) {
        import.line = mentions.get(import.name).copied();
    }
    found
}

/// Calls `add` with each path of the tree of a `use` that starts at `at`, and the name that the
/// path brings into scope. Returns the index of the token after the tree.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &[&'a str],
    add: &mut impl FnMut(&[&'a str], &'a str),
) -> usize {
    let (mut words, mut name, mut is_group) = (prefix.to_vec(), "", false);
    while let Some(token) = tokens.get(at).filter(|token| ![",", ";", "}"].contains(&token.text)) {
        match token.text {
            "::" | "as" => {}
            "{" => {
                is_group = true;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = tree(tokens, at + 1, &words, add);
                }
            }
            word => {
                name = word;
                if tokens[at - 1].text != "as" {
                    words.push(word);
                }
            }
        }
        at += 1;
    }
    if !is_group && words.len() > prefix.len() {
        add(&words, name);
    }
    at
}

/// Creates the path that `words` form in the module `here`.
fn path<'a>(here: &[&'a str], words: &[&'a str], line: usize) -> CodePath<'a> {
    let ups = words.iter().take_while(|word| **word == "super").count();
    let (base, skip) = match words[0] {
        "crate" => (&[][..], 1),
        "super" => (&here[..here.len().saturating_sub(ups)], ups),
        word => (here, usize::from(word == "self")),
    };
    let is_relative = !["crate", "super", "self"].contains(&words[0]);
    CodePath {
        parts: [base, &words[skip..]].concat(),
        is_relative,
        name: "",
        is_public_use: false,
        line: Some(line),
    }
}

/// Returns the module of the item that a path of `module` leads to. Returns `None` if the item is
/// in another crate, or may come from a `use` with a star. `depth` is the number of imports that
/// the search has followed.
fn target<'m, 'a>(
    modules: &'m Modules<'a>,
    module: &Name<'a>,
    path: &CodePath<'a>,
    depth: usize,
) -> Option<&'m Name<'a>> {
    let mut lengths = (0..=path.parts.len()).rev();
    let (owner, (_, imports)) = lengths.find_map(|len| modules.get_key_value(&path.parts[..len]))?;
    if path.is_relative && owner.len() <= module.len() {
        return None;
    }
    let Some(item) = path.parts.get(owner.len()) else { return Some(owner) };
    let import =
        imports.iter().find(|import| import.name == *item || import.name == "*" && import.is_public_use);
    match import.filter(|import| depth < 8 && !core::ptr::eq(*import, path)) {
        // The star may import the item.
        Some(import) if import.name == "*" => None,
        Some(import) => target(modules, owner, import, depth + 1),
        None => Some(owner),
    }
}

/// Returns a finding for each circle. Of circles that share a file, only the first is reported.
fn circles(modules: &Modules<'_>) -> Vec<Finding> {
    let mut uses: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (module, (_, paths)) in modules {
        let paths = paths.iter().rev();
        let used = paths.filter_map(|path| Some((target(modules, module, path, 0)?, path.line?)));
        // A path from an inner module to its own file is not a circle.
        uses.insert(module, used.filter(|(other, _)| *other != module).collect());
    }
    let (mut findings, mut reported) = (Vec::new(), BTreeSet::new());
    for (module, (file, _)) in modules {
        let Some(circle) = shortest(module, &uses) else { continue };
        if circle.iter().all(|module| reported.insert(*module)) {
            let names = circle.iter().chain([&module]).map(|name| format!("`{}`", name.join("::")));
            let text = format!(
                "files use each other: {}. Move what they share into a file below them",
                names.collect::<Vec<_>>().join(" → ")
            );
            findings.push(Finding::error(&file.path, uses[module][circle[1]], text));
        }
    }
    findings
}

/// Returns the modules of a shortest circle that begins at `start`, or `None` if there is no
/// circle.
fn shortest<'m, 'a>(
    start: &'m Name<'a>,
    uses: &BTreeMap<&'m Name<'a>, BTreeMap<&'m Name<'a>, usize>>,
) -> Option<Vec<&'m Name<'a>>> {
    let (mut open, mut seen) = (VecDeque::from([vec![start]]), BTreeSet::new());
    while let Some(way) = open.pop_front() {
        for next in uses[way[way.len() - 1]].keys() {
            if *next == start && way.len() > 1 {
                return Some(way);
            }
            if seen.insert(*next) {
                open.push_back([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::SourceFile;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| SourceFile::new(format!("crates/a/src/{path}.rs"), *text))
            .collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib", "mod b;\nmod c;\npub use c::C;\n");

    #[test]
    fn two_files_that_use_each_other_are_reported_once() {
        let c = ("c", "pub struct C;\nfn f() {\n    crate::b::g();\n}\n");
        let found = found(&[LIB, ("b", "use super::C;\nfn g() {}\n"), c]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("crates/a/src/b.rs:1: files use each other: `b` → `c` → `b`."),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_whose_inner_module_uses_it_can_still_be_in_a_circle() {
        let b = ("b", "use crate::c::C;\nfn g() {}\nmod inner {\n    use super::g;\n}\n");
        let found = found(&[LIB, b, ("c", "pub struct C;\nuse crate::b::g;\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_table_of_contents_and_tests_close_no_circle() {
        let b = ("b", "use crate::C;\nmod inner {\n    use super::g;\n}\nfn g() -> C {}\n");
        let test = ("c", "pub struct C;\n#[cfg(test)]\n#[expect(a)]\nmod tests {\n    use crate::b;\n}\n");
        assert!(found(&[LIB, b, test]).is_empty());
        let below = ("c/tests", "use crate::b;\n");
        assert!(found(&[LIB, b, ("c", "pub struct C;\n#[cfg(test)]\nmod tests;\n"), below]).is_empty());
        let macros = ("c", "pub struct C;\nmacro_rules! m { () => { $crate::b::g() } }\n");
        assert!(found(&[LIB, b, macros]).is_empty());
    }

    #[test]
    fn a_module_and_its_parent_can_be_a_circle() {
        let parent = ("c/mod", "mod d;\nuse d::{D, f as g};\npub struct C;\n");
        let found = found(&[("lib", "mod c;\n"), parent, ("c/d", "use super::C;\npub struct D;\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`c` → `c::d` → `c`"), "{found:?}");
    }

    /// Returns what the check finds in a parent whose child uses `super::C`.
    fn found_in_parent(code: &str) -> Vec<String> {
        let parent = format!("mod d;\n{code}pub struct C;\n");
        let child = "use super::C;\npub struct D;\npub fn g() {}\n";
        found(&[("lib", "mod c;\n"), ("c/mod", &parent), ("c/d", child)])
    }

    #[test]
    fn a_path_through_a_child_module_can_close_a_circle() {
        for code in ["fn f() {\n    d::g();\n}\n", "struct B(\n    d::D);\n"] {
            let found = found_in_parent(code);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("crates/a/src/c/mod.rs:3: "), "{found:?}");
        }
        assert!(found_in_parent("fn f(d: B) {\n    d.g();\n    e::d::g();\n}\n").is_empty());
    }

    #[test]
    fn a_reexported_name_that_the_file_mentions_can_close_a_circle() {
        for mention in ["struct B(D);\n", "fn f() {\n    D::new();\n}\n"] {
            let found = found_in_parent(&format!("pub(crate) use d::D;\n{mention}"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("`c` → `c::d` → `c`"), "{found:?}");
        }
        for other in [
            "d::D;\nstruct B(e::D);\n",
            "d::{d, g};\ntrait F {\n    fn g();\n}\n",
            "d::*;\nconst B: u8 = *E;\n",
        ] {
            assert!(found_in_parent(&format!("pub use {other}")).is_empty(), "{other}");
        }
    }
}
