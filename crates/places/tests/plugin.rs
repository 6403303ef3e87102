//! Tests of code that a program loads with `dlopen` and that has its own copy of the allocator.
#![cfg(all(target_os = "linux", target_has_atomic = "64", not(any(miri, ephemera_loom))))]

#[path = "support/plugin.rs"]
mod plugin;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use plugin::{Plugin, is_loaded};
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// Locks the plugin for one test. The tests run one at a time, because they load and unload the
/// same plugin.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the path of a library that cargo builds next to this test.
fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.with_file_name(name);
    assert!(path.exists(), "cargo builds {} before this test", path.display());
    path
}

/// Runs `part` on a new thread and joins that thread, so the destructors of its thread-locals have
/// run. `std::thread::scope` alone may return before they run.
fn on_a_thread<T: Send>(part: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(part).join().expect("no panic"))
}

fn plugin() -> PathBuf {
    library("libephemera_places.so")
}

#[test]
fn values_of_a_plugin_move_between_the_threads_of_the_program() {
    let _turn = turn();
    let path = plugin();
    let run = || {
        let plugin = Plugin::load(&path);
        let before = plugin.live();
        thread::scope(|scope| {
            let made: Vec<_> = (0..8)
                .map(|seed| {
                    let plugin = &plugin;
                    scope.spawn(move || (seed, plugin.make(seed), vec![seed; 3_000]))
                })
                .map(|thread| thread.join().expect("no panic"))
                .collect();
            assert!(plugin.live() > before);
            // The threads that made the values have ended.
            let freeing = made.into_iter().map(|(seed, value, own)| {
                let plugin = &plugin;
                scope.spawn(move || {
                    assert!(plugin.is_right(&value, seed) && own == vec![seed; 3_000]);
                    assert!(plugin.malloc(700).bytes().iter().all(|byte| *byte == 1));
                    plugin.free(value);
                })
            });
            let freeing: Vec<_> = freeing.collect();
            freeing.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert_eq!(plugin.live(), before, "a free was lost");
        plugin.unload();
    };
    on_a_thread(run);
    let _ = is_loaded(&path);
    assert!(!is_loaded(&path));
}

#[test]
fn a_plugin_is_unloaded_when_its_last_thread_has_ended() {
    let _turn = turn();
    let path = plugin();
    let mut resident = [0; 10];
    for (round, resident) in resident.iter_mut().enumerate() {
        on_a_thread(|| {
            let plugin = Plugin::load(&path);
            let value = plugin.make(round);
            assert!(plugin.is_right(&value, round));
            plugin.free(value);
            plugin.unload();
            // The C library keeps the plugin loaded for the thread's exit guard.
            assert!(is_loaded(&path));
        });
        let _ = is_loaded(&path);
        assert!(!is_loaded(&path), "round {round}");
        // The fork handler of the unloaded plugin does not run.
        assert!(ephemera_testkit::fork::holds_in_a_child(|| vec![round; 3_000] == [round; 3_000]));
        let statm = std::fs::read_to_string("/proc/self/statm").expect("the system has `/proc`");
        let pages = statm.split(' ').nth(1).expect("the resident pages").parse::<usize>();
        *resident = pages.expect("a number") * 4_096;
    }
    // The pages of an unloaded plugin's heap stay, because its values may be live.
    let stays = (resident[9] - resident[1]) / 8;
    assert!(stays <= 512 << 10, "each unloaded plugin leaves {stays} bytes");
}

#[test]
fn a_forked_child_uses_the_heap_of_a_plugin() {
    let _turn = turn();
    on_a_thread(|| {
        let plugin = Plugin::load(&plugin());
        let own = plugin.make(1);
        let foreign = on_a_thread(|| plugin.make(2));
        let mut values = Some((own, foreign));
        assert!(ephemera_testkit::fork::holds_in_a_child(|| {
            let (own, foreign) = values.take().expect("this is the only child");
            let right = plugin.is_right(&own, 1) && plugin.is_right(&foreign, 2);
            plugin.free(own);
            plugin.free(foreign);
            let again = plugin.make(3);
            right && plugin.is_right(&again, 3)
        }));
        let (own, foreign) = values.take().expect("the child has a copy");
        assert!(plugin.is_right(&own, 1) && plugin.is_right(&foreign, 2));
        plugin.free(own);
        plugin.free(foreign);
        plugin.unload();
    });
}

/// The program `loader` does not define an allocator, so the preloaded library serves the program,
/// the dynamic linker and the C library.
#[test]
fn threads_load_and_unload_a_plugin_over_a_preloaded_heap() {
    let _turn = turn();
    let loader = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loader"));
        command.arg(plugin());
        command
    };
    let plain = loader().output().expect("cargo built it");
    let preloaded = loader().env("LD_PRELOAD", library("libephemera_c.so")).output().expect("cargo built it");
    assert!(preloaded.status.success(), "{preloaded:?}");
    assert_eq!(preloaded.stdout, b"20 of 20 rounds unloaded the plugin\n", "{preloaded:?}");
    assert_eq!(preloaded.stdout, plain.stdout);
}
