//! Defines a geometry whose small chunks can be divided. The integration tests and the unit tests
//! include this file, so the parent module provides the trait.

use super::Geometry;

/// Chunks of 8 KiB with sections of 256 bytes. Every small block fits into a hole of three
/// sections. A heap keeps no empty chunks, so it is sparse from four chunks on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divided;

impl Geometry for Divided {
    const SMALL_MAX: usize = 256;
    const SMALL_ALIGN: usize = 64;
    const SMALL_CHUNK: usize = 8 << 10;
    const MEDIUM_MAX: usize = 2 << 10;
    const MEDIUM_ALIGN: usize = 128;
    const MEDIUM_CHUNK: usize = 16 << 10;
    const RETAIN: usize = 0;
}
