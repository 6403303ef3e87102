//! A program that loads a plugin on one thread after another. Each thread uses and unloads the
//! plugin before it ends. The program's global allocator is `malloc`.
//!
//! `loader PLUGIN`

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
#[path = "../../tests/support/plugin.rs"]
mod plugin;

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
fn main() {
    use std::path::PathBuf;
    use std::thread;

    let path = PathBuf::from(std::env::args_os().nth(1).expect("the path of the plugin"));
    let mut unloaded = 0;
    for round in 0..20 {
        let thread = thread::spawn({
            let path = path.clone();
            move || {
                let plugin = plugin::Plugin::load(&path);
                let words = plugin.make(round);
                let from_malloc = plugin.malloc(5_000);
                assert!(plugin.is_right(&words, round) && plugin.live() != 0);
                plugin.free(words);
                // When the thread ends, it still has memory of the plugin's heap.
                plugin.unload();
                from_malloc
            }
        });
        let block = thread.join().expect("no panic");
        assert!(block.bytes().iter().all(|byte| *byte == 1));
        drop(block);
        // If only the ended thread kept the plugin loaded, the first call unloads it.
        let _ = plugin::is_loaded(&path);
        unloaded += usize::from(!plugin::is_loaded(&path));
    }
    println!("{unloaded} of 20 rounds unloaded the plugin");
}

#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
fn main() {}
