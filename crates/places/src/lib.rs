//! A plugin with its own heap. Test programs load it with `dlopen`.
//!
//! The plugin has its own copy of [`PooledAllocator`], separate from the program's copy. The
//! program gets pointers to the plugin's values, and frees the values through the plugin on any
//! thread. The symbol `PLUGIN` is the table of the plugin's functions.
#![cfg(all(target_os = "linux", target_has_atomic = "64", not(any(miri, ephemera_loom))))]

mod table;

use table::{PluginTable, Words};
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The functions of this plugin.
#[unsafe(no_mangle)]
static PLUGIN: PluginTable = PluginTable { make, is_right, free, live, malloc };

/// The content of a [`Words`] value.
struct Content {
    words: Vec<String>,
    bytes: Vec<u8>,
}

fn content(seed: usize) -> Content {
    let words = (0..200).map(|word| (seed + word).to_string().repeat(word)).collect();
    Content { words, bytes: vec![seed as u8; 100_000] }
}

extern "C" fn make(seed: usize) -> *mut Words {
    Box::into_raw(Box::new(content(seed))).cast()
}

/// # Safety
/// `make` returned `value`, and `value` is live.
unsafe extern "C" fn is_right(value: *const Words, seed: usize) -> bool {
    // SAFETY: the caller passes a live value, which `make` created from a box of this type.
    let (value, right) = (unsafe { &*value.cast::<Content>() }, content(seed));
    value.words == right.words && value.bytes == right.bytes
}

/// # Safety
/// `make` returned `value`, `value` is live, and the caller does not use it again.
unsafe extern "C" fn free(value: *mut Words) {
    // SAFETY: the caller passes a live value that it does not use again. `make` created the value
    // from a box of this type.
    drop(unsafe { Box::from_raw(value.cast::<Content>()) });
}

extern "C" fn live() -> usize {
    PooledAllocator.stats().live()
}

extern "C" fn malloc(size: usize) -> *mut u8 {
    // SAFETY: `malloc` accepts every size.
    unsafe { libc::malloc(size) }.cast()
}
