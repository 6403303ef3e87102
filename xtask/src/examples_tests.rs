//! Tests of the example programs. Each example contains a test that `test/unit` runs. At least two
//! examples of each published crate compare the crate with the global heap and print the saving.

use std::fs;

use crate::workspace::{Package, Workspace};

/// The directories of the crates that are published in a registry.
pub(crate) const PUBLISHED: [&str; 4] = ["ring-alloc", "ringal", "shared_arena", "typed-pool"];

/// The maximum number of lines of an example.
const LONGEST: usize = 120;

/// The word with which an example prints its saving.
const GAIN: &str = " saved ";

/// Returns the examples of the published crates: the package, the name and the text of each.
pub(crate) fn all(ws: &Workspace) -> Vec<(&Package, String, String)> {
    let mut examples = Vec::new();
    for dir in PUBLISHED {
        let package = ws.package(dir).expect("the crate is a member");
        let files =
            fs::read_dir(ws.root.join("crates").join(dir).join("examples")).expect("the crate has examples");
        for file in files.map(|file| file.expect("the directory can be read").path()) {
            let name = file.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            examples.push((package, name, fs::read_to_string(&file).expect("the example can be read")));
        }
    }
    examples
}

#[test]
fn two_examples_of_every_published_crate_print_what_it_saved() {
    let ws = Workspace::load().unwrap();
    let all = all(&ws);
    for dir in PUBLISHED {
        let saving = all.iter().filter(|(package, _, text)| package.dir == dir && text.contains(GAIN));
        assert!(saving.count() >= 2, "{dir}");
    }
}

#[test]
fn every_example_is_short_tested_and_listed_in_its_readme() {
    let ws = Workspace::load().unwrap();
    for (package, name, text) in all(&ws) {
        assert!(text.lines().count() <= LONGEST, "{name} has more than {LONGEST} lines");
        assert!(text.contains("#[test]\n"), "{name} is not a test");
        let command = format!("cargo run --release -p {} --example {name}", package.name);
        assert!(text.contains(&command), "{name} does not say how to run it");
        let readme = ws.root.join("crates").join(&package.dir).join("README.md");
        let readme = fs::read_to_string(readme).unwrap();
        assert!(readme.contains(&command), "the README of {} does not name {name}", package.name);
    }
}
