//! Records the facts that a report states about the build: the compiler, the profile, and the
//! versions of the contenders. Also compiles the hash set in C++.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The packages of this workspace that share their names with upstream's.
const NAMESAKES: [&str; 3] = ["ringal", "ring-alloc", "shared_arena"];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let lock_path = root.join("../../Cargo.lock");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", lock_path.display());

    let lock = fs::read_to_string(lock_path).unwrap_or_default();
    for package in lock.split("[[package]]") {
        let (Some(name), Some(version)) = (field(package, "name"), field(package, "version")) else {
            continue;
        };
        // Only published packages have a `source` in the lock file.
        let upstream = NAMESAKES.contains(&name) && field(package, "source").is_some();
        let upstream = if upstream { "UPSTREAM_" } else { "" };
        // `0.7.1+5.3.1-0-g8103…` is the version of a binding, followed by that of its library. The
        // report states the library's version.
        let library = version.split_once('+').and_then(|(_, library)| library.split('-').next());
        let variable = name.to_uppercase().replace('-', "_");
        println!("cargo::rustc-env=EPHEMERA_VERSION_{upstream}{variable}={}", library.unwrap_or(version));
    }

    println!("cargo::rustc-check-cfg=cfg(ephemera_cpp)");
    println!("cargo::rerun-if-changed=cpp/hash_set.cpp");
    match hash_set() {
        Ok(()) => println!("cargo::rustc-cfg=ephemera_cpp"),
        Err(why) => println!("cargo::rustc-env=EPHEMERA_CPP_ABSENT={why}"),
    }

    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version =
        version.map_or_else(|_| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).into());
    println!("cargo::rustc-env=EPHEMERA_RUSTC={}", version.trim());
    for (variable, from) in [("TARGET", "TARGET"), ("OPT_LEVEL", "OPT_LEVEL")] {
        println!("cargo::rustc-env=EPHEMERA_{variable}={}", env::var(from).unwrap_or_default());
    }
    // The path of the output directory contains the name of the profile:
    // `…/<profile>/build/<crate>/out`.
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).and_then(|directory| directory.file_name());
    let profile = profile.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned());
    println!("cargo::rustc-env=EPHEMERA_PROFILE={profile}");
}

/// Compiles the hash set in C++, or returns the reason why the compilation failed.
#[cfg(feature = "c-peers")]
fn hash_set() -> Result<(), &'static str> {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(3).file("cpp/hash_set.cpp");
    // If there is no C++ compiler, the build still succeeds, and the report states why the C++
    // contenders are absent.
    let compiled = build.cargo_warnings(false).try_compile("ephemera_hash_set");
    compiled.map_err(|_error| "no C++ compiler was found, or it did not compile the hash set")
}

#[cfg(not(feature = "c-peers"))]
fn hash_set() -> Result<(), &'static str> {
    Err("built without feature `c-peers`")
}

/// Returns the value of the line `name = "value"` in a package of the lock file, or `None` if the
/// package has no such line.
fn field<'l>(package: &'l str, name: &str) -> Option<&'l str> {
    let value = |line: &'l str| line.strip_prefix(name)?.trim_start().strip_prefix("= \"")?.strip_suffix('"');
    package.lines().find_map(value)
}
