//! Computes the position of the next block in a chunk, by arithmetic on addresses alone.
//!
//! ```text
//!  | header | live and freed blocks ... | top block | free ..... |
//!                                                  ^cursor       ^end
//! ```
#![forbid(unsafe_code)]

use core::ops::Range;

/// The granularity of blocks in a chunk: a block takes up a multiple of this number of bytes. The
/// cursor is therefore aligned for most types, and an allocation depends on the previous one
/// through a single addition.
pub(crate) const GRANULE: usize = 8;

/// Returns the number of bytes that a block of `size` bytes takes up in a chunk.
#[inline]
pub(crate) const fn room_of(size: usize) -> usize {
    (size + (GRANULE - 1)) & !(GRANULE - 1)
}

/// Returns the addresses that the next block of `size` bytes aligned to `align` takes up, or `None`
/// if the block would end after `end`. The end of these addresses is the next value of the cursor.
///
/// The sums cannot overflow. `cursor` and `end` are at least 4 MiB below the end of the address
/// space (R1 of `ephemera_prim::raw`). `size` and `align` are at most 1 MiB, the largest size of a
/// chunk in any geometry.
#[inline]
pub(crate) const fn place(cursor: usize, end: usize, size: usize, align: usize) -> Option<Range<usize>> {
    let start = if align > GRANULE { cursor.wrapping_add(align - 1) & !(align - 1) } else { cursor };
    let after = start.wrapping_add(room_of(size));
    if after > end { None } else { Some(start..after) }
}

#[cfg(test)]
mod tests {
    use super::{place, room_of};

    #[test]
    fn blocks_are_adjacent() {
        assert_eq!(place(128, 1024, 16, 8), Some(128..144));
        assert_eq!(place(144, 1024, 16, 16), Some(144..160));
        assert_eq!(place(144, 1024, 1, 1), Some(144..152));
        assert_eq!(place(144, 1024, 1, 64), Some(192..200));
    }

    #[test]
    fn room_is_a_multiple_of_eight_that_holds_the_block() {
        for size in 1..4096 {
            let room = room_of(size);
            assert!(room >= size && room < size + 8 && room.is_multiple_of(8), "{size} takes {room}");
        }
    }

    #[test]
    fn blocks_may_end_at_the_last_byte_and_not_beyond() {
        assert_eq!(place(1000, 1024, 24, 8), Some(1000..1024));
        assert_eq!(place(1000, 1024, 25, 8), None);
        assert_eq!(place(1016, 1024, 1, 16), None);
        // Not even a block of one byte fits into the full chunk, the front of threads that do not
        // own a chunk.
        assert_eq!(place(0, 0, 1, 1), None);
        assert_eq!(place(0, 0, 1, 4096), None);
    }
}
