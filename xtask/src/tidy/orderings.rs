//! Requires a comment at every ordering in library code that is stronger than `Relaxed`. The
//! comment says what the ordering publishes or sees, and names the function at the other end.

use core::ops::Range;
use std::collections::BTreeSet;

use super::source::Token;
use super::{Finding, SourceFile};

/// The orderings that need a comment.
const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The comment for an ordering must end at most this number of lines above it.
const ABOVE: usize = 6;

/// The first tokens of the macro that defines an ordering with its weakenings.
const MACRO: [&str; 3] = ["ordering", "!", "("];

/// The start of a comment about an ordering.
const MARK: &str = "ORDERING:";

/// The folder of the crate whose atomics the allocators share. A peer may be in this crate or, for
/// an ordering in this crate, in any other.
const PRIM: &str = "crates/prim";

/// Checks the orderings in library code, and the `ORDERING` comments of all packages.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let functions: BTreeSet<(&str, String)> = files
        .iter()
        .flat_map(|file| functions(file).into_iter().map(move |name| (package(&file.path), name)))
        .collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        if is_library_code(&file.path) {
            let tokens = file.tokens();
            let constants = constants(&tokens);
            for OrderingUse { line, above } in uses(&tokens) {
                match reason(file, line, above, &constants) {
                    None => findings.push(Finding::error(
                        &file.path,
                        line,
                        format!(
                            "an ordering without a comment: write `// {MARK} <what it orders>. Pairs with \
                             `<function>`.` {}",
                            if above == 1 {
                                "in the line above".to_owned()
                            } else {
                                format!("within the {above} lines above")
                            }
                        ),
                    )),
                    Some(text) if pair(&text).is_none() => findings.push(Finding::error(
                        &file.path,
                        line,
                        format!(
                            "its {MARK} comment lacks \"Pairs with\": name the function at the other end"
                        ),
                    )),
                    Some(_) => {}
                }
            }
        }
        for line in 1..=file.lines.len() {
            if !starts_reason(&file.lines[line - 1].comment) {
                continue;
            }
            let text = comment_at(file, line);
            let Some(pair) = pair(&text) else { continue };
            let names: Vec<_> = backticked(pair).map(last_name).collect();
            let here = package(&file.path);
            let in_reach = |defined: &str| defined == here || defined == PRIM || here == PRIM;
            let exists = |name: &str| functions.iter().any(|(at, known)| known == name && in_reach(at));
            if !names.iter().any(|name| exists(name)) {
                let said = if names.is_empty() {
                    "no function in backticks".to_owned()
                } else {
                    format!("`{}`", names.join("`, `"))
                };
                findings.push(Finding::error(
                    &file.path,
                    line,
                    format!(
                        "\"Pairs with\" names {said}, which neither this crate nor prim defines: name the function at the other end"
                    ),
                ));
            }
        }
    }
    findings
}

/// Returns the folder of the package that a file belongs to.
fn package(path: &str) -> &str {
    let rest = path.strip_prefix("crates/").unwrap_or("");
    let name = rest.split('/').next().unwrap_or("");
    if name.is_empty() {
        path.split('/').next().unwrap_or(path)
    } else {
        &path[.."crates/".len() + name.len()]
    }
}

fn is_library_code(path: &str) -> bool {
    path.strip_prefix("crates/")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, rest)| rest.starts_with("src/"))
}

/// Returns the names of the functions that a file defines.
fn functions(file: &SourceFile) -> Vec<String> {
    let tokens = file.tokens();
    let after = tokens.windows(2).filter(|pair| pair[0].text == "fn");
    after.map(|pair| pair[1].text.to_owned()).collect()
}

/// A line that uses a strong ordering.
#[derive(Debug, PartialEq, Eq)]
struct OrderingUse {
    line: usize,
    /// The comment must end at most this number of lines above `line`.
    above: usize,
}

/// Returns the lines that use a strong ordering, each once: `Ordering::Acquire`, an imported
/// `Acquire`, or an `ordering!` that names one. Such a macro counts as one use, in its first line,
/// and needs a comment of its own in the line above.
fn uses(tokens: &[Token<'_>]) -> Vec<OrderingUse> {
    let mut types = BTreeSet::from(["Ordering"]);
    let mut bare = BTreeSet::new();
    let mut outside = vec![true; tokens.len()];
    for start in (0..tokens.len()).filter(|index| starts_use(tokens, *index)) {
        let end = tokens[start..]
            .iter()
            .position(|token| token.text == ";")
            .map_or(tokens.len(), |length| start + length);
        outside[start..end].fill(false);
        imports(&tokens[start..end], &mut types, &mut bare);
    }
    let mut found: Vec<OrderingUse> = Vec::new();
    for range in macros(tokens) {
        if tokens[range.clone()].iter().any(|token| STRONG.contains(&token.text)) {
            found.push(OrderingUse { line: tokens[range.start].line, above: 1 });
        }
        outside[range].fill(false);
    }
    for (index, token) in tokens.iter().enumerate() {
        let qualified = index >= 2 && tokens[index - 1].text == "::";
        let strong = if qualified {
            STRONG.contains(&token.text) && types.contains(tokens[index - 2].text)
        } else {
            bare.contains(token.text)
        };
        if strong && outside[index] && found.last().is_none_or(|last| last.line != token.line) {
            found.push(OrderingUse { line: token.line, above: ABOVE });
        }
    }
    found
}

/// Returns the tokens of each `ordering!(…)`, from the name to the closing parenthesis.
fn macros(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let starts =
        tokens.windows(3).enumerate().filter(|(_, head)| head.iter().map(|token| token.text).eq(MACRO));
    let whole = starts.map(|(index, _)| {
        let mut depth = 0_i32;
        let end = tokens[index..].iter().position(|token| {
            depth += i32::from(token.text == "(") - i32::from(token.text == ")");
            depth == 0 && token.text == ")"
        });
        index..end.map_or(tokens.len(), |length| index + length + 1)
    });
    whole.collect()
}

fn starts_use(tokens: &[Token<'_>], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| tokens[before].text);
    tokens[index].text == "use" && matches!(before, None | Some(";" | "{" | "}" | ")" | "]" | "pub"))
}

/// Adds the imports of one `use`: other names of the type to `types`, and the bare names of
/// orderings to `bare`.
fn imports<'a>(tokens: &[Token<'a>], types: &mut BTreeSet<&'a str>, bare: &mut BTreeSet<&'a str>) {
    let mut seen = false;
    for (index, token) in tokens.iter().enumerate() {
        let at = |ahead: usize| tokens.get(index + ahead).map_or("", |token| token.text);
        let known_as = if at(1) == "as" { at(2) } else { token.text };
        match token.text {
            "Ordering" if at(1) == "::" => seen = true,
            "Ordering" => {
                types.insert(known_as);
            }
            "*" if seen => bare.extend(STRONG),
            text if seen && STRONG.contains(&text) => {
                bare.insert(known_as);
            }
            _ => {}
        }
    }
}

/// Returns the comment for the ordering in `line`, or `None` if no such comment ends in this line
/// or in the `above` lines before it. A comment above a constant applies to the whole constant.
fn reason(file: &SourceFile, line: usize, above: usize, constants: &[(usize, usize)]) -> Option<String> {
    let constant = constants.iter().find(|(first, last)| (*first..=*last).contains(&line));
    let begins = constant.map_or(line, |(first, _)| *first);
    let start =
        (begins.saturating_sub(above).max(1)..=line).rev().find_map(|near| reason_through(file, near))?;
    Some(comment_at(file, start))
}

/// Returns the first line of the `ORDERING` comment that `line` belongs to, or `None` if it belongs
/// to no such comment.
fn reason_through(file: &SourceFile, line: usize) -> Option<usize> {
    let at = |line: usize| &file.lines[line - 1];
    if starts_reason(&at(line).comment) {
        return Some(line);
    }
    let mut run = (1..=line).rev().take_while(|above| at(*above).only_comment());
    run.find(|above| starts_reason(&at(*above).comment))
}

/// Returns the first and last line of each constant of type `Ordering`.
fn constants(tokens: &[Token<'_>]) -> Vec<(usize, usize)> {
    let heads = tokens
        .windows(4)
        .enumerate()
        .filter(|(_, head)| head[0].text == "const" && head[2].text == ":" && head[3].text == "Ordering");
    let whole = heads.filter_map(|(index, head)| {
        let mut depth = 0_i32;
        let end = tokens[index..].iter().find(|token| {
            depth += i32::from(token.text == "{") - i32::from(token.text == "}");
            depth == 0 && token.text == ";"
        })?;
        Some((head[0].line, end.line))
    });
    whole.collect()
}

fn starts_reason(comment: &str) -> bool {
    comment.strip_prefix("//").is_some_and(|rest| rest.trim_start().starts_with(MARK))
}

/// Returns the comment that begins in `line`, with the lines that continue it.
fn comment_at(file: &SourceFile, line: usize) -> String {
    let mut text = file.lines[line - 1].comment.clone();
    let next =
        file.lines[line..].iter().take_while(|next| next.only_comment() && !starts_reason(&next.comment));
    for next in next {
        text.push(' ');
        text.push_str(next.comment.trim_start_matches('/').trim());
    }
    text
}

fn pair(text: &str) -> Option<&str> {
    ["Pairs with", "pairs with"].iter().find_map(|words| text.split_once(words)).map(|(_, rest)| rest)
}

fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the function's name: `take` for `Inbox::take`, `take()` and `inbox.take(…)`.
fn last_name(path: &str) -> &str {
    let path = path.split('(').next().unwrap_or(path);
    path.rsplit([':', '.']).next().unwrap_or(path).trim()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::SourceFile;

    const PEER: &str = "//! D.\nimpl Inbox { fn take(&self) {} }\n";

    fn found(text: &str) -> Vec<String> {
        let files =
            [SourceFile::new("crates/a/src/b.rs", text), SourceFile::new("crates/a/src/peer.rs", PEER)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ordering_without_a_comment_nearby_is_reported() {
        let use_it = "x.load(Ordering::Acquire);\n";
        assert!(found(use_it)[0].starts_with("crates/a/src/b.rs:1: an ordering without a comment"));
        let good = "// ORDERING: Acquire. Pairs with the swap in `Inbox::take`.\n";
        assert!(found(&format!("{good}{use_it}")).is_empty());
        assert!(found(&format!("{good}{}{use_it}", "y();\n".repeat(5))).is_empty());
        assert_eq!(found(&format!("{good}{}{use_it}", "y();\n".repeat(6))).len(), 1);
        let long = format!("{good}{}", "// And more of it.\n".repeat(9));
        assert!(found(&format!("{long}{}{use_it}", "y();\n".repeat(5))).is_empty());
        assert!(found("x.load(Ordering::SeqCst); // ORDERING: all. Pairs with `take`.\n").is_empty());
    }

    #[test]
    fn a_comment_above_a_constant_covers_the_whole_constant() {
        let body =
            format!("const X: Ordering = if a {{\n{}    Ordering::AcqRel\n}};\n", "    b();\n".repeat(9));
        assert!(found(&format!("// ORDERING: a. Pairs with `take`.\n{body}")).is_empty());
        assert_eq!(found(&body).len(), 1);
        let function = body.replace("const X: Ordering =", "").replace("};", "}");
        assert_eq!(found(&format!("// ORDERING: a. Pairs with `take`.\n{function}")).len(), 1);
    }

    #[test]
    fn an_ordering_macro_needs_a_comment_of_its_own() {
        let define = "ordering!(pub(super) a_order = Acquire, Relaxed if \"a\");\n";
        assert!(found(define)[0].starts_with("crates/a/src/b.rs:1: an ordering without a comment"));
        let good = "// ORDERING: Acquire. Pairs with `Inbox::take`.\n";
        assert!(found(&format!("{good}{define}")).is_empty());
        assert!(found(&format!("{good}{define}{good}{define}")).is_empty());
        assert!(found(&format!("{good}{define}{define}"))[0].starts_with("crates/a/src/b.rs:3:"));
        let lines = "ordering!(\n    a_order = AcqRel,\n    Relaxed if \"a\",\n    Release if \"b\"\n);\n";
        assert_eq!(found(lines).len(), 1);
        assert!(found(&format!("{good}{lines}")).is_empty());
        assert!(found(&format!("{good}{lines}x.load(Ordering::Acquire);\n")).is_empty());
        let import = "use core::sync::atomic::Ordering::Acquire;\n";
        assert_eq!(found(&format!("{import}{define}")).len(), 1);
        assert!(
            found("// ORDERING: a.\nordering!(a_order = Release, Relaxed if \"a\");\n")[0]
                .contains("lacks \"Pairs with\"")
        );
        assert!(found("ordering!(a_order = Relaxed, Relaxed if \"a\");\n").is_empty());
    }

    #[test]
    fn a_comment_must_name_an_existing_function() {
        let with = |reason: &str| found(&format!("// ORDERING: {reason}\nx.load(Ordering::Acquire);\n"));
        assert!(with("because.")[0].contains("lacks \"Pairs with\""));
        assert!(
            with("a. Pairs with `Inbox::gone`.")[0]
                .contains("`gone`, which neither this crate nor prim defines")
        );
        assert!(with("a. Pairs with the release.")[0].contains("no function in backticks"));
        assert!(with("a. Pairs\n// with `gone` and\n// `Inbox::take()`.").is_empty());
    }

    #[test]
    fn a_peer_is_in_the_same_crate_or_in_prim() {
        let pairs = |user: &str, peer: &str| {
            let reason = "// ORDERING: a. Pairs with `peer`.\nx.load(Ordering::Acquire);\n";
            let files = [(user, reason), (peer, "fn peer() {}\n")];
            check(&files.map(|(path, text)| SourceFile::new(path, text))).is_empty()
        };
        assert!(pairs("crates/a/src/x.rs", "crates/a/src/y.rs"));
        assert!(pairs("crates/a/src/x.rs", "crates/prim/src/y.rs"));
        assert!(pairs("crates/prim/src/x.rs", "crates/a/src/y.rs"));
        assert!(!pairs("crates/a/src/x.rs", "crates/b/src/y.rs"));
    }

    #[test]
    fn imported_orderings_are_found_at_their_uses() {
        let import = "use core::sync::atomic::{AtomicU8, Ordering::{Acquire, Relaxed, Release as Rel}};\n";
        assert!(found(import).is_empty());
        assert_eq!(
            found(&format!("{import}x.load(Acquire);\nx.load(Relaxed);\nx.store(1, Rel);\n")).len(),
            2
        );
        assert_eq!(found("use core::sync::atomic::Ordering as O;\nx.load(O::SeqCst);\n").len(), 1);
        assert_eq!(found("use a::Ordering::*;\nx.load(AcqRel);\n").len(), 1);
        assert_eq!(
            found("pub(crate) use core::sync::{\n    Ordering::Acquire,\n};\nx.load(Acquire);\n").len(),
            1
        );
    }

    #[test]
    fn other_items_with_these_names_are_ignored() {
        assert!(found("let a = Phase::Acquire; struct Release; f(\"Ordering::Acquire\");\n").is_empty());
        assert!(
            found("/// `x.load(Ordering::Acquire)`\n// Ordering::SeqCst\nx.load(Ordering::Relaxed);\n")
                .is_empty()
        );
    }

    #[test]
    fn comments_in_integration_tests_are_optional_and_checked() {
        let files = |text: &str| {
            check(&[SourceFile::new("crates/a/tests/t.rs", text), SourceFile::new("crates/a/src/p.rs", PEER)])
        };
        assert!(files("x.load(Ordering::Acquire);\n").is_empty());
        assert_eq!(files("// ORDERING: a. Pairs with `gone`.\n").len(), 1);
    }
}
