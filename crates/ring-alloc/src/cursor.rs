//! Where the next block of a chunk goes. Pure arithmetic on addresses.
//!
//! ```text
//!  | header | live and dead blocks ... | top block | free ...... |
//!                                                  ^cursor       ^end
//! ```
#![forbid(unsafe_code)]

use ephemera_prim::align::align_up_wrapping;

/// Blocks take up room in steps of this many bytes, so that the cursor always stands where a block of any usual
/// type may start. An allocation then waits for the one before it by a single addition.
pub(crate) const GRANULE: usize = 8;

/// Bytes that a block of this size takes up.
#[inline]
pub(crate) const fn room_of(size: usize) -> usize {
    (size + (GRANULE - 1)) & !(GRANULE - 1)
}

/// A block's place: where it starts, and the cursor behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) cursor: usize,
}

/// The place of the next block of `size` bytes aligned to `align`, if it fits before `end`.
///
/// Cannot overflow: `cursor` and `end` lie 4 MiB below the end of the address space at least (R1 of the
/// raw door), `size` and `align` are at most 1 MiB (the largest chunk of any geometry).
#[inline]
pub(crate) const fn place(cursor: usize, end: usize, size: usize, align: usize) -> Option<Place> {
    let start = if align > GRANULE { align_up_wrapping(cursor, align) } else { cursor };
    let after = start.wrapping_add(room_of(size));
    if after > end { None } else { Some(Place { start, cursor: after }) }
}

#[cfg(test)]
mod tests {
    use super::{Place, place, room_of};

    #[test]
    fn blocks_stand_side_by_side() {
        assert_eq!(place(128, 1024, 16, 8), Some(Place { start: 128, cursor: 144 }));
        assert_eq!(place(144, 1024, 16, 16), Some(Place { start: 144, cursor: 160 }));
        assert_eq!(place(144, 1024, 1, 1), Some(Place { start: 144, cursor: 152 }));
        assert_eq!(place(144, 1024, 1, 64), Some(Place { start: 192, cursor: 200 }));
    }

    #[test]
    fn room_is_in_steps_of_eight_and_holds_the_block() {
        for size in 1..4096 {
            let room = room_of(size);
            assert!(room >= size && room < size + 8 && room.is_multiple_of(8), "{size} takes {room}");
        }
    }

    #[test]
    fn the_last_byte_is_used_and_no_byte_beyond() {
        assert_eq!(place(1000, 1024, 24, 8), Some(Place { start: 1000, cursor: 1024 }));
        assert_eq!(place(1000, 1024, 25, 8), None);
        assert_eq!(place(1016, 1024, 1, 16), None);
        // What threads have that own nothing: a front with no room for one byte.
        assert_eq!(place(0, 0, 1, 1), None);
        assert_eq!(place(0, 0, 1, 4096), None);
    }
}
