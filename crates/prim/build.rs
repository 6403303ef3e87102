//! Sets up to three cfgs:
//!
//! * `ephemera_pages`, if this build can use the system calls of `src/pages/os`
//! * `ephemera_select`, if this compiler offers `core::hint::select_unpredictable`
//! * `ephemera_std_allocator`, if this compiler offers `core::alloc::Allocator` without a feature
//!   gate. Without feature `nightly`, the flag `--cfg ephemera_no_std_allocator` keeps the script
//!   from setting it.
//!
//! For the last two, the script does not compare version numbers. It compiles a probe that uses the
//! item, with the same compiler, target and flags as the crate. If the target's `core` is still to
//! be built (`-Zbuild-std`), the script uses the host's `core`, which belongs to the same
//! toolchain. The script sets the cfg only if the probe compiles.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A source that uses the standard trait in the same way as `src/traits.rs` and `src/backing.rs`.
/// It compiles only if all the names are stable and the methods have these signatures.
const ALLOCATOR: &str = "\
#![no_std]
use core::{alloc::{AllocError, Allocator, Layout}, ptr::NonNull};
type Block = Result<NonNull<[u8]>, AllocError>;
pub struct Probe<A>(pub A);
// SAFETY: every method forwards to an allocator, which moves along.
unsafe impl<A: Allocator> Allocator for Probe<A> {
    fn allocate(&self, l: Layout) -> Block { self.0.allocate(l) }
    fn allocate_zeroed(&self, l: Layout) -> Block { self.0.allocate_zeroed(l) }
    unsafe fn deallocate(&self, p: NonNull<u8>, l: Layout) { unsafe { self.0.deallocate(p, l) } }
    unsafe fn grow(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Block { unsafe { self.0.grow(p, o, n) } }
    unsafe fn grow_zeroed(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Block { unsafe { self.0.grow_zeroed(p, o, n) } }
    unsafe fn shrink(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Block { unsafe { self.0.shrink(p, o, n) } }
}
";

/// A source that uses the function of `src/select.rs`.
const SELECT: &str = "\
#![no_std]
pub fn probe(condition: bool) -> u8 { core::hint::select_unpredictable(condition, 1, 2) }
";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(ephemera_std_allocator)");
    println!("cargo::rustc-check-cfg=cfg(ephemera_no_std_allocator)");
    println!("cargo::rustc-check-cfg=cfg(ephemera_pages)");
    println!("cargo::rustc-check-cfg=cfg(ephemera_select)");
    if has_pages() {
        println!("cargo::rustc-cfg=ephemera_pages");
    }
    // The hint is optional, so the build goes on without it if the probe cannot run.
    let _ = set_if_compiles("ephemera_select", SELECT);
    match set_std_allocator() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("cargo::error=a probe of the compiler could not run: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Sets `cfg(ephemera_std_allocator)` if the compiler accepts [`ALLOCATOR`] and no flag prevents
/// it.
///
/// # Errors
///
/// Returns a description of the problem if the compiler cannot be run on a probe.
fn set_std_allocator() -> Result<(), String> {
    // `ephemera_no_std_allocator` prevents a second implementation. With feature `nightly` there is
    // only one implementation in any case, and the crate needs to know whether the gate still
    // exists.
    let switched_off = env::var_os("CARGO_CFG_EPHEMERA_NO_STD_ALLOCATOR").is_some();
    let one_trait = env::var_os("CARGO_FEATURE_NIGHTLY").is_some();
    if switched_off && !one_trait {
        return Ok(());
    }
    set_if_compiles("ephemera_std_allocator", ALLOCATOR)
}

/// The operating systems that `src/pages/os` supports.
const WITH_PAGES: &[&str] = &[
    "linux",
    "android",
    "macos",
    "ios",
    "tvos",
    "watchos",
    "visionos",
    "freebsd",
    "netbsd",
    "openbsd",
    "dragonfly",
    "windows",
];

/// Returns whether this build can use the system calls of `src/pages/os`: whether [`WITH_PAGES`]
/// lists the target's system and the target has 64-bit atomics. Returns `false` under Miri and
/// loom, which cannot see system calls.
fn has_pages() -> bool {
    let list = |name| env::var(name).unwrap_or_default();
    let has = |name, wanted: &str| list(name).split(',').any(|word| word == wanted);
    let models =
        ["CARGO_CFG_MIRI", "CARGO_CFG_EPHEMERA_LOOM"].into_iter().any(|name| env::var_os(name).is_some());
    !models
        && has("CARGO_CFG_TARGET_HAS_ATOMIC", "64")
        && WITH_PAGES.contains(&list("CARGO_CFG_TARGET_OS").as_str())
}

/// A source that compiles for every target whose `core` is installed.
const CONTROL: &str = "#![no_std]\n";

/// Sets a cfg if the compiler accepts `probe` for the target or, if the target has no `core` yet,
/// for the host.
///
/// # Errors
///
/// Returns a description of the problem if the compiler cannot be run on a probe.
fn set_if_compiles(cfg: &str, probe: &str) -> Result<(), String> {
    if compiles(probe, true)? || (!compiles(CONTROL, true)? && compiles(probe, false)?) {
        println!("cargo::rustc-cfg={cfg}");
    }
    Ok(())
}

/// Returns whether the compiler accepts `source` as a library. Compiles it for the target and with
/// the flags of this build if `for_target`, and for the host without flags otherwise. Fails if the
/// compiler cannot be run on the source.
fn compiles(source: &str, for_target: bool) -> Result<bool, String> {
    let out_dir = required("OUT_DIR")?;
    let file = Path::new(&out_dir).join("probe.rs");
    std::fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;

    let rustc = required("RUSTC")?;
    // `RUSTC_WRAPPER` names a program that runs rustc for Cargo: a compiler cache, or `cargo-miri`.
    let mut command = match env::var_os("RUSTC_WRAPPER").filter(|wrapper| !wrapper.is_empty()) {
        Some(wrapper) => {
            let mut command = Command::new(wrapper);
            command.arg(&rustc);
            command
        }
        None => Command::new(&rustc),
    };
    command
        .args(["--edition=2021", "--crate-name=ephemera_probe", "--crate-type=lib", "--emit=metadata"])
        .args(["--cap-lints=allow", "--out-dir"])
        .arg(&out_dir)
        .arg(&file);
    if for_target {
        command.arg("--target").arg(required("TARGET")?);
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    }
    // The call captures an older compiler's errors about the probe, so the build does not print
    // them.
    let output = command.output().map_err(|error| format!("{}: {error}", Path::new(&rustc).display()))?;
    Ok(output.status.success())
}

/// Returns an environment variable that Cargo sets for build scripts. Fails if the variable is not
/// set.
fn required(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("`{name}` is not set"))
}
