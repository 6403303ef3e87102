//! Runs the example programs of the published crates. Each asserts its own figures, and prints what
//! its allocator saved.

use std::env::consts::EXE_SUFFIX;

use anyhow::{Result, bail};

use crate::shell::Cmd;
use crate::steps::{Outcome, Step};
use crate::test;
use crate::workspace::{Package, Workspace};

/// The directories of the crates that have a page in a registry.
pub(crate) const PUBLISHED: [&str; 4] = ["ring-alloc", "ringal", "shared_arena", "typed-pool"];

/// The word that every example prints with the figure of its gain.
const GAIN: &str = " saved ";

/// Returns the step that runs all examples.
pub(crate) fn step() -> Step<'static> {
    Step::new("test/examples", "the example programs run and say what was gained", |ws| {
        // The unit tests build with the same command, so after them this takes no time.
        test::build(ws)?;
        let mut ran = 0;
        for (_, name) in all(ws)? {
            let file = ws.target_dir("debug").join("examples").join(format!("{name}{EXE_SUFFIX}"));
            let output = Cmd::new(file, &ws.root).tee()?;
            if !output.success {
                bail!("the example `{name}` failed");
            }
            if !output.text.contains(GAIN) {
                bail!("the example `{name}` does not say what its allocator saved");
            }
            ran += 1;
        }
        Ok(Outcome::Passed(format!("{ran} programs")))
    })
}

/// Returns the examples of the published crates.
pub(crate) fn all(ws: &Workspace) -> Result<Vec<(&Package, &str)>> {
    let packages = ws.choose(None, &PUBLISHED)?;
    if let Some(package) = packages.iter().find(|package| package.examples.len() < 2) {
        bail!("{} has fewer than two examples", package.name);
    }
    let mut examples = Vec::new();
    for package in packages {
        examples.extend(package.examples.iter().map(|name| (package, name.as_str())));
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{GAIN, all};
    use crate::workspace::Workspace;

    /// The longest example, in lines.
    const LONGEST: usize = 120;

    #[test]
    fn every_example_is_short_and_named_in_the_readme_of_its_crate() {
        let ws = Workspace::load().unwrap();
        for (package, name) in all(&ws).unwrap() {
            let dir = ws.root.join("crates").join(&package.dir);
            let text = fs::read_to_string(dir.join("examples").join(format!("{name}.rs"))).unwrap();
            assert!(text.lines().count() <= LONGEST, "{name} has more than {LONGEST} lines");
            assert!(text.contains(GAIN), "{name} does not print what was saved");
            let command = format!("cargo run --release -p {} --example {name}", package.name);
            assert!(text.contains(&command), "{name} does not say how to run it");
            let readme = fs::read_to_string(dir.join("README.md")).unwrap();
            assert!(readme.contains(&command), "the README of {} does not name {name}", package.name);
        }
    }

    #[test]
    fn names_of_examples_are_unique_because_they_share_a_directory() {
        let ws = Workspace::load().unwrap();
        let mut names: Vec<_> = ws.packages.iter().flat_map(|package| &package.examples).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }
}
