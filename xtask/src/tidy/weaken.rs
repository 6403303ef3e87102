//! Compares the weakenings in the code with the table of negative controls. Each weakening needs a
//! row, and each row a weakening.

use super::{Finding, SourceFile};
use crate::controls::table::FILE;

/// The macros whose string arguments name weakenings.
const MACROS: [&str; 2] = [concat!("weakened!", "("), concat!("ordering!", "(")];

/// Compares the weakenings in the crates with `names`, the names in the table.
pub(super) fn check(files: &[SourceFile], names: &[String]) -> Vec<Finding> {
    let crates = || files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/"));
    let mut findings = Vec::new();
    for file in crates() {
        for (index, line) in file.text.lines().enumerate() {
            for name in weakenings(line).filter(|name| !names.iter().any(|listed| listed == name)) {
                let text = format!(
                    "the weakening `{name}` has no row in {FILE}: name the test that must fail with it"
                );
                findings.push(Finding::error(&file.path, index + 1, text));
            }
        }
    }
    for name in names {
        let quoted = format!("\"{name}\"");
        if !crates().any(|file| file.text.contains(&quoted)) {
            let table = files.iter().find(|file| file.path == FILE);
            let line = table.and_then(|table| table.text.lines().position(|line| line.contains(&quoted)));
            let text = format!("no crate has a weakening `{name}`: remove the row, or correct its name");
            findings.push(Finding::error(FILE, line.map_or(1, |index| index + 1), text));
        }
    }
    findings
}

/// Returns the names of the weakenings in a line.
fn weakenings(line: &str) -> impl Iterator<Item = &str> {
    let at = MACROS.into_iter().filter_map(|name| line.find(name)).min().unwrap_or(line.len());
    line[at..].split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::{MACROS, check};
    use crate::controls::table::FILE;
    use crate::tidy::SourceFile;

    fn found(code: &str, names: &[&str]) -> Vec<String> {
        let files = [SourceFile::new("crates/a/src/b.rs", code), SourceFile::new(FILE, "\nname = \"a\"\n")];
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        check(&files, &names).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_weakening_without_a_row_and_a_row_without_a_weakening_are_reported() {
        let code = format!("if {}\"a\") {{}}\n", MACROS[0]);
        assert!(found(&code, &["a"]).is_empty());
        assert!(found(&code, &[])[0].starts_with("crates/a/src/b.rs:1: the weakening `a`"));
        assert!(found("fn f() {}\n", &["a"])[0].starts_with("xtask/controls.toml:2: no crate has"));
        let two = format!("{}f = AcqRel, Relaxed if \"b\", Release if \"c\");", MACROS[1]);
        assert_eq!(found(&two, &["a"]).len(), 3);
    }
}
