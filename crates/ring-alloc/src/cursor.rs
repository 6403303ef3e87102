//! Where the next block of a chunk goes. Pure arithmetic on addresses.
//!
//! ```text
//!  | header | live and dead blocks ... | top block | free ...... |
//!                                                  ^cursor       ^end
//! ```
#![forbid(unsafe_code)]

use ephemera_prim::align::align_up_wrapping;

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
    let start = align_up_wrapping(cursor, align);
    let after = start.wrapping_add(size);
    if after > end { None } else { Some(Place { start, cursor: after }) }
}

/// The cursor after a block was freed from the front chunk: at the chunk's first byte when nothing is live any more,
/// back at the block when it was the top one, else where it was.
#[inline]
pub(crate) const fn after_free(cursor: usize, start: usize, size: usize, first: usize, drained: bool) -> usize {
    let back = if start.wrapping_add(size) == cursor { start } else { cursor };
    if drained { first } else { back }
}

#[cfg(test)]
mod tests {
    use super::{Place, after_free, place};

    #[test]
    fn blocks_stand_side_by_side() {
        assert_eq!(place(128, 1024, 16, 8), Some(Place { start: 128, cursor: 144 }));
        assert_eq!(place(144, 1024, 16, 16), Some(Place { start: 144, cursor: 160 }));
        assert_eq!(place(145, 1024, 1, 1), Some(Place { start: 145, cursor: 146 }));
        assert_eq!(place(145, 1024, 1, 64), Some(Place { start: 192, cursor: 193 }));
    }

    #[test]
    fn the_last_byte_is_used_and_no_byte_beyond() {
        assert_eq!(place(1000, 1024, 24, 8), Some(Place { start: 1000, cursor: 1024 }));
        assert_eq!(place(1000, 1024, 25, 8), None);
        assert_eq!(place(1023, 1024, 1, 2), None);
        // What threads have that own nothing: a front with no room for one byte.
        assert_eq!(place(0, 0, 1, 1), None);
    }

    #[test]
    fn the_cursor_goes_back_for_the_top_block_and_when_nothing_lives() {
        assert_eq!(after_free(200, 180, 20, 128, false), 180);
        assert_eq!(after_free(200, 160, 20, 128, false), 200);
        assert_eq!(after_free(200, 160, 20, 128, true), 128);
    }
}
