//! `PluginTable`: the functions that the plugin exports to the program.

/// A value in the plugin's heap: strings of many sizes, and a large block. Only the plugin knows
/// the layout of the value.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Words([u8; 0]);

/// The functions of the plugin. The plugin exports a static of this type as `PLUGIN`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PluginTable {
    /// Creates a value. The caller must free the value with the table's `free`.
    pub(crate) make: extern "C" fn(seed: usize) -> *mut Words,
    /// Returns whether a live value has the content for this seed.
    pub(crate) is_right: unsafe extern "C" fn(value: *const Words, seed: usize) -> bool,
    /// Frees a live value, on any thread.
    pub(crate) free: unsafe extern "C" fn(value: *mut Words),
    /// Returns the number of live slots of the plugin's heap.
    pub(crate) live: extern "C" fn() -> usize,
    /// Returns a block of the C library's heap. The caller must free the block with the C library's
    /// `free`.
    pub(crate) malloc: extern "C" fn(size: usize) -> *mut u8,
}
