//! A loaded plugin, and calls of its functions.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[path = "../../src/table.rs"]
mod table;

use table::{PluginTable, Words};

/// A plugin that this process has loaded.
pub(crate) struct Plugin {
    handle: *mut libc::c_void,
    table: *const PluginTable,
}

// SAFETY: the handle and the functions may be used on any thread.
unsafe impl Send for Plugin {}
// SAFETY: the handle and the functions may be used on any thread.
unsafe impl Sync for Plugin {}

/// A value of the plugin, which the program owns.
pub(crate) struct Value(*mut Words);

// SAFETY: a value is strings and bytes, which may be moved to and freed by any thread.
unsafe impl Send for Value {}

/// A block of the C library's heap, which the plugin allocated.
pub(crate) struct FromMalloc {
    block: *mut u8,
    len: usize,
}

// SAFETY: the value owns its block, and `free` takes blocks of any thread.
unsafe impl Send for FromMalloc {}

impl FromMalloc {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `Plugin::malloc` initialised the block, which is live until `self` is dropped.
        unsafe { core::slice::from_raw_parts(self.block, self.len) }
    }
}

impl Drop for FromMalloc {
    fn drop(&mut self) {
        // SAFETY: the block came from `malloc`, and nothing uses it any more.
        unsafe { libc::free(self.block.cast()) };
    }
}

impl Plugin {
    /// Loads the plugin. If it is loaded already, it stays loaded until both loads are undone.
    pub(crate) fn load(path: &Path) -> Self {
        let name = c_path(path);
        // SAFETY: the plugin has no constructor with effects on this program.
        let handle = unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
        let table = unsafe { libc::dlsym(handle, c"PLUGIN".as_ptr()) };
        assert!(!table.is_null(), "the plugin has a table");
        Self { handle, table: table.cast_const().cast() }
    }

    fn table(&self) -> &PluginTable {
        // SAFETY: the plugin, which stays loaded, exports a static of this type.
        unsafe { &*self.table }
    }

    /// Unloads the plugin. The C library keeps the plugin until all threads with destructors of the
    /// plugin have ended. The caller must have freed all values.
    pub(crate) fn unload(self) {
        // SAFETY: nothing uses the plugin after this call.
        let result = unsafe { libc::dlclose(self.handle) };
        assert_eq!(result, 0, "the plugin was loaded");
    }

    pub(crate) fn make(&self, seed: usize) -> Value {
        Value((self.table().make)(seed))
    }

    pub(crate) fn is_right(&self, value: &Value, seed: usize) -> bool {
        // SAFETY: the value is live, and `make` made it.
        unsafe { (self.table().is_right)(value.0, seed) }
    }

    pub(crate) fn free(&self, value: Value) {
        // SAFETY: the value is live, and this call consumes it.
        unsafe { (self.table().free)(value.0) }
    }

    /// Returns the number of live slots of the plugin's heap.
    pub(crate) fn live(&self) -> usize {
        (self.table().live)()
    }

    /// Returns a block of ones that the plugin allocates by `malloc`.
    pub(crate) fn malloc(&self, size: usize) -> FromMalloc {
        let block = (self.table().malloc)(size);
        assert!(!block.is_null());
        // SAFETY: the block has this number of bytes.
        unsafe { block.write_bytes(1, size) };
        FromMalloc { block, len: size }
    }
}

/// Returns whether the plugin is loaded. If only threads that have ended kept it, this call
/// unloads it.
pub(crate) fn is_loaded(path: &Path) -> bool {
    let name = c_path(path);
    // SAFETY: the name ends with a zero, and with this flag the call loads nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if !handle.is_null() {
        // SAFETY: `dlopen` has just returned this handle, and nothing else uses it.
        unsafe { libc::dlclose(handle) };
    }
    !handle.is_null()
}

/// Returns the path as a string of C, with a zero byte at its end.
fn c_path(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().iter().copied().chain([0]).collect()
}
