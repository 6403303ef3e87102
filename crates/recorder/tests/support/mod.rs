//! Shared parts of the tests that record programs: the preloaded library, the test program, and the
//! traces.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::OnceLock;

use ephemera_recorder::{Trace, What};

/// The size of the blocks that the tests count, in bytes.
pub(crate) const SIZE: u64 = 7777;

/// Returns the path of the preloaded library, which the first call of the process builds.
pub(crate) fn recorder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // The builds of `cargo xtask controls` contain the weakenings, and so does their library.
        let is_weak = cfg!(ephemera_weaken);
        let (kind, flags) = if is_weak { ("weak", "--cfg ephemera_weaken") } else { ("plain", "") };
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload").join(kind);
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "--lib", "--features", "preload", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .arg("--target-dir")
            .arg(&dir)
            // The tests' own flags may not suit the library: instrumented code cannot be preloaded.
            .env("RUSTFLAGS", flags)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status();
        assert!(built.expect("cargo starts").success(), "the recorder builds");
        dir.join("release").join("libephemera_recorder.so")
    })
}

/// Returns the path of the test program.
pub(crate) fn busy() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_recorder_busy"))
}

/// The directory for the traces of one test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("cargo's directory can be written");
        Self(dir)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", recorder()).env("EPHEMERA_TRACE", self.0.join("t"));
        command
    }

    pub(crate) fn run(&self, mode: &str) -> Output {
        self.command(busy()).arg(mode).output().expect("the program was built")
    }

    pub(crate) fn traces(&self) -> Vec<Trace> {
        let mut paths: Vec<_> = std::fs::read_dir(&self.0)
            .expect("the directory exists")
            .map(|entry| entry.expect("the directory can be read").path())
            .collect();
        paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        paths.iter().map(|path| Trace::open(path).expect("a trace")).collect()
    }

    /// Returns the only trace in the directory.
    pub(crate) fn trace(&self) -> Trace {
        let mut traces = self.traces();
        assert_eq!(traces.len(), 1);
        traces.remove(0)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // Best effort: files that remain are in cargo's directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn good(output: &Output) -> ExitStatus {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output.status
}

/// Counts the blocks of [`SIZE`] bytes: all blocks, those with a local free, and those with a
/// remote free. A call of `realloc` counts as a free.
pub(crate) fn counted(trace: &Trace) -> (u64, u64, u64) {
    let mut alive = std::collections::HashMap::new();
    let (mut blocks, mut here, mut elsewhere) = (0, 0, 0);
    let mut last = None;
    for event in trace.events() {
        let event = event.expect("a whole trace");
        assert!(last < Some(event.sequence), "in order");
        last = Some(event.sequence);
        match event.what {
            What::Alloc { address, size, .. } => {
                assert_eq!(alive.insert(address, (size, event.thread)), None, "reused before its free");
                blocks += u64::from(size == SIZE);
            }
            What::Free { address } | What::Resize { address } => {
                if let Some((SIZE, thread)) = alive.remove(&address) {
                    *(if thread == event.thread { &mut here } else { &mut elsewhere }) += 1;
                }
            }
            What::Resized { address, size } => {
                alive.insert(address, (size, event.thread));
            }
        }
    }
    (blocks, here, elsewhere)
}
