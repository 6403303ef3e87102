//! Requires that the files of a crate use each other in one direction. In a circle, no file can be
//! understood before the others.
//!
//! A file uses another one if a path in it leads there: a path that starts with `crate`, `super` or
//! `self`, or a `use` of one of its modules. A public `use` is a table of contents and uses
//! nothing. A path through it leads to the file of the item. Tests may use every file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::names::{closing, directory, library};
use super::source::Token;
use super::{Finding, SourceFile};

/// The crates that still have a circle.
const NOT_YET_STRAIGHT: &[&str] = &["crates/bench-harness", "xtask"];

/// A path in a file.
struct CodePath<'a> {
    /// Its parts, without `self` or `super` at its start.
    parts: Vec<&'a str>,
    /// The module from which the parts start, or `None` if the first part is a name in scope.
    base: Option<Vec<&'a str>>,
    /// The name that a `use` brings into scope.
    name: &'a str,
    is_public_use: bool,
    line: usize,
}

/// A file of a crate, and its paths.
type Module<'a> = (&'a SourceFile, Vec<CodePath<'a>>);

/// The files of a crate by the names of their modules. The name of the root is empty.
type Modules<'a> = BTreeMap<Vec<&'a str>, Module<'a>>;

/// Checks the crates that are not listed in [`NOT_YET_STRAIGHT`].
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let crates = crates(files);
    let straight = crates.iter().filter(|(name, _)| !NOT_YET_STRAIGHT.contains(name));
    straight.flat_map(|(_, modules)| circles(modules)).collect()
}

fn crates(files: &[SourceFile]) -> BTreeMap<&str, Modules<'_>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (file, tokens) in library(files) {
        let Some((name, inner)) = file.path.split_once("/src/") else { continue };
        if !inner.starts_with("bin/") {
            let module: Vec<_> = directory(&file.path)[name.len() + 4..].split('/').skip(1).collect();
            let paths = paths(&module, &tokens);
            // A `main.rs` beside a `lib.rs` is another crate.
            crates.entry(name).or_default().entry(module).or_insert((file, paths));
        }
    }
    crates
}

/// Returns the paths of a module.
fn paths<'a>(module: &[&'a str], tokens: &[Token<'a>]) -> Vec<CodePath<'a>> {
    let (mut found, mut at) = (Vec::new(), 0);
    // The last tokens of the modules without a file that are open.
    let mut inner: Vec<usize> = Vec::new();
    while let Some(token) = tokens.get(at) {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let before = text(at.wrapping_sub(1));
        inner.retain(|end| at < *end);
        let mut here = module.to_vec();
        here.extend(inner.iter().map(|_| "{}"));
        if token.text == "mod" && text(at + 2) == "{" {
            inner.push(closing(tokens, at + 2));
        } else if token.text == "use" && text(at + 1) != "<" {
            let public = before == "pub" || before == ")";
            at = tree(tokens, at + 1, &[], &mut |parts, name, line| {
                found.push(code_path(&here, parts, name, public, line));
            });
        } else if ["crate", "super", "self"].contains(&token.text) && text(at + 1) == "::" && before != "$" {
            let mut parts = vec![token.text];
            while text(at + 1) == "::" && text(at + 2).starts_with(|c: char| c.is_alphabetic() || c == '_') {
                at += 2;
                parts.push(text(at));
            }
            found.push(code_path(&here, &parts, "", false, token.line));
        }
        at += 1;
    }
    found
}

/// Calls `add` with each path of the tree of a `use` that starts at `at`. Returns the index of the
/// token behind the tree.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &[&'a str],
    add: &mut impl FnMut(&[&'a str], &'a str, usize),
) -> usize {
    let (mut parts, mut name, mut is_group) = (prefix.to_vec(), "", false);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "," | ";" | "}" => break,
            "::" => {}
            "as" => {
                name = tokens[at + 1].text;
                at += 1;
            }
            "{" => {
                is_group = true;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = tree(tokens, at + 1, &parts, add);
                }
            }
            part => parts.push(part),
        }
        at += 1;
    }
    if let Some(last) = parts.last().filter(|_| !is_group && parts.len() > prefix.len()) {
        add(&parts, if name.is_empty() { last } else { name }, tokens[at - 1].line);
    }
    at
}

fn code_path<'a>(
    here: &[&'a str],
    parts: &[&'a str],
    name: &'a str,
    public: bool,
    line: usize,
) -> CodePath<'a> {
    let ups = parts.iter().take_while(|part| **part == "super").count();
    let (base, skip) = match parts.first() {
        Some(&"crate") => (Some(Vec::new()), 1),
        Some(&"self") => (Some(here.to_vec()), 1),
        Some(&"super") => (Some(here[..here.len().saturating_sub(ups)].to_vec()), ups),
        _ => (None, 0),
    };
    CodePath { parts: parts[skip..].to_vec(), base, name, is_public_use: public, line }
}

/// Returns the module of the item that a path of `module` leads to, if it is in this crate.
fn target<'m, 'a>(
    modules: &'m Modules<'a>,
    module: &[&'a str],
    path: &CodePath<'a>,
    depth: usize,
) -> Option<&'m [&'a str]> {
    let base = path.base.clone().unwrap_or_else(|| module.to_vec());
    let full = [base, path.parts.clone()].concat();
    let known = (0..=full.len()).rev().find_map(|len| modules.get_key_value(&full[..len]));
    let (owner, (_, paths)) = known.filter(|(owner, _)| path.base.is_some() || owner.len() > module.len())?;
    let Some(item) = full.get(owner.len()) else { return Some(owner) };
    let import = paths.iter().find(|other| other.name == *item || other.name == "*" && other.is_public_use);
    match import.filter(|_| depth < 8) {
        // The item may be one of those that the star stands for.
        Some(import) if import.name == "*" => None,
        Some(import) if !core::ptr::eq(import, path) => target(modules, owner, import, depth + 1),
        _ => Some(owner),
    }
}

/// Returns a finding for each circle.
fn circles(modules: &Modules<'_>) -> Vec<Finding> {
    let mut uses: BTreeMap<&[&str], BTreeMap<&[&str], usize>> = BTreeMap::new();
    for (module, (_, paths)) in modules {
        let used = uses.entry(module).or_default();
        for path in paths.iter().filter(|path| !path.is_public_use) {
            if let Some(other) = target(modules, module, path, 0).filter(|other| other != module) {
                used.entry(other).or_insert(path.line);
            }
        }
    }
    let (mut findings, mut reported) = (Vec::new(), BTreeSet::new());
    for module in modules.keys() {
        let Some(circle) = shortest(module, &uses) else { continue };
        if circle.iter().all(|module| reported.insert(*module)) {
            let names: Vec<_> =
                circle.iter().chain([&circle[0]]).map(|name| format!("`{}`", name.join("::"))).collect();
            let line = uses[circle[0]][circle.get(1).unwrap_or(&circle[0])];
            let text = format!(
                "files use each other: {}. Move what they share into a file below them",
                names.join(" → ")
            );
            findings.push(Finding::error(&modules[module].0.path, line, text));
        }
    }
    findings
}

/// Returns the modules of a shortest circle from `start` on.
fn shortest<'m, 'a>(
    start: &'m [&'a str],
    uses: &BTreeMap<&'m [&'a str], BTreeMap<&'m [&'a str], usize>>,
) -> Option<Vec<&'m [&'a str]>> {
    let mut open = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        for next in uses.get(way.last()?)?.keys() {
            if *next == start {
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
    use super::{NOT_YET_STRAIGHT, check, circles, crates};
    use crate::tidy::{SourceFile, source};
    use crate::workspace::Workspace;

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

    #[test]
    fn listed_crates_still_have_a_circle() {
        let files = source::load(&Workspace::load().unwrap().root).unwrap();
        let crates = crates(&files);
        let straight: Vec<_> =
            NOT_YET_STRAIGHT.iter().filter(|name| circles(&crates[*name]).is_empty()).collect();
        assert!(straight.is_empty(), "remove from the list what has no circle: {straight:?}");
    }
}
