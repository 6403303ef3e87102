//! The workspace as `cargo metadata` describes it: its root, its output directory and its packages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::shell::{self, Cmd};

/// The cargo workspace that contains xtask.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's output directory: `target`, or `CARGO_TARGET_DIR`.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The package's name in `Cargo.toml`.
    pub(crate) name: String,
    /// The last part of the package's directory, which commands accept in place of the name.
    pub(crate) dir: String,
    pub(crate) version: String,
    /// The names of the package's integration tests.
    pub(crate) tests: Vec<String>,
    /// The names of the package's binaries.
    pub(crate) bins: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<RawTarget>,
}

#[derive(Deserialize)]
struct RawTarget {
    name: String,
    kind: Vec<String>,
}

impl Workspace {
    /// Reads the workspace from `cargo metadata`.
    pub(crate) fn load() -> Result<Self> {
        // `cargo run` sets `CARGO_MANIFEST_DIR` to the current directory of the package xtask.
        // `env!` returns the directory that the package had when xtask was compiled.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = here.parent().context("the package xtask has no parent directory")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let asked = std::process::Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(&root)
            .output()
            .context("cannot start cargo")?;
        if !asked.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&asked.stderr).trim());
        }
        Self::parse(&asked.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self> {
        let data: Metadata =
            serde_json::from_slice(json).context("the output of cargo metadata has an unknown form")?;
        let packages = data.packages.into_iter().map(Package::from).collect();
        Ok(Self { root: data.workspace_root, target: data.target_directory, packages })
    }

    /// Returns the member whose package name or directory is `name`.
    ///
    /// # Errors
    /// Returns an error if no member has this name.
    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        self.packages.iter().find(|package| package.name == name || package.dir == name).with_context(|| {
            let names: Vec<_> = self.packages.iter().map(|package| package.name.as_str()).collect();
            format!("no package is named `{name}`; the packages are: {}", names.join(", "))
        })
    }

    /// Returns the member that `chosen` names, or all members that `default` names if the user
    /// chose none.
    ///
    /// # Errors
    /// Returns an error if no member has one of these names.
    pub(crate) fn choose(&self, chosen: Option<&str>, default: &[&str]) -> Result<Vec<&Package>> {
        match chosen {
            Some(name) => Ok(vec![self.package(name)?]),
            None => default.iter().map(|name| self.package(name)).collect(),
        }
    }

    /// Returns a command that runs `cargo` of the pinned toolchain at the root of the workspace.
    pub(crate) fn cargo(&self) -> Cmd {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Cmd::new(cargo, &self.root)
    }

    /// Returns a command that runs `cargo` of the toolchain `name` at the root of the workspace.
    pub(crate) fn cargo_of(&self, name: &str) -> Cmd {
        Cmd::new("rustup", &self.root).args(["run", name, "cargo"]).without("RUSTUP_TOOLCHAIN")
    }

    /// Returns the directory `name` below cargo's output directory.
    pub(crate) fn target_dir(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Returns the build directory `name` of the current lane. Lane 0 uses the name as it is, and
    /// other lanes append their number. In a shared directory, steps that run side by side would
    /// wait for the directory's lock.
    pub(crate) fn lane_dir(&self, name: &str) -> PathBuf {
        match shell::lane() {
            0 => self.target.join(name),
            lane => self.target.join(format!("{name}-{lane}")),
        }
    }
}

impl Package {
    /// Returns the name of the package's directory: `prim` for `ephemera-prim`.
    pub(crate) fn short(&self) -> &str {
        &self.dir
    }
}

impl From<RawPackage> for Package {
    fn from(raw: RawPackage) -> Self {
        let dir = raw.manifest_path.parent().and_then(Path::file_name).unwrap_or_default();
        let of_kind = |kind: &str| {
            let wanted = raw.targets.iter().filter(|target| target.kind.iter().any(|has| has == kind));
            wanted.map(|target| target.name.clone()).collect()
        };
        Self {
            dir: dir.to_string_lossy().into_owned(),
            version: raw.version,
            tests: of_kind("test"),
            bins: of_kind("bin"),
            name: raw.name,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Workspace;

    const SAMPLE: &str = r#"{
        "target_directory": "/ws/target", "workspace_root": "/ws",
        "packages": [
            {"name": "ephemera-prim", "version": "0.1.0", "manifest_path": "/ws/crates/prim/Cargo.toml", "targets": [
                {"name": "ephemera_prim", "kind": ["lib"]},
                {"name": "loom_inbox", "kind": ["test"]},
                {"name": "exit", "kind": ["test"]}]},
            {"name": "bench-harness", "version": "0.2.0", "manifest_path": "/ws/crates/bench-harness/Cargo.toml", "targets": [
                {"name": "bench-runner", "kind": ["bin"]}]}
        ]}"#;

    /// Returns a workspace of two packages for tests.
    pub(crate) fn sample() -> Workspace {
        Workspace::parse(SAMPLE.as_bytes()).unwrap()
    }

    #[test]
    fn packages_are_found_by_name_and_by_directory() {
        let ws = sample();
        assert_eq!(ws.package("prim").unwrap().name, "ephemera-prim");
        assert_eq!(ws.package("ephemera-prim").unwrap().tests, ["loom_inbox", "exit"]);
        assert_eq!(ws.package("bench-harness").unwrap().bins, ["bench-runner"]);
        assert!(ws.package("ringal").unwrap_err().to_string().contains("bench-harness"));
    }

    #[test]
    fn a_chosen_package_replaces_the_default() {
        let ws = sample();
        assert_eq!(ws.choose(None, &["prim", "bench-harness"]).unwrap().len(), 2);
        assert_eq!(ws.choose(Some("bench-harness"), &["prim"]).unwrap()[0].name, "bench-harness");
        assert!(ws.choose(Some("nothing"), &["prim"]).is_err());
    }

    #[test]
    fn the_workspace_of_this_repository_loads() {
        let ws = Workspace::load().unwrap();
        assert!(ws.package("xtask").is_ok());
        assert!(ws.root.join("rust-toolchain.toml").is_file());
    }
}
