//! Computes the position of the next block in a chunk, by arithmetic on addresses alone.
//!
//! ```text
//!  | header | live and freed blocks ... | top block | free ..... |
//!                                                  ^cursor       ^end
//! ```
#![forbid(unsafe_code)]

/// The granularity of blocks in a chunk: a block takes up a multiple of this number of bytes. The
/// cursor is therefore aligned for most types, and an allocation depends on the previous one
/// through a single addition.
pub(crate) const GRANULE: usize = 8;

/// Returns the number of bytes that a block of `size` bytes takes up in a chunk.
#[inline]
pub(crate) const fn room_of(size: usize) -> usize {
    (size + (GRANULE - 1)) & !(GRANULE - 1)
}

/// The placement of a block: its address, and the value of the cursor after its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) start: usize,
    pub(crate) cursor: usize,
}

/// Returns the placement of the next block of `size` bytes aligned to `align`, or `None` if the
/// block would end after `end`.
///
/// The sums cannot overflow. `cursor` and `end` are at least 4 MiB below the end of the address
/// space (R1 of `ephemera_prim::raw`). `size` and `align` are at most 1 MiB, the largest size of a
/// chunk in any geometry.
#[inline]
pub(crate) const fn place(cursor: usize, end: usize, size: usize, align: usize) -> Option<Placement> {
    let start = if align > GRANULE { cursor.wrapping_add(align - 1) & !(align - 1) } else { cursor };
    let after = start.wrapping_add(room_of(size));
    if after > end { None } else { Some(Placement { start, cursor: after }) }
}

#[cfg(test)]
mod tests {
    use super::{Placement, place, room_of};

    #[test]
    fn blocks_are_adjacent() {
        assert_eq!(place(128, 1024, 16, 8), Some(Placement { start: 128, cursor: 144 }));
        assert_eq!(place(144, 1024, 16, 16), Some(Placement { start: 144, cursor: 160 }));
        assert_eq!(place(144, 1024, 1, 1), Some(Placement { start: 144, cursor: 152 }));
        assert_eq!(place(144, 1024, 1, 64), Some(Placement { start: 192, cursor: 200 }));
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
        assert_eq!(place(1000, 1024, 24, 8), Some(Placement { start: 1000, cursor: 1024 }));
        assert_eq!(place(1000, 1024, 25, 8), None);
        assert_eq!(place(1016, 1024, 1, 16), None);
        // Not even a block of one byte fits into the full chunk, the front of threads that do not
        // own a chunk.
        assert_eq!(place(0, 0, 1, 1), None);
        assert_eq!(place(0, 0, 1, 4096), None);
    }
}
