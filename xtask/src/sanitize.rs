//! `cargo xtask sanitize`: runs the tests under AddressSanitizer, ThreadSanitizer or LeakSanitizer.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::libtest::{COMPILE_FAIL, TestRun};
use crate::steps::{Outcome, Step, run};
use crate::toolchain::{self, MissingToolchain};
use crate::workspace::Workspace;

/// The directories of the packages whose tests run.
const PACKAGES: [&str; 6] = ["prim", "testkit", "ring-alloc", "ringal", "shared_arena", "typed-pool"];

/// The runtime options for all sanitizers. Tests request impossible sizes on purpose, and the
/// runtime must refuse them as `malloc` does, instead of ending the process. The runtime ends a
/// test that takes 8 GB of memory, before the test exhausts the machine.
const REFUSE: &str = "allocator_may_return_null=1:hard_rss_limit_mb=8000";

/// The kind of fault to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Invalid accesses: AddressSanitizer, with freed blocks poisoned by `ephemera_prim::poison`.
    Address,
    /// Data races: ThreadSanitizer, with a standard library built for it.
    Thread,
    /// Leaked memory: LeakSanitizer.
    Leak,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask sanitize                       finds invalid accesses
  cargo xtask sanitize thread                finds data races; builds the standard library first
  cargo xtask sanitize leak --package prim   finds leaks of one package

Options in ASAN_OPTIONS, TSAN_OPTIONS and LSAN_OPTIONS override those of this command.")]
pub(crate) struct SanitizeOptions {
    /// The kind of fault to find.
    #[arg(value_enum, default_value_t = Sanitizer::Address)]
    sanitizer: Sanitizer,
    /// Check this package: its name or directory.
    #[arg(long, short)]
    package: Option<String>,
}

/// Runs the tests of the chosen packages under a sanitizer. Returns whether the step did not fail.
pub(crate) fn main(ws: &Workspace, options: &SanitizeOptions) -> Result<bool> {
    let packages = ws.choose(options.package.as_deref(), &PACKAGES)?;
    let names = packages.into_iter().map(|package| package.name.clone()).collect();
    Ok(run(ws, vec![step(options.sanitizer, names)]))
}

/// Returns the AddressSanitizer step of `cargo xtask ci`.
pub(crate) fn address(ws: &Workspace) -> Result<Step<'static>> {
    let names = ws.choose(None, &PACKAGES)?.into_iter().map(|package| package.name.clone()).collect();
    Ok(step(Sanitizer::Address, names))
}

fn step(sanitizer: Sanitizer, packages: Vec<String>) -> Step<'static> {
    let short = sanitizer.short();
    Step::new(short, format!("the tests pass under {}", sanitizer.title()), move |ws| {
        let components: &[&str] = if sanitizer == Sanitizer::Thread { &["rust-src"] } else { &[] };
        let nightly = match toolchain::nightly(components, MissingToolchain::Install) {
            Ok(nightly) => nightly,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let host = toolchain::host(&nightly)?;
        if !host.starts_with("x86_64-unknown-linux") && !host.starts_with("aarch64-unknown-linux") {
            return Ok(Outcome::Skipped(format!(
                "this command supports sanitizers on 64-bit Linux, not on {host}"
            )));
        }
        // With `--target`, cargo does not apply the flags to build scripts and procedural macros.
        let mut cargo = ws
            .cargo_of(&nightly)
            .args(["test", "--lib", "--tests", "--target", &host, "--target-dir"])
            .arg(ws.target_dir(short))
            .env_append("RUSTFLAGS", sanitizer.flags());
        for package in &packages {
            cargo = cargo.args(["--package", package]);
        }
        let mut harness = vec!["--skip".to_owned(), COMPILE_FAIL.to_owned()];
        match sanitizer {
            Sanitizer::Address => {
                cargo = options(cargo, "ASAN_OPTIONS", &format!("{REFUSE}:detect_stack_use_after_return=1"));
            }
            Sanitizer::Thread => {
                eprintln!(
                    "Building the standard library for ThreadSanitizer. The first build takes some minutes."
                );
                cargo =
                    options(cargo.arg("-Zbuild-std"), "TSAN_OPTIONS", &format!("{REFUSE}:halt_on_error=1"));
                harness.push("--test-threads=1".to_owned());
            }
            Sanitizer::Leak => cargo = options(cargo, "LSAN_OPTIONS", REFUSE),
        }
        TestRun { cargo, harness }.check("no test ran")
    })
}

/// Sets the variable `name` to the options `ours`, followed by the options of the user. The last
/// setting of an option wins, so the user's options override ours.
fn options(cargo: crate::shell::Cmd, name: &str, ours: &str) -> crate::shell::Cmd {
    let users = std::env::var(name).unwrap_or_default();
    cargo.env(name, if users.is_empty() { ours.to_owned() } else { format!("{ours}:{users}") })
}

impl Sanitizer {
    fn short(self) -> &'static str {
        match self {
            Self::Address => "asan",
            Self::Thread => "tsan",
            Self::Leak => "lsan",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Address => "AddressSanitizer",
            Self::Thread => "ThreadSanitizer",
            Self::Leak => "LeakSanitizer",
        }
    }

    fn flags(self) -> &'static str {
        match self {
            Self::Address => "-Zsanitizer=address --cfg ephemera_poison=\"asan\"",
            Self::Thread => "-Zsanitizer=thread",
            Self::Leak => "-Zsanitizer=leak",
        }
    }
}
