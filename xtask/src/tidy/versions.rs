//! A version that prose repeats is the one in force.

use super::{File, Finding};

/// What is in force.
#[derive(Debug)]
pub(super) struct Facts {
    /// The channel of `rust-toolchain.toml`.
    pub(super) channel: String,
    /// `rust-version` of the workspace, with three numbers.
    pub(super) oldest: String,
    /// The nightly that xtask uses.
    pub(super) nightly: String,
    /// Name and version of every member.
    pub(super) packages: Vec<(String, String)>,
}

/// How a dated nightly is written.
const NIGHTLY: &str = "nightly-20";

/// Words that announce the oldest compiler.
const OLDEST: [&str; 4] = ["MSRV", "rust-version", "inimum supported Rust", "ldest compiler"];

/// Checks prose, workflows and scripts.
pub(super) fn check(files: &[File], facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let prose = file.path.ends_with(".md");
        let script = file.path.starts_with(".github/") || file.path.starts_with(".ci/");
        if !prose && !script {
            continue;
        }
        // A changelog and a decision speak of their own day.
        if file.name() == "CHANGELOG.md" || file.path.starts_with("docs/decisions/") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let mut say = |text: String| findings.push(Finding::error(&file.path, index + 1, text));
            if let Some(other) = nightlies(line).find(|found| *found != facts.nightly) {
                say(format!(
                    "{other} is named, xtask uses {}: write that, or leave the date to xtask",
                    facts.nightly
                ));
            }
            let versions: Vec<_> = rust_versions(line).collect();
            if line.contains("rust-toolchain") && !versions.is_empty() && !has(&versions, &facts.channel) {
                say(format!(
                    "{} is said, rust-toolchain.toml pins {}: make them one",
                    versions.join(", "),
                    facts.channel
                ));
            }
            let oldest = OLDEST.iter().any(|words| line.contains(words));
            if oldest && !versions.is_empty() && !has(&versions, &facts.oldest) {
                say(format!(
                    "{} is said, rust-version in Cargo.toml is {}: make them one",
                    versions.join(", "),
                    facts.oldest
                ));
            }
            if let Some((name, wanted, version)) = prose.then(|| dependency(line, facts)).flatten() {
                say(format!("{name} {wanted} is asked for, its Cargo.toml says {version}: make them one"));
            }
        }
    }
    findings
}

/// Whether one of these is `version`, or the same with its last number left out.
fn has(versions: &[&str], version: &str) -> bool {
    versions.iter().any(|said| is_prefix(said, version))
}

fn is_prefix(short: &str, version: &str) -> bool {
    version.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Versions of Rust: words such as `1.85` and `1.95.0`.
fn rust_versions(line: &str) -> impl Iterator<Item = &str> {
    let words =
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').map(|word| word.trim_matches('.'));
    words.filter(|word| {
        let mut parts = word.split('.');
        let numbers = word.split('.').count();
        parts.next() == Some("1")
            && (2..=3).contains(&numbers)
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn nightlies(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(NIGHTLY).map(|(at, _)| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        rest[..end].trim_end_matches('-')
    })
}

/// A dependency line for a member whose version it does not fit: name, what is asked for, what there is.
/// A line that asks for exactly one version (`"=0.2.0"`) is about another crate of that name.
fn dependency<'a>(line: &'a str, facts: &'a Facts) -> Option<(&'a str, &'a str, &'a str)> {
    let (name, rest) = line.trim().split_once('=')?;
    let name = name.trim();
    let (_, version) = facts.packages.iter().find(|(package, _)| package == name)?;
    let rest = rest.trim();
    let value = if rest.starts_with('{') {
        rest.split_once("version")?.1.trim_start().strip_prefix('=')?.trim_start()
    } else {
        rest
    };
    let wanted = value.strip_prefix('"')?.split('"').next()?;
    let plain = wanted.trim_start_matches('^');
    (!wanted.starts_with('=') && !is_prefix(plain, version)).then_some((name, wanted, version))
}

#[cfg(test)]
mod tests {
    use super::{Facts, check};
    use crate::tidy::File;

    fn found(path: &str, text: &str) -> Vec<String> {
        let facts = Facts {
            channel: "1.95.0".to_owned(),
            oldest: "1.85.0".to_owned(),
            nightly: "nightly-2026-10-29".to_owned(),
            packages: vec![("ring-alloc".to_owned(), "0.2.100".to_owned())],
        };
        check(&[File::new(path, text)], &facts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pinned_compiler_of_another_day_is_found() {
        assert!(found("README.md", "rust-toolchain.toml pins 1.95.0.").is_empty());
        assert!(
            found("README.md", "`rust-toolchain.toml` is our pin; std's trait is stable from 1.95 on")
                .is_empty()
        );
        assert!(found("docs/a.md", "rust-toolchain.toml pins 1.94.0.")[0].contains("1.94.0 is said"));
        assert!(found("docs/a.md", "rustc 1.100 or later").is_empty());
    }

    #[test]
    fn an_oldest_compiler_of_another_day_is_found() {
        assert!(found("README.md", "MSRV: 1.85 (harness: 1.95)").is_empty());
        assert!(found("README.md", "MSRV 1.8")[0].contains("1.85.0"));
        assert!(found("README.md", "Minimum supported Rust version: 1.80.").len() == 1);
    }

    #[test]
    fn nightlies_agree_with_xtask() {
        assert!(found(".ci/run", "rustup toolchain install nightly-2026-10-29").is_empty());
        assert_eq!(found(".github/workflows/ci.yml", "toolchain: nightly-2026-01-02, x").len(), 1);
        assert!(found("CHANGELOG.md", "Moved to nightly-2026-01-02.").is_empty());
    }

    #[test]
    fn dependency_lines_fit_the_crate() {
        for good in
            ["ring-alloc = \"0.2\"", "ring-alloc = \"0.2.100\"", "ring-alloc = { version = \"0.2\", x = 1 }"]
        {
            assert!(found("README.md", good).is_empty(), "{good}");
        }
        assert!(found("README.md", "ring-alloc = \"=0.2.0\"").is_empty());
        assert!(found("README.md", "ring-alloc = { path = \"x\" }").is_empty());
        assert!(found("README.md", "ring-alloc = \"0.1\"")[0].ends_with("says 0.2.100: make them one"));
        assert_eq!(found("README.md", "  ring-alloc = { version = \"0.20\" }").len(), 1);
        assert!(found("src/a.rs", "ring-alloc = \"0.1\"").is_empty());
    }
}
