//! Test support: a temporary directory, and functions that write small traces into it. The
//! harness's tests of replays use this module too.

use std::path::{Path, PathBuf};

use ephemera_trace::{TraceEvent, What, Writer};

/// A directory that is removed when the value is dropped.
pub(crate) struct TestDir(pub(crate) PathBuf);

impl TestDir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("cargo's directory is writable");
        Self(dir)
    }

    /// Writes a trace of these calls, each with its thread. Returns the path of the trace.
    pub(crate) fn save(&self, command: &str, calls: impl IntoIterator<Item = (u32, What)>) -> PathBuf {
        let mut writer = Writer::new(command);
        for (sequence, (thread, what)) in (1..).zip(calls) {
            writer.push(&TraceEvent { sequence, time: sequence * 100, thread, what });
        }
        let path = self.0.join("trace");
        writer.save(&path).expect("cargo's directory is writable");
        path
    }

    /// Writes a trace of four threads, which free and resize one another's blocks. Returns the path
    /// of the trace.
    pub(crate) fn four_threads(&self) -> PathBuf {
        let address = |i: u64| i * 64;
        let mut calls = Vec::new();
        for i in 0..20_000_u64 {
            let size = 1 + i * 7919 % 3000;
            let zeroed = i.is_multiple_of(10);
            calls.push((i % 4, What::Alloc { address: address(i), size, align_log2: 0, zeroed }));
            let Some(before) = i.checked_sub(100) else { continue };
            if before % 5 == 0 {
                calls.push(((i + 1) % 4, What::Resize { address: address(before) }));
                calls.push(((i + 1) % 4, What::Resized { address: address(before), size: size * 2 }));
            }
            if before % 50 != 0 {
                calls.push((i % 3, What::Free { address: address(before) }));
            }
        }
        self.save("four threads", calls.into_iter().map(|(thread, what)| (thread as u32 + 1, what)))
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // Best effort: cargo's directory for such files may keep the files that cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
