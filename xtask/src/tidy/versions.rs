//! Compares the versions that prose mentions with the actual versions.

use super::{Finding, SourceFile};

/// The actual versions.
#[derive(Debug)]
pub(super) struct Facts {
    /// The channel of `rust-toolchain.toml`.
    pub(super) channel: String,
    /// The `rust-version` of the workspace, with three numbers.
    pub(super) oldest: String,
    /// The nightly that xtask uses.
    pub(super) nightly: String,
    /// The name and version of every member.
    pub(super) packages: Vec<(String, String)>,
}

/// The start of a dated nightly's name.
const NIGHTLY: &str = "nightly-20";

/// Words that introduce the oldest supported compiler.
const OLDEST: [&str; 4] = ["MSRV", "rust-version", "inimum supported Rust", "ldest compiler"];

/// Checks prose, workflows and scripts.
pub(super) fn check(files: &[SourceFile], facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let prose = file.path.ends_with(".md");
        let script = file.path.starts_with(".github/") || file.path.starts_with(".ci/");
        if !prose && !script {
            continue;
        }
        // A changelog and a decision describe the state at their own date.
        if file.name() == "CHANGELOG.md" || file.path.starts_with("docs/decisions/") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let mut say = |text: String| findings.push(Finding::error(&file.path, index + 1, text));
            if let Some(other) = nightlies(line).find(|found| *found != facts.nightly) {
                say(format!(
                    "the text names {other}, but xtask uses {}: write that one, or no date",
                    facts.nightly
                ));
            }
            let versions: Vec<_> = rust_versions(line).collect();
            if line.contains("rust-toolchain") && !versions.is_empty() && !has(&versions, &facts.channel) {
                say(format!(
                    "the text says {}, but rust-toolchain.toml pins {}: make them agree",
                    versions.join(", "),
                    facts.channel
                ));
            }
            let oldest = OLDEST.iter().any(|words| line.contains(words));
            if oldest && !versions.is_empty() && !has(&versions, &facts.oldest) {
                say(format!(
                    "the text says {}, but rust-version in Cargo.toml is {}: make them agree",
                    versions.join(", "),
                    facts.oldest
                ));
            }
            if let Some((name, wanted, version)) = prose.then(|| dependency(line, facts)).flatten() {
                say(format!(
                    "the text asks for {name} {wanted}, but its Cargo.toml says {version}: make them agree"
                ));
            }
        }
    }
    findings
}

/// Returns whether one of `versions` is `version`, or `version` without its last numbers.
fn has(versions: &[&str], version: &str) -> bool {
    versions.iter().any(|said| is_prefix(said, version))
}

fn is_prefix(short: &str, version: &str) -> bool {
    version.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the versions of Rust in a line: words such as `1.85` and `1.95.0`.
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

/// Returns the name, the requested version and the actual version, if a line requests a member at a
/// version that it does not have. A line with an exact version (`"=0.2.0"`) means the published
/// crate of that name. Returns `None` for such a line, and for every line that requests no member
/// or the right version.
fn dependency<'a>(line: &'a str, facts: &'a Facts) -> Option<(&'a str, &'a str, &'a str)> {
    // A page shows the new line of a changed dependency with a plus.
    let line = line.trim();
    let (name, rest) = line.strip_prefix('+').unwrap_or(line).split_once('=')?;
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
    use crate::tidy::SourceFile;

    fn found(path: &str, text: &str) -> Vec<String> {
        let facts = Facts {
            channel: "1.95.0".to_owned(),
            oldest: "1.85.0".to_owned(),
            nightly: "nightly-2026-10-29".to_owned(),
            packages: vec![("ring-alloc".to_owned(), "0.2.100".to_owned())],
        };
        check(&[SourceFile::new(path, text)], &facts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pinned_compiler_that_differs_is_reported() {
        assert!(found("README.md", "rust-toolchain.toml pins 1.95.0.").is_empty());
        assert!(
            found("README.md", "`rust-toolchain.toml` is our pin; std's trait is stable from 1.95 on")
                .is_empty()
        );
        assert!(found("docs/a.md", "rust-toolchain.toml pins 1.94.0.")[0].contains("the text says 1.94.0"));
        assert!(found("docs/a.md", "rustc 1.100 or later").is_empty());
    }

    #[test]
    fn an_oldest_compiler_that_differs_is_reported() {
        assert!(found("README.md", "MSRV: 1.85 (harness: 1.95)").is_empty());
        assert!(found("README.md", "MSRV 1.8")[0].contains("1.85.0"));
        assert!(found("README.md", "Minimum supported Rust version: 1.80.").len() == 1);
    }

    #[test]
    fn a_nightly_that_differs_is_reported() {
        assert!(found(".ci/run", "rustup toolchain install nightly-2026-10-29").is_empty());
        assert_eq!(found(".github/workflows/ci.yml", "toolchain: nightly-2026-01-02, x").len(), 1);
        assert!(found("CHANGELOG.md", "Moved to nightly-2026-01-02.").is_empty());
    }

    #[test]
    fn a_dependency_line_that_does_not_match_its_crate_is_reported() {
        for good in
            ["ring-alloc = \"0.2\"", "ring-alloc = \"0.2.100\"", "ring-alloc = { version = \"0.2\", x = 1 }"]
        {
            assert!(found("README.md", good).is_empty(), "{good}");
        }
        assert!(found("README.md", "ring-alloc = \"=0.2.0\"").is_empty());
        assert!(found("README.md", "ring-alloc = { path = \"x\" }").is_empty());
        assert!(found("README.md", "ring-alloc = \"0.1\"")[0].ends_with("says 0.2.100: make them agree"));
        assert_eq!(found("README.md", "  ring-alloc = { version = \"0.20\" }").len(), 1);
        assert_eq!(found("README.md", "+ring-alloc = \"0.20\"").len(), 1);
        assert!(found("README.md", "-ring-alloc = \"0.20\"").is_empty());
        assert!(found("src/a.rs", "ring-alloc = \"0.1\"").is_empty());
    }
}
