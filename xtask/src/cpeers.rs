//! Selects the harness's contenders, and detects which contenders in C and C++ can be built here.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::Cmd;
use crate::workspace::Workspace;

/// The package of the harness. Its default features build every contender.
pub(crate) const HARNESS: &str = "bench-harness";

/// Returns `cargo`, on Unix with a variable that makes jemalloc's makefile build only one of two
/// static libraries. The makefile compiles each file once for each library, and `tikv-jemalloc-sys`
/// links only the chosen one on Unix.
pub(crate) fn one_library(cargo: Cmd) -> Cmd {
    if cfg!(unix) { cargo.env_append("MAKEFLAGS", "-- STATIC_LIBS=lib/libjemalloc_pic.a") } else { cargo }
}

/// The contenders in Rust that the harness is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RustPeers {
    /// All contenders in Rust.
    All,
    /// The published crates with the same names as ours, and the crates that most programmers know.
    /// The build with these contenders takes half as long as the build with all.
    Known,
}

impl RustPeers {
    fn feature(self) -> &'static str {
        match self {
            Self::All => "more-rust-peers",
            Self::Known => "rust-peers",
        }
    }
}

/// A tool that a contender's build needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerNeed {
    /// A C compiler whose programs run.
    Cc,
    /// A C++20 compiler whose programs run.
    Cxx,
    /// `make`, for the makefiles of the sources and the makefiles that CMake writes.
    Make,
    /// CMake.
    Cmake,
}

/// A feature of the harness, and the contenders that the feature adds.
struct Feature {
    name: &'static str,
    contenders: &'static str,
    needs: &'static [PeerNeed],
}

/// The features of the harness for contenders in C and C++, in the order in which messages list
/// them.
const FEATURES: [Feature; 2] = [
    Feature {
        name: "c-peers",
        contenders: "mimalloc, jemalloc (contenders written in C)",
        needs: &[PeerNeed::Cc, PeerNeed::Make],
    },
    Feature {
        name: "cpp-peers",
        contenders: "snmalloc (written in C++)",
        needs: &[PeerNeed::Cc, PeerNeed::Cxx, PeerNeed::Make, PeerNeed::Cmake],
    },
];

/// The tools that this machine lacks.
#[derive(Debug)]
pub(crate) struct Support {
    missing: Vec<PeerNeed>,
}

impl Support {
    /// Tries each tool. A compiler must build a program that runs.
    pub(crate) fn detect(ws: &Workspace) -> Self {
        let dir = ws.target_dir("xtask-cc");
        let there = [
            (PeerNeed::Cc, compiler_works(&dir, &C)),
            (PeerNeed::Cxx, compiler_works(&dir, &CXX)),
            (PeerNeed::Make, starts("make")),
            (PeerNeed::Cmake, starts("cmake")),
        ];
        Self { missing: there.into_iter().filter(|(_, works)| !works).map(|(need, _)| need).collect() }
    }

    fn builds(&self, feature: &Feature) -> bool {
        !feature.needs.iter().any(|need| self.missing.contains(need))
    }

    /// Returns the cargo arguments that build the harness with these contenders in Rust, and with
    /// every contender in C and C++ that can be built.
    pub(crate) fn arguments(&self, rust: RustPeers) -> Vec<String> {
        if rust == RustPeers::All && self.told().is_none() {
            return Vec::new();
        }
        let mut built = vec![rust.feature()];
        built.extend(self.features());
        vec!["--no-default-features".to_owned(), format!("--features={}", built.join(","))]
    }

    /// Returns the names of the features whose contenders can be built.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        FEATURES.iter().filter(|feature| self.builds(feature)).map(|feature| feature.name).collect()
    }

    /// Returns a message about the contenders that are left out, the reason, and what to install.
    /// Returns `None` if every contender can be built.
    pub(crate) fn told(&self) -> Option<String> {
        let left_out: Vec<_> = FEATURES.iter().filter(|feature| !self.builds(feature)).collect();
        if left_out.is_empty() {
            return None;
        }
        let names: Vec<_> = left_out.iter().map(|feature| feature.contenders).collect();
        let needed = |need: &&PeerNeed| left_out.iter().any(|feature| feature.needs.contains(need));
        let missing: Vec<_> = self.missing.iter().filter(needed).map(|need| need.told()).collect();
        let ways: Vec<_> = self.missing.iter().filter(needed).map(|need| need.way()).collect();
        Some(format!(
            "LEFT OUT: {}: {}.\n  To build them: {}.",
            names.join(", "),
            missing.join("; "),
            ways.join("; ")
        ))
    }
}

impl PeerNeed {
    fn told(self) -> &'static str {
        match self {
            Self::Cc => "no working C compiler was found ($CC, cc)",
            Self::Cxx => "no working C++20 compiler was found ($CXX, c++)",
            Self::Make => "make was not found",
            Self::Cmake => "CMake was not found",
        }
    }

    fn way(self) -> &'static str {
        match self {
            Self::Cc => "install a C compiler (`apt-get install gcc libc6-dev`), or set CC",
            Self::Cxx => "install a C++ compiler (`apt-get install g++`), or set CXX",
            Self::Make => "install make (`apt-get install make`)",
            Self::Cmake => "install CMake (`apt-get install cmake`)",
        }
    }
}

fn starts(program: &str) -> bool {
    quiet(Command::new(program).arg("--version"))
}

fn quiet(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A program that tests a language's compiler.
struct PeerProbe {
    /// The variable that names the compiler, and the compiler's name if the variable is not set.
    named: (&'static str, &'static str),
    file: &'static str,
    text: &'static str,
    /// The arguments before the source file. `libraries` are the arguments after the source file.
    flags: &'static [&'static str],
    libraries: &'static [&'static str],
}

const C: PeerProbe = PeerProbe {
    named: ("CC", "cc"),
    file: "probe.c",
    text: "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n",
    flags: &[],
    libraries: &[],
};

const CXX: PeerProbe = PeerProbe {
    named: ("CXX", "c++"),
    file: "probe.cc",
    text: "#include <atomic>\n#include <concepts>\nint main() { std::atomic<int> zero{0}; return zero.load(); }\n",
    flags: &["-std=c++20"],
    // The package `snmalloc-sys` links this library.
    libraries: &["-latomic"],
};

/// Returns whether the compiler of `probe` builds a program that runs. A compiler that lacks
/// headers or a linker does not.
fn compiler_works(dir: &Path, probe: &PeerProbe) -> bool {
    let (variable, otherwise) = probe.named;
    let named = std::env::var(variable).ok().filter(|line| !line.trim().is_empty());
    let line = named.unwrap_or_else(|| otherwise.to_owned());
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { return false };
    let source = dir.join(probe.file);
    let made = dir.join(format!("{}{}", probe.file.replace('.', "-"), std::env::consts::EXE_SUFFIX));
    if std::fs::create_dir_all(dir).is_err() || std::fs::write(&source, probe.text).is_err() {
        return false;
    }
    let mut compile = Command::new(program);
    compile.args(words).args(probe.flags).arg(&source).arg("-o").arg(&made).args(probe.libraries);
    quiet(&mut compile) && quiet(&mut Command::new(&made))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{HARNESS, PeerNeed, RustPeers, Support};
    use crate::workspace::Workspace;

    #[test]
    fn the_message_names_missing_contenders_and_what_to_install() {
        let whole = Support { missing: vec![] };
        assert!(whole.told().is_none() && whole.arguments(RustPeers::All).is_empty());
        let support = Support { missing: vec![PeerNeed::Make] };
        let told = support.told().unwrap();
        assert!(told.contains("mimalloc, jemalloc") && told.contains("snmalloc"), "{told}");
        assert!(told.contains("make was not found"), "{told}");
        assert!(told.contains("install make") && !told.contains("gcc"), "{told}");
        let arguments = support.arguments(RustPeers::All);
        assert_eq!(arguments, ["--no-default-features", "--features=more-rust-peers"]);
    }

    /// The harness's tests must also pass without the contenders of `MORE_PEERS`, which take the
    /// longest to build.
    #[test]
    fn tests_of_the_harness_name_known_contenders_only() {
        let harness = Workspace::load().unwrap().root.join("crates").join(HARNESS);
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        let mut others = Vec::new();
        for class in ["blocks", "buffers", "nodes", "objects"] {
            let registry = text(&harness.join("src/contenders").join(class).join("mod.rs"));
            let rows = registry.lines().filter_map(|line| line.trim().strip_prefix("MORE_PEERS \""));
            others.extend(rows.filter_map(|row| Some(row.split_once('"')?.0.to_owned())));
        }
        assert!(others.len() > 10, "{others:?}");
        for file in std::fs::read_dir(harness.join("tests")).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let source = text(&path);
                let named: Vec<_> = others.iter().filter(|name| source.contains(name.as_str())).collect();
                assert!(named.is_empty(), "{} names {named:?}", path.display());
            }
        }
    }

    #[test]
    fn without_cmake_the_contenders_in_c_are_still_built() {
        let support = Support { missing: vec![PeerNeed::Cmake] };
        let told = support.told().unwrap();
        assert!(told.contains("snmalloc") && !told.contains("mimalloc"), "{told}");
        let arguments = support.arguments(RustPeers::Known);
        assert_eq!(arguments, ["--no-default-features", "--features=rust-peers,c-peers"]);
    }
}
