//! Builds the executables: one for each allocator, with every chosen program in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::catalogue::{GeneralAllocator, MeasuredProgram};
use crate::shell::Cmd;
use crate::workspace::Workspace;

/// The package with the programs, which is a separate workspace.
pub(super) const DIRECTORY: &str = "benches/programs";

/// The paths of the executables or libraries, by the allocator's key. An error says why there is no
/// path.
pub(super) type BuiltPaths = BTreeMap<&'static str, Result<PathBuf, String>>;

/// Builds an executable for each allocator.
///
/// # Errors
/// Returns an error if cargo cannot be started. If an allocator does not build, its entry in the
/// map has the reason.
pub(super) fn build(
    ws: &Workspace,
    programs: &[MeasuredProgram],
    allocators: &[GeneralAllocator],
) -> Result<BuiltPaths> {
    eprintln!("Building the programs. The first build takes some minutes; measuring starts afterwards.");
    let target = directory(ws);
    let path = |allocator: &GeneralAllocator| {
        let file = format!("{}{}", allocator.executable(), std::env::consts::EXE_SUFFIX);
        target.join("release").join(file)
    };
    let paths = || allocators.iter().map(|allocator| (allocator.key, Ok(path(allocator)))).collect();
    if cargo(ws, &target, programs, allocators).quiet("building the programs")?.success {
        return Ok(paths());
    }
    // At least one executable does not build. The loop builds each executable alone, so that the
    // others can take part.
    let mut built: BuiltPaths = paths();
    for allocator in allocators {
        let command = cargo(ws, &target, programs, core::slice::from_ref(allocator));
        let captured = command.quiet(&format!("building the programs over {}", allocator.label))?;
        if !captured.success {
            eprint!("{}", captured.text);
            built.insert(allocator.key, Err(format!("it does not build: {}", first_error(&captured.text))));
        }
    }
    Ok(built)
}

/// Returns the build directory of the programs.
pub(super) fn directory(ws: &Workspace) -> PathBuf {
    ws.target_dir("programs")
}

/// Returns the command that builds the executables of `allocators`, with the linked programs of
/// `programs` in each.
pub(super) fn cargo(
    ws: &Workspace,
    target: &Path,
    programs: &[MeasuredProgram],
    allocators: &[GeneralAllocator],
) -> Cmd {
    let linked = programs.iter().filter(|program| program.package().is_some());
    let mut features: Vec<_> = linked.map(|program| program.name.to_owned()).collect();
    features.extend(allocators.iter().filter_map(GeneralAllocator::feature));
    let mut bins: Vec<_> = allocators.iter().map(GeneralAllocator::executable).collect();
    bins.dedup();
    let manifest = format!("{DIRECTORY}/Cargo.toml");
    let cargo =
        ws.cargo().args(["build", "--release", "--locked", "--manifest-path", &manifest, "--target-dir"]);
    let cargo = cargo.arg(target).args(["--features", &features.join(",")]);
    bins.iter().fold(cargo, |cargo, bin| cargo.args(["--bin", bin]))
}

/// Returns the first error that cargo or a compiler reported, or a reference to the messages above
/// if `text` contains no error.
pub(super) fn first_error(text: &str) -> &str {
    let is_error = |line: &&str| line.starts_with("error") || line.contains(": error: ");
    text.lines().find(is_error).unwrap_or("see the messages above")
}

/// Returns the version of each package in the lock file, by name. If the file has several versions
/// of a package, the last one counts, which is the newest.
pub(super) fn versions(ws: &Workspace) -> Result<BTreeMap<String, String>> {
    let path = ws.root.join(DIRECTORY).join("Cargo.lock");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lock: toml::Table = text.parse().context("benches/programs/Cargo.lock has an unknown form")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, field| Some(package.get(field)?.as_str()?.to_owned());
    Ok(packages.filter_map(|package| Some((text(package, "name")?, text(package, "version")?))).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{cargo, first_error, versions};
    use crate::programs::catalogue::{ALLOCATORS, MeasuredProgram, PROGRAMS};
    use crate::workspace::Workspace;
    use crate::workspace::tests::sample;

    #[test]
    fn the_command_builds_the_chosen_programs_over_the_chosen_allocators() {
        let shown = cargo(&sample(), Path::new("/t"), &PROGRAMS[..2], &ALLOCATORS[..3]).shown();
        assert!(shown.contains("--features syn,serde_json,over-mimalloc "), "{shown}");
        assert!(shown.ends_with("--bin programs-glibc --bin programs-mimalloc"), "{shown}");
        assert!(shown.contains("--locked"), "{shown}");
    }

    #[test]
    fn the_reason_of_a_failed_build_is_its_first_error() {
        let text =
            "warning: error in a name\n  error: not at the start\nerror: failed to run `cmake`\nerror: b\n";
        assert_eq!(first_error(text), "error: failed to run `cmake`");
        assert_eq!(first_error("In file a.h\na.h:4:7: error: no\n"), "a.h:4:7: error: no");
        assert_eq!(first_error("killed"), "see the messages above");
    }

    #[test]
    fn the_lock_file_has_the_version_of_every_program_and_allocator() {
        let versions = versions(&Workspace::load().unwrap()).unwrap();
        let allocators = ALLOCATORS.iter().filter_map(|allocator| allocator.package);
        for package in PROGRAMS.iter().filter_map(MeasuredProgram::package).chain(allocators) {
            assert!(versions.contains_key(package), "{package}");
        }
    }
}
