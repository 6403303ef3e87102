//! Builds each allocator as a library for `LD_PRELOAD`: third-party allocators from the sources in
//! their packages, and ours from `ephemera-c`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::builds::{BuiltPaths, DIRECTORY, first_error};
use super::catalogue::{GeneralAllocator, OURS};
use crate::shell::Cmd;
use crate::workspace::Workspace;

/// The package with our C interface, and its library.
const OUR_PACKAGE: &str = "ephemera-c";
const OUR_LIBRARY: &str = "libephemera_c.so";

/// The compiler flags for the libraries of mimalloc and snmalloc. The last one puts thread-locals
/// at offsets that are fixed at load time, as the allocators' own builds do for preloaded
/// libraries.
const FLAGS: [&str; 7] =
    ["-O3", "-DNDEBUG", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec"];

#[derive(Deserialize)]
struct RegistryMetadata {
    packages: Vec<RegistryPackage>,
}

#[derive(Deserialize)]
struct RegistryPackage {
    name: String,
    manifest_path: PathBuf,
}

/// Builds the library of each allocator that has a package. An inner error says why a library does
/// not build.
///
/// # Errors
/// Returns an error if cargo does not list the packages of all allocators, or if the directory of
/// the libraries cannot be created or named in `LD_PRELOAD`.
pub(super) fn build(ws: &Workspace, allocators: &[GeneralAllocator]) -> Result<BuiltPaths> {
    let dir = ws.target_dir("programs").join("preload");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    if dir.to_string_lossy().contains([' ', ':']) {
        bail!(
            "LD_PRELOAD cannot name {}: set CARGO_TARGET_DIR to a path without spaces and colons",
            dir.display()
        );
    }
    let sources = sources(ws)?;
    let mut built = BuiltPaths::new();
    for allocator in allocators {
        let Some(package) = allocator.package else { continue };
        let result = if allocator.key == OURS {
            ours(ws)
        } else {
            match sources.get(package) {
                Some(source) => theirs(allocator.key, source, &dir),
                None => bail!("cargo metadata does not list the package {package}"),
            }
        };
        built.insert(allocator.key, result?);
    }
    Ok(built)
}

/// Returns the source directory of each package that the programs depend on, by name.
fn sources(ws: &Workspace) -> Result<BTreeMap<String, PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1", "--all-features", "--manifest-path"])
        .arg(format!("{DIRECTORY}/Cargo.toml"))
        .current_dir(&ws.root)
        .output()
        .context("cannot start cargo")?;
    if !asked.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&asked.stderr).trim());
    }
    let metadata: RegistryMetadata =
        serde_json::from_slice(&asked.stdout).context("the output of cargo metadata has an unknown form")?;
    let directory =
        |package: RegistryPackage| Some((package.name, package.manifest_path.parent()?.to_owned()));
    Ok(metadata.packages.into_iter().filter_map(directory).collect())
}

/// Builds the library of our allocator. Returns the library's path, or an inner error that says why
/// the library does not build.
fn ours(ws: &Workspace) -> Result<Result<PathBuf, String>> {
    // This build has its own directory, because other builds use other options.
    let target = ws.target_dir("programs-ours");
    let cargo = ws.cargo().args(["build", "--release", "--package", OUR_PACKAGE, "--lib"]);
    let cargo = cargo.args(["--config", "profile.release.lto=\"thin\"", "--target-dir"]).arg(&target);
    Ok(tried(&cargo, OUR_PACKAGE)?.map(|()| target.join("release").join(OUR_LIBRARY)))
}

/// Builds the library of the allocator `key` from the sources in `source`, unless `dir` already
/// contains a library of this version. Returns the library's path, or an inner error that says why
/// the library does not build.
fn theirs(key: &str, source: &Path, dir: &Path) -> Result<Result<PathBuf, String>> {
    let version = source.file_name().unwrap_or_default().to_string_lossy();
    let library = dir.join(format!("{version}.so"));
    if library.exists() {
        return Ok(Ok(library));
    }
    let unfinished = dir.join(format!("{version}.unfinished"));
    for command in commands(key, source, dir, &unfinished) {
        if let Err(reason) = tried(&command, key)? {
            return Ok(Err(reason));
        }
    }
    fs::rename(&unfinished, &library).with_context(|| format!("cannot create {}", library.display()))?;
    Ok(Ok(library))
}

/// Returns the commands that build a library from the sources in a package, with the flags of the
/// package's own build.
fn commands(key: &str, source: &Path, dir: &Path, library: &Path) -> Vec<Cmd> {
    let compiler =
        |variable: &str, default: &str| std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let include = |path: &Path| format!("-I{}", path.display());
    match key {
        "mimalloc" => {
            let root = source.join("c_src/mimalloc/v3");
            let flags = ["-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT", "-DMI_DEBUG=0"];
            let cc = Cmd::new(compiler("CC", "cc"), dir).args(FLAGS).args(flags).arg("-fno-builtin-malloc");
            let cc = cc.arg(include(&root.join("include"))).arg(include(&root.join("src")));
            vec![cc.arg(root.join("src/static.c")).arg("-o").arg(library).arg("-lpthread")]
        }
        "snmalloc" => {
            let root = source.join("upstream/src");
            let flags = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-mcx16"];
            // CMake detects these features in the package's own build. Linux with glibc 2.25 or
            // later has all of them.
            let found = [
                "SNMALLOC_USE_WAIT_ON_ADDRESS",
                "SNMALLOC_HAS_LINUX_FUTEX_H",
                "SNMALLOC_HAS_LINUX_RANDOM_H",
                "SNMALLOC_PLATFORM_HAS_GETENTROPY",
            ];
            let cxx = Cmd::new(compiler("CXX", "c++"), dir).args(FLAGS).args(flags);
            let cxx = cxx.args(found.map(|name| format!("-D{name}=1"))).arg(include(&root));
            let cxx = cxx.arg(root.join("snmalloc/override/malloc.cc")).arg("-o").arg(library);
            vec![cxx.args(["-lpthread", "-latomic"])]
        }
        _ => {
            let build = dir.join("jemalloc");
            let shell = |line: &str| Cmd::new("sh", dir).args(["-c", line, "sh"]);
            let copy = shell(
                "rm -rf \"$2\" && cp -r \"$1/jemalloc\" \"$2\" && cp \"$1/configure/configure\" \"$2\"",
            );
            let configure = shell(
                "cd \"$1\" && sh configure --with-version=0.0.0-0-g0 --disable-cxx --disable-stats --enable-doc=no --enable-static=no",
            );
            let make = shell("cd \"$1\" && make -j2 build_lib_shared && cp lib/libjemalloc.so.2 \"$2\"");
            vec![copy.arg(source).arg(&build), configure.arg(&build), make.arg(&build).arg(library)]
        }
    }
}

/// Runs a command of a build. The inner error is the reason for a failure.
fn tried(command: &Cmd, what: &str) -> Result<Result<(), String>> {
    let captured = match command.quiet(&format!("building the library of {what}")) {
        Ok(captured) => captured,
        // The command does not start: the compiler may not be installed.
        Err(error) => return Ok(Err(format!("its library does not build: {error:#}"))),
    };
    if captured.success {
        return Ok(Ok(()));
    }
    eprint!("{}", captured.text);
    Ok(Err(format!("its library does not build: {}", first_error(&captured.text))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{commands, theirs};

    #[test]
    fn each_library_is_built_from_the_sources_of_its_package() {
        let (source, dir, library) = (Path::new("/r/x-1"), Path::new("/t"), Path::new("/t/x-1.unfinished"));
        for (key, expected) in [
            ("mimalloc", "/r/x-1/c_src/mimalloc/v3/src/static.c -o /t/x-1.unfinished"),
            ("snmalloc", "/r/x-1/upstream/src/snmalloc/override/malloc.cc -o /t/x-1.unfinished"),
            ("jemalloc", "/t/jemalloc /t/x-1.unfinished"),
        ] {
            let shown = commands(key, source, dir, library).last().unwrap().shown();
            assert!(shown.contains(expected), "{shown}");
        }
    }

    #[test]
    fn a_library_without_sources_is_reported_with_a_reason() {
        let dir = std::env::temp_dir().join(format!("ephemera-preload-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let reason = theirs("jemalloc", Path::new("/no/such/package-1"), &dir).unwrap().unwrap_err();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(reason.starts_with("its library does not build: "), "{reason}");
    }
}
