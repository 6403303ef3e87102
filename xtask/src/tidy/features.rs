//! Checks the manifests of the crates. Every feature except `default` needs a `##` comment above
//! it. Every dependency for the cfg of the models must be optional.

use super::{Finding, SourceFile};

/// Checks the manifests of the crates.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let manifests =
        files.iter().filter(|file| file.path.starts_with("crates/") && file.name() == "Cargo.toml");
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    let mut of_models = false;
    let mut documented = false;
    // The number of open brackets. A list may span several lines.
    let mut open = 0_i32;
    for (index, line) in file.text.lines().map(str::trim).enumerate() {
        if open == 0 && line.starts_with('[') {
            inside = line == "[features]";
            of_models = line == "[target.'cfg(ephemera_loom)'.dependencies]";
            documented = false;
            continue;
        }
        if of_models && line.contains('=') && !line.contains("optional = true") {
            let text = "write `optional = true`: the lock file of each user lists every dependency that is not optional";
            findings.push(Finding::error(&file.path, index + 1, text.to_owned()));
        }
        if !inside {
            continue;
        }
        if open == 0 {
            if line.starts_with("##") {
                documented = true;
            } else if line.is_empty() {
                documented = false;
            } else if let Some((name, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                let name = name.trim().trim_matches('"');
                if name != "default" && !documented {
                    let text = format!(
                        "feature `{name}` is not documented: write `## <what it adds>` in the line above"
                    );
                    findings.push(Finding::error(&file.path, index + 1, text));
                }
                documented = false;
            }
        }
        if !line.starts_with('#') {
            open += brackets(line);
        }
    }
    findings
}

/// Returns how many more brackets a line opens than it closes.
fn brackets(line: &str) -> i32 {
    line.chars().map(|c| i32::from(c == '[') - i32::from(c == ']')).sum()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::SourceFile;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documented_features_are_accepted() {
        let text = "[features]\ndefault = [\"std\"]\n## The standard library.\nstd = [\n    \"alloc\",\n]\n\n\
            ## The heap,\n## in two lines.\nalloc = []\n\n[dependencies]\nx = \"1\"\n";
        assert!(found("crates/a/Cargo.toml", text).is_empty());
    }

    #[test]
    fn undocumented_features_are_reported_with_their_line() {
        let text = "[features]\n## Documented.\nstd = []\nalloc = []\n# one hash is not documentation\nnightly = []\n";
        let found = found("crates/a/Cargo.toml", text);
        assert!(found[0].starts_with("crates/a/Cargo.toml:4: feature `alloc`"), "{found:?}");
        assert!(found[1].starts_with("crates/a/Cargo.toml:6: feature `nightly`"), "{found:?}");
    }

    #[test]
    fn dependencies_of_the_models_must_be_optional() {
        let manifest = |value| format!("[target.'cfg(ephemera_loom)'.dependencies]\nloom = {value}\n");
        assert!(found("crates/a/Cargo.toml", &manifest("{ workspace = true, optional = true }")).is_empty());
        let found = found("crates/a/Cargo.toml", &manifest("{ workspace = true }"));
        assert!(found[0].starts_with("crates/a/Cargo.toml:2: write `optional = true`"), "{found:?}");
    }

    #[test]
    fn manifests_outside_crates_are_ignored() {
        assert!(found("xtask/Cargo.toml", "[features]\na = []\n").is_empty());
    }
}
