//! Restores the environment of the user's shell for the recorded program: removes the variables
//! that cargo and rustup add for xtask.
//!
//! A program that sees `RUSTUP_TOOLCHAIN` or a library path of the toolchain may choose another
//! compiler or load other libraries than it would without the recorder.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::parent_id;
use std::path::Path;

/// Environment variables: their values, by name.
type Variables = BTreeMap<OsString, OsString>;

/// Variables that cargo sets for the processes that it starts, in addition to variables that begin
/// with `CARGO_PKG_`.
const CARGO: [&str; 8] = [
    "CARGO",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_MANIFEST_PATH",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_TARGET_TMPDIR",
];

/// Variables that rustup sets for each tool that it starts.
const RUSTUP: [&str; 2] = ["RUSTUP_TOOLCHAIN_SOURCE", "RUST_RECURSION_COUNT"];

/// Variables that rustup sets if the user did not, each with its default directory below the home
/// directory.
const HOMES: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];

/// Returns the variables of the user's shell, as far as they can be determined. `target` is cargo's
/// output directory.
pub(super) fn of_the_user(target: &Path) -> Variables {
    restored(env::vars_os().collect(), &of_the_parent(), target)
}

/// Returns the initial variables of the parent process, or none if they cannot be read. Cargo
/// replaces itself with xtask, so the parent is the shell.
fn of_the_parent() -> Variables {
    let bytes = fs::read(format!("/proc/{}/environ", parent_id())).unwrap_or_default();
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(pair[..at].to_vec()), OsString::from_vec(pair[at + 1..].to_vec())))
    });
    pairs.collect()
}

fn restored(mut ours: Variables, parent: &Variables, target: &Path) -> Variables {
    if !ours.contains_key(OsStr::new("CARGO_MANIFEST_DIR")) {
        // The user started xtask without cargo.
        return ours;
    }
    let home = |name: &str| ours.get(OsStr::new(name)).cloned();
    let (cargo_home, rustup_home) = (home("CARGO_HOME"), home("RUSTUP_HOME"));
    restore_path(&mut ours, parent, cargo_home.as_deref());
    restore_libraries(&mut ours, target, rustup_home.as_deref());
    for name in CARGO.iter().chain(&RUSTUP) {
        if *name != "RUSTUP_TOOLCHAIN_SOURCE" {
            ours.remove(OsStr::new(name));
        }
    }
    ours.retain(|name, _| !name.as_bytes().starts_with(b"CARGO_PKG_"));
    // `RUSTUP_TOOLCHAIN_SOURCE` is `env` if the user set `RUSTUP_TOOLCHAIN`. Otherwise rustup set
    // `RUSTUP_TOOLCHAIN`, so the recorded program must not see it.
    let source = ours.remove(OsStr::new("RUSTUP_TOOLCHAIN_SOURCE"));
    if source.is_none_or(|source| source != "env") {
        ours.remove(OsStr::new("RUSTUP_TOOLCHAIN"));
    }
    // A directory other than the default is the user's choice.
    let user_home = ours.get(OsStr::new("HOME")).cloned().unwrap_or_default();
    for (name, below) in HOMES {
        if ours
            .get(OsStr::new(name))
            .is_some_and(|value| Path::new(value) == Path::new(&user_home).join(below))
        {
            ours.remove(OsStr::new(name));
        }
    }
    ours
}

/// Removes the directory of cargo's programs, which rustup adds to the front of `PATH`. Leaves
/// `PATH` as it is unless the remaining directories equal the shell's `PATH`.
fn restore_path(ours: &mut Variables, parent: &Variables, cargo_home: Option<&OsStr>) {
    let (Some(path), Some(cargo_home)) = (ours.get(OsStr::new("PATH")), cargo_home) else { return };
    let mut entries = env::split_paths(path);
    if entries.next() != Some(Path::new(cargo_home).join("bin")) {
        return;
    }
    let rest = env::join_paths(entries).ok();
    if let Some(rest) = rest.filter(|rest| parent.get(OsStr::new("PATH")) == Some(rest)) {
        ours.insert("PATH".into(), rest);
    }
}

/// Removes the directories that cargo and rustup add to the front of the library path.
fn restore_libraries(ours: &mut Variables, target: &Path, rustup_home: Option<&OsStr>) {
    const NAME: &str = "LD_LIBRARY_PATH";
    let Some(path) = ours.get(OsStr::new(NAME)) else { return };
    let toolchains = rustup_home.map(|home| Path::new(home).join("toolchains"));
    let added = |entry: &std::path::PathBuf| {
        entry.starts_with(target)
            || toolchains.as_ref().is_some_and(|toolchains| entry.starts_with(toolchains))
            || entry.as_os_str().as_bytes().windows(13).any(|part| part == b"/lib/rustlib/")
    };
    let rest: Vec<_> = env::split_paths(path).skip_while(added).collect();
    if rest.is_empty() {
        ours.remove(OsStr::new(NAME));
    } else if let Ok(rest) = env::join_paths(rest) {
        ours.insert(NAME.into(), rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    #[test]
    fn variables_that_cargo_and_rustup_add_are_removed() {
        let user = [
            ("CARGO_TARGET_DIR", "/t"),
            ("HOME", "/u"),
            ("LD_LIBRARY_PATH", "/opt/lib:/t/lib"),
            ("PATH", "/usr/bin:/bin"),
            ("RUSTUP_AUTO_INSTALL", "0"),
            ("RUST_BACKTRACE", "1"),
        ];
        let mut ours = variables(&user);
        ours.extend(variables(&[
            ("CARGO", "/u/.rustup/toolchains/1.95.0/bin/cargo"),
            ("CARGO_HOME", "/u/.cargo"),
            ("CARGO_MANIFEST_DIR", "/ws/xtask"),
            ("CARGO_MANIFEST_PATH", "/ws/xtask/Cargo.toml"),
            ("CARGO_PKG_NAME", "xtask"),
            ("CARGO_PKG_VERSION", "0.0.0"),
            (
                "LD_LIBRARY_PATH",
                "/t/debug/deps:/t/debug:/usr/lib/rustlib/x/lib:/u/.rustup/toolchains/1.95.0/lib:/opt/lib:/t/lib",
            ),
            ("PATH", "/u/.cargo/bin:/usr/bin:/bin"),
            ("RUSTUP_HOME", "/u/.rustup"),
            ("RUSTUP_TOOLCHAIN", "1.95.0"),
            ("RUSTUP_TOOLCHAIN_SOURCE", "toolchain-file"),
            ("RUST_RECURSION_COUNT", "1"),
        ]));
        let parent = variables(&user);
        assert_eq!(restored(ours.clone(), &parent, Path::new("/t")), parent);
        // The directory of cargo's programs remains if the shell has it too, or if the shell's
        // variables are unknown.
        let kept = restored(ours, &Variables::new(), Path::new("/t"));
        assert_eq!(kept[OsStr::new("PATH")], "/u/.cargo/bin:/usr/bin:/bin");
    }

    #[test]
    fn variables_that_the_user_set_are_kept() {
        let chosen = variables(&[
            ("CARGO_HOME", "/opt/cargo"),
            ("HOME", "/u"),
            ("RUSTUP_HOME", "/opt/rustup"),
            ("RUSTUP_TOOLCHAIN", "nightly"),
        ]);
        let mut ours = chosen.clone();
        let added = [
            ("CARGO_MANIFEST_DIR", "/ws/xtask"),
            ("LD_LIBRARY_PATH", "/t/debug"),
            ("RUSTUP_TOOLCHAIN_SOURCE", "env"),
        ];
        ours.extend(variables(&added));
        assert_eq!(restored(ours, &Variables::new(), Path::new("/t")), chosen);
        let alone = variables(&[("CARGO", "mine"), ("LD_LIBRARY_PATH", "/t/debug")]);
        assert_eq!(restored(alone.clone(), &Variables::new(), Path::new("/t")), alone, "not run by cargo");
    }
}
