//! `PluginTable`: the functions that the plugin exports to the program.

/// A value in the plugin's heap: strings of many sizes, and a block beyond the classes. Only the
/// plugin looks inside.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Words([u8; 0]);

/// The functions of the plugin. It exports a static of this type as `PLUGIN`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PluginTable {
    /// Makes a value, which `free` frees.
    pub(crate) make: extern "C" fn(seed: usize) -> *mut Words,
    /// Returns whether a live value still has the content for this seed.
    pub(crate) is_right: unsafe extern "C" fn(value: *const Words, seed: usize) -> bool,
    /// Frees a live value, on any thread.
    pub(crate) free: unsafe extern "C" fn(value: *mut Words),
    /// Returns the number of live slots of the plugin's heap.
    pub(crate) live: extern "C" fn() -> usize,
    /// Returns a block of the C library's heap, which the caller frees by `free`.
    pub(crate) malloc: extern "C" fn(size: usize) -> *mut u8,
}
