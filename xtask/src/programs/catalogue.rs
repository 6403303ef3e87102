//! The programs and the allocators that they run over.

use anyhow::{Context, Result, bail};
use regex_lite::Regex;

/// The programs, the allocators, the number of rounds and the seed of a run.
#[derive(Debug)]
pub(super) struct ProgramPlan {
    pub(super) programs: Vec<MeasuredProgram>,
    pub(super) allocators: Vec<GeneralAllocator>,
    pub(super) rounds: u32,
    /// The seed of the random orders and of the paddings.
    pub(super) seed: u64,
}

/// A program that the command measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredProgram {
    /// The program's name, which is also its feature in the package and its argument on command
    /// lines.
    pub(super) name: &'static str,
    /// A description for the tables. It begins with a verb.
    pub(super) what: &'static str,
    pub(super) way: ProgramWay,
}

/// The way in which a program gets its allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramWay {
    /// The program is linked with each allocator. The page states the version of `package`.
    Linked { package: &'static str },
    /// The program is installed on the system, and each allocator is preloaded.
    Preloaded(SystemCommand),
}

/// A program that is installed on the system, and its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SystemCommand {
    pub(super) program: &'static str,
    /// The arguments that make the command print the path of the program's executable. Only a
    /// command that may be a script needs them; for any other command, they are empty.
    pub(super) finds_itself: &'static [&'static str],
    pub(super) arguments: &'static [&'static str],
    /// Environment variables that make the program use `malloc`, and its output the same in each
    /// run.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// A file that the program reads in its working directory.
    pub(super) input: Option<SystemInput>,
}

/// A generated C source file that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SystemInput {
    pub(super) name: &'static str,
    /// The number of functions in the file.
    functions: u32,
}

/// A general allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GeneralAllocator {
    /// The allocator's name in options and files. Its executable is `programs-KEY`, but the second
    /// entry of the reference shares the reference's executable.
    pub(super) key: &'static str,
    /// The allocator's name in tables.
    pub(super) label: &'static str,
    /// The package that contains the allocator. The feature `over-KEY` links it. The two entries of
    /// the reference have no package.
    pub(super) package: Option<&'static str>,
}

/// The index of the reference in [`ALLOCATORS`].
pub(super) const REFERENCE: usize = 0;

/// The key of this workspace's allocator.
pub(super) const OURS: &str = "pooled-allocator";

/// The allocators, in the order of the tables. The second entry is the reference again.
pub(super) const ALLOCATORS: [GeneralAllocator; 6] = [
    GeneralAllocator { key: "glibc", label: "glibc", package: None },
    GeneralAllocator { key: TWIN, label: "A/A (glibc again)", package: None },
    GeneralAllocator { key: "mimalloc", label: "mimalloc", package: Some("libmimalloc-sys") },
    GeneralAllocator { key: "jemalloc", label: "jemalloc", package: Some("tikv-jemalloc-sys") },
    GeneralAllocator { key: "snmalloc", label: "snmalloc", package: Some("snmalloc-sys") },
    GeneralAllocator { key: OURS, label: "PooledAllocator", package: Some("typed-pool") },
];

/// The key of the reference's second entry.
pub(super) const TWIN: &str = "glibc-again";

/// The name of our own program. The means include only the third-party programs.
pub(super) const OWN: &str = "service";

/// The programs, in the order of the tables.
pub(super) const PROGRAMS: [MeasuredProgram; 15] = [
    linked("syn", "parses the repository's Rust sources into syntax trees"),
    linked("serde_json", "reads, changes and writes the recorded measurements"),
    linked("pulldown-cmark", "renders the repository's pages as HTML"),
    linked("rhai", "runs a script that counts the words of the repository's pages"),
    linked("minijinja", "renders the repository's pages from a template"),
    linked("wasmi", "compiles generated WebAssembly modules and interprets them"),
    linked("naga", "translates shaders to SPIR-V, Metal's language and GLSL"),
    linked("redb", "keeps the lines of sources in a store in memory, with transactions"),
    linked("tantivy", "indexes the paragraphs of pages and sources on two threads, and queries them"),
    linked("hyper", "answers 24 clients of the same process over HTTP, with two threads"),
    MeasuredProgram {
        name: OWN,
        what: "is our own service: parses 10 KB for each request, and keeps a string of every second one in a cache",
        way: ProgramWay::Linked { package: "serde_json" },
    },
    MeasuredProgram {
        name: "git",
        what: "prints the changes of the last 150 commits",
        way: ProgramWay::Preloaded(SystemCommand {
            program: "git",
            finds_itself: &[],
            arguments: &["--no-pager", "log", "-p", "-n", "150", "--no-color"],
            variables: &[("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")],
            input: None,
        }),
    },
    MeasuredProgram {
        name: "python3",
        what: "creates and drops objects, with PYTHONMALLOC=malloc",
        way: ProgramWay::Preloaded(SystemCommand {
            program: "python3",
            finds_itself: &["-S", "-c", "import sys; print(sys.executable)"],
            arguments: &["-s", "-S", "-c", PYTHON],
            variables: &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")],
            input: None,
        }),
    },
    MeasuredProgram {
        name: "gcc",
        what: "compiles a generated file with -O2",
        way: ProgramWay::Preloaded(SystemCommand {
            program: "gcc",
            finds_itself: &[],
            arguments: &["-O2", "-S", "-o", "-", "program.c"],
            variables: &[],
            input: Some(SystemInput { name: "program.c", functions: 120 }),
        }),
    },
    MeasuredProgram {
        name: "sqlite3",
        what: "fills, indexes and queries tables in memory",
        way: ProgramWay::Preloaded(SystemCommand {
            program: "sqlite3",
            finds_itself: &[],
            arguments: &[":memory:", SQL],
            variables: &[],
            input: None,
        }),
    },
];

/// The script of `python3`: short-lived and long-lived trees, dictionaries and strings.
const PYTHON: &str = include_str!("python3.py");

/// The statements of `sqlite3`.
const SQL: &str = include_str!("sqlite3.sql");

const fn linked(name: &'static str, what: &'static str) -> MeasuredProgram {
    MeasuredProgram { name, what, way: ProgramWay::Linked { package: name } }
}

impl SystemInput {
    /// Returns the text of the file: structures, and functions that call each other.
    pub(super) fn text(&self) -> String {
        let function = |n: u32| {
            let before = n.saturating_sub(1);
            format!(
                "struct s{n} {{ int a; long b[{}]; struct s{n} *next; }};
long f{n}(struct s{n} *head, long seed) {{
    long sum = seed;
    for (struct s{n} *at = head; at; at = at->next) {{
        switch (at->a % 5) {{
        case 0: sum += at->b[0] * {n}; break;
        case 1: sum ^= at->b[{}] << (at->a & 7); break;
        case 2: for (int i = 0; i < at->a; i++) sum -= at->b[i % {}] + i; break;
        default: sum = sum * 31 + at->a;
        }}
    }}
    return sum{};
}}
",
                n % 7 + 2,
                n % 7 + 1,
                n % 7 + 2,
                if n == 0 { String::new() } else { format!(" + f{before}(0, sum)") },
            )
        };
        (0..self.functions).map(function).collect()
    }
}

impl MeasuredProgram {
    /// Returns the package of a linked program, or `None` for a preloaded program.
    pub(super) fn package(&self) -> Option<&'static str> {
        match self.way {
            ProgramWay::Linked { package } => Some(package),
            ProgramWay::Preloaded(_) => None,
        }
    }

    /// Returns the command of a preloaded program, or `None` for a linked program.
    pub(super) fn command(&self) -> Option<SystemCommand> {
        match self.way {
            ProgramWay::Linked { .. } => None,
            ProgramWay::Preloaded(command) => Some(command),
        }
    }
}

impl GeneralAllocator {
    /// Returns the name of the allocator's executable, without the system's suffix.
    pub(super) fn executable(&self) -> String {
        format!("programs-{}", if self.key == TWIN { ALLOCATORS[REFERENCE].key } else { self.key })
    }

    /// Returns the feature that links the allocator, or `None` for the two entries of the
    /// reference.
    pub(super) fn feature(&self) -> Option<String> {
        self.package.map(|_| format!("over-{}", self.key))
    }
}

/// Returns the programs whose names match the regular expression `filter`, or all programs without
/// a filter.
///
/// # Errors
/// Returns an error if the expression is faulty or matches no program.
pub(super) fn programs(filter: Option<&str>) -> Result<Vec<MeasuredProgram>> {
    let Some(filter) = filter else { return Ok(PROGRAMS.to_vec()) };
    let wanted = Regex::new(filter).with_context(|| format!("`{filter}` is not a regular expression"))?;
    let chosen: Vec<_> = PROGRAMS.into_iter().filter(|program| wanted.is_match(program.name)).collect();
    if chosen.is_empty() {
        bail!("no program matches `{filter}`: `cargo xtask bench --programs --list` prints their names");
    }
    Ok(chosen)
}

/// Returns the allocators whose keys `peers` lists, separated by commas, or all allocators without
/// a list. The reference and its second entry are always included.
///
/// # Errors
/// Returns an error if a key is unknown.
pub(super) fn allocators(peers: Option<&str>) -> Result<Vec<GeneralAllocator>> {
    let Some(peers) = peers else { return Ok(ALLOCATORS.to_vec()) };
    let keys: Vec<_> = peers.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
    if let Some(unknown) = keys.iter().find(|key| !ALLOCATORS.iter().any(|allocator| allocator.key == **key))
    {
        let known: Vec<_> = ALLOCATORS.iter().map(|allocator| allocator.key).collect();
        bail!("no general allocator has the key `{unknown}`; the keys are: {}", known.join(", "));
    }
    let wanted = |allocator: &GeneralAllocator| allocator.package.is_none() || keys.contains(&allocator.key);
    Ok(ALLOCATORS.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::{ALLOCATORS, PROGRAMS, allocators, programs};
    use crate::workspace::Workspace;

    /// Returns the manifest of the package with the programs.
    fn manifest() -> toml::Table {
        let path = Workspace::load().unwrap().root.join("benches/programs/Cargo.toml");
        std::fs::read_to_string(path).unwrap().parse().unwrap()
    }

    #[test]
    fn the_package_has_a_feature_for_each_program_and_an_executable_for_each_allocator() {
        let manifest = manifest();
        let features = manifest["features"].as_table().unwrap();
        for program in PROGRAMS.iter().filter(|program| program.package().is_some()) {
            assert!(features.contains_key(program.name), "{}", program.name);
        }
        let bins: Vec<_> = manifest["bin"].as_array().unwrap().iter().map(|bin| &bin["name"]).collect();
        for allocator in ALLOCATORS {
            let name = allocator.executable();
            assert!(bins.iter().any(|bin| bin.as_str() == Some(&name)), "{name}");
            let feature = allocator.feature();
            assert!(feature.is_none_or(|feature| features.contains_key(&feature)), "{name}");
        }
    }

    #[test]
    fn every_feature_of_the_package_is_a_program_or_an_allocator() {
        for feature in manifest()["features"].as_table().unwrap().keys() {
            let known = PROGRAMS.iter().any(|program| program.name == feature)
                || feature == crate::programs::scopes::SERVICE
                || ALLOCATORS.iter().any(|allocator| allocator.feature().as_ref() == Some(feature))
                || feature == crate::programs::scopes::COSTS.1;
            assert!(known, "neither `--programs` nor `--scopes` enables the feature {feature}");
        }
    }

    #[test]
    fn a_filter_selects_programs_and_an_unknown_one_is_an_error() {
        let names =
            |filter| programs(Some(filter)).map(|all| all.iter().map(|one| one.name).collect::<Vec<_>>());
        assert_eq!(names("^s").unwrap(), ["syn", "serde_json", "service", "sqlite3"]);
        assert_eq!(programs(None).unwrap().len(), PROGRAMS.len());
        assert!(names("no such").unwrap_err().to_string().contains("--list"));
        assert!(names("(").unwrap_err().to_string().contains("not a regular expression"));
    }

    #[test]
    fn chosen_peers_always_include_the_reference_and_its_twin() {
        let keys =
            |peers| allocators(Some(peers)).map(|all| all.iter().map(|one| one.key).collect::<Vec<_>>());
        assert_eq!(
            keys("jemalloc, pooled-allocator").unwrap(),
            ["glibc", "glibc-again", "jemalloc", "pooled-allocator"]
        );
        assert_eq!(allocators(None).unwrap().len(), ALLOCATORS.len());
        assert!(keys("tcmalloc").unwrap_err().to_string().contains("snmalloc"));
    }
}
