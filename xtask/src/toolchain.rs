//! Finds toolchains, components and targets, and installs missing ones with rustup.

use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The nightly for Miri, for sanitizers, and for tests of the stable `std::alloc::Allocator`.
pub(crate) const NIGHTLY: &str = "nightly-2026-10-29";

/// The targets of the build matrix: one that lacks `std` and 64-bit atomics, a 32-bit one that has
/// both, and one that has `std` but no 64-bit atomics.
pub(crate) const TARGETS: &[&str] =
    &["thumbv7em-none-eabihf", "i686-unknown-linux-gnu", "powerpc-unknown-linux-gnu"];

/// The fallback: the nightly that rustup has installed under this name.
const ANY_NIGHTLY: &str = "nightly";

/// The action for a missing toolchain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingToolchain {
    /// Let rustup install the toolchain.
    Install,
    /// Only report that the toolchain is missing.
    Report,
}

/// A toolchain's name, or a sentence that says what is missing and how to install it.
pub(crate) type FoundToolchain = core::result::Result<String, String>;

/// The nightly that this run chose and printed last, if it needed one.
static SAID: Mutex<Option<String>> = Mutex::new(None);

/// Returns the `RUSTFLAGS` that enable tests of the standard library's `Allocator`, for a
/// toolchain where the trait is stable. Returns an empty string for other toolchains.
pub(crate) fn std_tests(toolchain: &str) -> &'static str {
    if toolchain.starts_with(NIGHTLY) {
        "--cfg ephemera_std_tests --cfg ephemera_std_unstable_tests"
    } else {
        ""
    }
}

/// Returns [`NIGHTLY`] if that toolchain has `components`, otherwise the name of another nightly
/// that has them. With `Install`, lets rustup install what is missing. Prints the choice unless it
/// is the same as the last printed choice.
pub(crate) fn nightly(components: &[&str], missing: MissingToolchain) -> FoundToolchain {
    // The lock is taken first, so that steps that run side by side do not both install the nightly.
    let mut said = SAID.lock().unwrap_or_else(|gone| gone.into_inner());
    let name = pick(&[NIGHTLY, ANY_NIGHTLY], components, missing).ok_or_else(|| {
        format!("no nightly with {} is installed; {}", components.join(", "), how(NIGHTLY, components))
    })?;
    if said.as_deref() != Some(&name) {
        let version = rustc_version(&name).unwrap_or_else(|| "version unknown".to_owned());
        let second =
            if name == NIGHTLY { "" } else { ", since the nightly of this workspace is not available" };
        eprintln!("nightly: {name} ({version}){second}");
        *said = Some(name.clone());
    }
    Ok(name)
}

/// Returns the name of the toolchain for the release `version`, such as `1.85.0`.
pub(crate) fn release(version: &str, missing: MissingToolchain) -> FoundToolchain {
    pick(&[version], &[], missing)
        .ok_or_else(|| format!("toolchain {version} is not installed; {}", how(version, &[])))
}

/// Checks that `toolchain` has the standard library for `triple`, and installs the library if it is
/// missing and `missing` is `Install`. If the library is still missing, returns an error that says
/// how to install it.
pub(crate) fn target(
    toolchain: &str,
    triple: &str,
    missing: MissingToolchain,
) -> core::result::Result<(), String> {
    let has = || {
        lines(&["target", "list", "--installed", "--toolchain", toolchain]).iter().any(|line| line == triple)
    };
    let get = ["target", "add", "--toolchain", toolchain, triple];
    if has() || (missing == MissingToolchain::Install && rustup(&get) && has()) {
        return Ok(());
    }
    Err(format!("{toolchain} lacks the target {triple}; to install it: rustup {}", get.join(" ")))
}

/// Returns the channel that `rust-toolchain.toml` pins.
pub(crate) fn pinned(ws: &Workspace) -> Result<String> {
    let text = std::fs::read_to_string(ws.root.join("rust-toolchain.toml"))?;
    let table: toml::Table = text.parse().context("rust-toolchain.toml")?;
    let channel =
        table.get("toolchain").and_then(|toolchain| toolchain.get("channel")).and_then(toml::Value::as_str);
    channel.map(str::to_owned).context("rust-toolchain.toml names no channel")
}

/// Returns the oldest release that the library crates support, as rustup names it: `1.85.0` for
/// `1.85`.
pub(crate) fn oldest(ws: &Workspace) -> Result<String> {
    let text = std::fs::read_to_string(ws.root.join("Cargo.toml"))?;
    let table: toml::Table = text.parse().context("Cargo.toml")?;
    let package = table.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("rust-version")).and_then(toml::Value::as_str);
    let version = version.context("Cargo.toml has no workspace.package.rust-version")?;
    Ok(if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_owned() })
}

/// Returns the target triple of this machine, as rustc of `toolchain` prints it.
pub(crate) fn host(toolchain: &str) -> Result<String> {
    let asked = Command::new("rustup")
        .args(["run", toolchain, "rustc", "-vV"])
        .output()
        .context("cannot start rustup")?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).with_context(|| format!("rustc of {toolchain} does not print its host"))
}

/// Installs the toolchains and targets that `ci` uses, so that a failure shows early. Prints which
/// of them are available.
pub(crate) fn prepare(ws: &Workspace) -> Result<()> {
    let report = |what: &str, found: FoundToolchain| match found {
        Ok(name) => println!("{what}: {name}"),
        Err(why) => println!("{what}: NOT AVAILABLE, its checks will not run: {why}"),
    };
    let pinned = pinned(ws)?;
    println!("everything else: {pinned} (rust-toolchain.toml)");
    report("oldest compiler", release(&oldest(ws)?, MissingToolchain::Install));
    report("nightly", nightly(&["miri", "rust-src"], MissingToolchain::Install));
    for triple in TARGETS {
        report("target", target(&pinned, triple, MissingToolchain::Install).map(|()| (*triple).to_owned()));
    }
    Ok(())
}

fn pick(names: &[&str], components: &[&str], missing: MissingToolchain) -> Option<String> {
    let installed = |name| lines(&["component", "list", "--installed", "--toolchain", name]);
    let ready = |installed: &[String]| {
        !installed.is_empty()
            && components.iter().all(|wanted| installed.iter().any(|has| is_component(has, wanted)))
    };
    // With `Install`, the loop tries to install a toolchain before it goes on to the next name.
    for name in names {
        let has = installed(name);
        if ready(&has) {
            return Some((*name).to_owned());
        }
        let installs = missing == MissingToolchain::Install;
        if installs && rustup(&installation(name, components, has.is_empty())) && ready(&installed(name)) {
            return Some((*name).to_owned());
        }
    }
    None
}

/// Returns the arguments with which rustup installs a toolchain, or adds components to it if it is
/// not `missing`. An installed nightly without a date in its name thus keeps its date.
fn installation<'a>(name: &'a str, components: &[&'a str], missing: bool) -> Vec<&'a str> {
    if !missing {
        return [&["component", "add", "--toolchain", name], components].concat();
    }
    let mut get = vec!["toolchain", "install", name, "--profile", "minimal", "--no-self-update"];
    get.extend(components.iter().flat_map(|component| ["--component", component]));
    get
}

/// Returns whether `listed`, a name that rustup lists, means the component `wanted`: rustup lists
/// `miri-x86_64-unknown-linux-gnu` for `miri`, and `rust-src` unchanged.
fn is_component(listed: &str, wanted: &str) -> bool {
    listed.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn how(name: &str, components: &[&str]) -> String {
    let with: String = components.iter().map(|component| format!(" --component {component}")).collect();
    format!("to install it: rustup toolchain install {name} --profile minimal{with}")
}

fn rustc_version(name: &str) -> Option<String> {
    let asked = Command::new("rustup").args(["run", name, "rustc", "-V"]).output().ok()?;
    Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

fn lines(args: &[&str]) -> Vec<String> {
    let asked = Command::new("rustup").args(args).stdin(Stdio::null()).output();
    let Ok(asked) = asked else { return Vec::new() };
    if !asked.status.success() {
        return Vec::new();
    }
    String::from_utf8_lossy(&asked.stdout).lines().map(|line| line.trim().to_owned()).collect()
}

fn rustup(args: &[&str]) -> bool {
    eprintln!("$ rustup {}", args.join(" "));
    Command::new("rustup").args(args).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{how, installation, is_component, oldest, pinned};
    use crate::workspace::Workspace;

    #[test]
    fn a_component_is_distinguished_from_one_with_a_longer_name() {
        assert!(is_component("miri-x86_64-unknown-linux-gnu", "miri"));
        assert!(is_component("rust-src", "rust-src"));
        assert!(!is_component("rustfmt-x86_64-unknown-linux-gnu", "rust"));
    }

    #[test]
    fn the_command_to_install_a_toolchain_names_its_components() {
        let said = how("nightly", &["miri", "rust-src"]);
        assert!(
            said.ends_with("install nightly --profile minimal --component miri --component rust-src"),
            "{said}"
        );
    }

    #[test]
    fn an_installed_toolchain_gets_components_without_an_update() {
        let get = |missing| installation("nightly", &["miri", "rust-src"], missing).join(" ");
        assert_eq!(get(false), "component add --toolchain nightly miri rust-src");
        assert!(get(true).starts_with("toolchain install nightly "), "{}", get(true));
        assert!(get(true).ends_with("--component miri --component rust-src"), "{}", get(true));
    }

    #[test]
    fn versions_are_read_from_the_workspace() {
        let ws = Workspace::load().unwrap();
        assert_eq!(oldest(&ws).unwrap().matches('.').count(), 2);
        assert_eq!(pinned(&ws).unwrap().matches('.').count(), 2);
    }
}
