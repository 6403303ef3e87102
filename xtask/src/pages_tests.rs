//! Tests of the pages that a new user reads: their commands, their links and their width.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::Cli;
use crate::examples_tests::{self, PUBLISHED};
use crate::workspace::Workspace;

/// The maximum number of lines of the first page.
const LINES: usize = 120;

/// The maximum number of columns of a table on the first page.
const COLUMNS: usize = 6;

/// Returns the pages: their paths from the root and their text.
fn pages(root: &Path) -> Vec<(PathBuf, String)> {
    let mut paths = vec![PathBuf::from("README.md"), PathBuf::from("docs/guide.md")];
    paths.extend(PUBLISHED.iter().map(|dir| Path::new("crates").join(dir).join("README.md")));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).expect("the page can be read");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the words of each command in the `sh` blocks of a page, without the comment that follows
/// the command.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            let command = line.split(" #").next().unwrap_or(line);
            found.push(command.split_whitespace().collect());
        }
    }
    found
}

/// Returns the text without its blocks of code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Returns the targets of all links and pictures in a page.
fn links(text: &str) -> Vec<&str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pictures = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    inline.chain(pictures).collect()
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> HashSet<String> {
    let headings = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let slug = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    headings.map(slug).collect()
}

/// Panics unless the command exists: a command of xtask that its parser accepts, an example, or the
/// build of a package.
fn check_command(ws: &Workspace, words: &[&str]) {
    match words {
        ["cargo", "xtask", rest @ ..] => {
            let parsed = Cli::try_parse_from([&["cargo xtask"], rest].concat());
            assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
        }
        ["cargo", "run", "--release", "-p", package, "--example", example] => {
            let known = examples_tests::all(ws);
            assert!(known.iter().any(|(of, name, _)| of.name == *package && name == example), "{words:?}");
        }
        ["cargo", "build", "--release", "-p", package] => {
            ws.package(package).unwrap();
        }
        [preload, "/path/to/app"] if preload.ends_with("/target/release/libephemera_c.so") => {}
        _ => panic!("no test runs {words:?}"),
    }
}

#[test]
fn every_command_of_the_pages_exists() {
    let ws = Workspace::load().unwrap();
    let mut checked = 0;
    for (path, text) in pages(&ws.root) {
        let commands = commands(&text);
        assert!(!commands.is_empty(), "{} has no command", path.display());
        checked += commands.len();
        commands.iter().for_each(|words| check_command(&ws, words));
    }
    assert!(checked >= 14, "{checked} commands were found");
}

#[test]
#[should_panic(expected = "--quik")]
fn a_misspelt_option_is_found() {
    check_command(&Workspace::load().unwrap(), &["cargo", "xtask", "bench", "--quik"]);
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let root = Workspace::load().unwrap().root;
    for (path, text) in pages(&root) {
        let dir = root.join(&path).parent().expect("a page is in a directory").to_owned();
        let text_without_code = prose(&text);
        let links = links(&text_without_code);
        for link in links.iter().filter(|link| !link.contains("://")) {
            let (file, anchor) =
                link.split_once('#').map_or((*link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { root.join(&path) } else { dir.join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            if let Some(anchor) = anchor {
                let target = fs::read_to_string(&target).expect("a link with an anchor leads to a page");
                assert!(anchors(&target).contains(anchor), "{}: {link} has no heading", path.display());
            }
        }
    }
}

#[test]
fn the_first_page_is_short_and_its_tables_are_narrow() {
    let root = Workspace::load().unwrap().root;
    let text = fs::read_to_string(root.join("README.md")).unwrap();
    let lines = text.lines().count();
    assert!(lines <= LINES, "README.md has {lines} lines, {LINES} are allowed");
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let columns = line.matches('|').count() - 1;
        assert!(columns <= COLUMNS, "a table of README.md has {columns} columns: {line}");
    }
    assert_eq!(text.matches("<img ").count(), 1, "the first page has one picture");
}

#[test]
fn headings_become_anchors_as_on_github() {
    let anchors = anchors("# Results\n\n### S5/reserve_exact/1e-2\n\n## 1. Do you need it?\n");
    for anchor in ["results", "s5reserve_exact1e-2", "1-do-you-need-it"] {
        assert!(anchors.contains(anchor), "{anchors:?}");
    }
}
