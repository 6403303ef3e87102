//! A loaded plugin, and calls to its functions.

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

// SAFETY: any thread may call `dlclose` and the functions of the table.
unsafe impl Send for Plugin {}
// SAFETY: any thread may call `dlclose` and the functions of the table.
unsafe impl Sync for Plugin {}

/// A value in the plugin's heap that the program owns.
pub(crate) struct Value(*mut Words);

// SAFETY: a value consists of strings and bytes, which any thread may use and free.
unsafe impl Send for Value {}

/// A block of the C library's heap that the plugin allocated.
pub(crate) struct FromMalloc {
    block: *mut u8,
    len: usize,
}

// SAFETY: a `FromMalloc` owns its block, and `free` accepts blocks of any thread.
unsafe impl Send for FromMalloc {}

impl FromMalloc {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `Plugin::malloc` initialised the block, which is live until `self` is dropped.
        unsafe { core::slice::from_raw_parts(self.block, self.len) }
    }
}

impl Drop for FromMalloc {
    fn drop(&mut self) {
        // SAFETY: the block came from `malloc`, and `self` is the only owner.
        unsafe { libc::free(self.block.cast()) };
    }
}

impl Plugin {
    /// Loads the plugin. If the plugin was already loaded, it stays loaded until both handles are
    /// closed.
    pub(crate) fn load(path: &Path) -> Self {
        let name = c_path(path);
        // SAFETY: the name ends with a zero byte, and the plugin has no constructors that affect
        // this program.
        let handle = unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        // SAFETY: `handle` is the handle of a loaded library, and the name ends with a zero byte.
        let table = unsafe { libc::dlsym(handle, c"PLUGIN".as_ptr()) };
        assert!(!table.is_null(), "the plugin has a table");
        Self { handle, table: table.cast_const().cast() }
    }

    fn table(&self) -> &PluginTable {
        // SAFETY: the plugin exports a static of this type, and stays loaded while `self` exists.
        unsafe { &*self.table }
    }

    /// Closes the handle. The C library keeps the plugin loaded until all threads that registered
    /// destructors of the plugin have ended. The caller must have freed all values.
    pub(crate) fn unload(self) {
        // SAFETY: this call consumes the handle, and the caller has freed all values, so no code
        // uses the plugin after this call.
        let result = unsafe { libc::dlclose(self.handle) };
        assert_eq!(result, 0, "the plugin was loaded");
    }

    pub(crate) fn make(&self, seed: usize) -> Value {
        Value((self.table().make)(seed))
    }

    pub(crate) fn is_right(&self, value: &Value, seed: usize) -> bool {
        // SAFETY: the value is live, and the plugin's `make` returned it.
        unsafe { (self.table().is_right)(value.0, seed) }
    }

    pub(crate) fn free(&self, value: Value) {
        // SAFETY: the value is live, the plugin's `make` returned it, and this call consumes it.
        unsafe { (self.table().free)(value.0) }
    }

    /// Returns the number of live slots of the plugin's heap.
    pub(crate) fn live(&self) -> usize {
        (self.table().live)()
    }

    /// Returns a block that the plugin allocates with `malloc`, filled with ones.
    pub(crate) fn malloc(&self, size: usize) -> FromMalloc {
        let block = (self.table().malloc)(size);
        assert!(!block.is_null());
        // SAFETY: `malloc` returned a block of `size` bytes.
        unsafe { block.write_bytes(1, size) };
        FromMalloc { block, len: size }
    }
}

/// Returns whether the plugin is loaded. If only threads that have ended kept it loaded, returns
/// `true` and unloads the plugin.
pub(crate) fn is_loaded(path: &Path) -> bool {
    let name = c_path(path);
    // SAFETY: the name ends with a zero byte, and with `RTLD_NOLOAD`, the call does not load the
    // plugin.
    let handle = unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if !handle.is_null() {
        // SAFETY: `dlopen` returned this handle, and no other code uses it.
        unsafe { libc::dlclose(handle) };
    }
    !handle.is_null()
}

/// Returns the path as a C string, which ends with a zero byte.
fn c_path(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().iter().copied().chain([0]).collect()
}
