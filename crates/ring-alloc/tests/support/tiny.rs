//! Defines a geometry whose chunks fill up after a few blocks.

use ring_alloc::Geometry;

/// A geometry with blocks of up to 64 bytes in chunks of 256 bytes, and blocks of up to 256 bytes
/// in chunks of 512 bytes. A heap keeps one empty chunk of each class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiny;

impl Geometry for Tiny {
    const SMALL_MAX: usize = 64;
    const SMALL_ALIGN: usize = 16;
    const SMALL_CHUNK: usize = 256;
    const MEDIUM_MAX: usize = 256;
    const MEDIUM_ALIGN: usize = 64;
    const MEDIUM_CHUNK: usize = 512;
    const RETAIN: usize = 1;
}
