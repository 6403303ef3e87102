//! Which layouts go into which chunks. Pure arithmetic.
//!
//! The class of a block follows from its layout alone, never from where there was room: a block finds its
//! chunk again by masking its address, and the mask is the class's.
#![forbid(unsafe_code)]

use core::alloc::Layout;

/// Classes that have chunks: small and medium. Larger blocks go to the backing allocator one by one.
pub(crate) const CLASSES: usize = 2;

/// Bytes at the end of a chunk's alignment that the chunk does not use.
///
/// General allocators put a header in front of each block: glibc 8 bytes, in steps of 16. A chunk that
/// asked for all of its alignment would push the next one to the alignment after: asking for 16 bytes less
/// lets chunks stand shoulder to shoulder.
pub(crate) const SLACK: usize = 16;

/// Sizes of blocks and chunks.
///
/// The default, [`Standard`], is for programs. Others serve tests, which want chunks that run full soon,
/// and targets with little memory.
///
/// All values are bytes. Chunk sizes are powers of two; the largest block of a class, aligned to that class's
/// largest alignment, must fit an empty chunk of it behind the header: this is checked when the program is compiled.
pub trait Geometry: 'static {
    /// Largest block of the small class.
    const SMALL_MAX: usize;
    /// Largest alignment of the small class.
    const SMALL_ALIGN: usize;
    /// Size and alignment of chunks of small blocks.
    const SMALL_CHUNK: usize;
    /// Largest block of the medium class. What is larger goes to the backing allocator.
    const MEDIUM_MAX: usize;
    /// Largest alignment of the medium class.
    const MEDIUM_ALIGN: usize;
    /// Size and alignment of chunks of medium blocks.
    const MEDIUM_CHUNK: usize;
    /// Empty chunks of each class that are kept for the next need; more go back to the backing allocator.
    const RETAIN: usize = 4;
}

/// The geometry for programs: blocks to 2 KiB in chunks of 32 KiB, blocks to 64 KiB in chunks of 256 KiB.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standard;

impl Geometry for Standard {
    const SMALL_MAX: usize = 2 << 10;
    const SMALL_ALIGN: usize = 512;
    const SMALL_CHUNK: usize = 32 << 10;
    const MEDIUM_MAX: usize = 64 << 10;
    const MEDIUM_ALIGN: usize = 4 << 10;
    const MEDIUM_CHUNK: usize = 256 << 10;
}

/// A class of blocks: an index, and what follows from it under a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Small = 0,
    Medium = 1,
}

impl Class {
    pub(crate) const ALL: [Self; CLASSES] = [Self::Small, Self::Medium];

    /// The class of a layout, or `None` for sizes of zero and for what goes to the backing allocator.
    ///
    #[inline]
    pub(crate) const fn of<G: Geometry>(layout: Layout) -> Option<Self> {
        if Self::is_small::<G>(layout) {
            Some(Self::Small)
        } else if layout.size() != 0 && layout.size() <= G::MEDIUM_MAX && layout.align() <= G::MEDIUM_ALIGN {
            Some(Self::Medium)
        } else {
            None
        }
    }

    /// Whether a layout is of the small class: what the fast path asks.
    #[inline]
    pub(crate) const fn is_small<G: Geometry>(layout: Layout) -> bool {
        // A size of zero wraps around and is not.
        layout.size().wrapping_sub(1) < G::SMALL_MAX && layout.align() <= G::SMALL_ALIGN
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Size and alignment of the chunks of this class, in bytes.
    #[inline]
    pub(crate) const fn chunk_size<G: Geometry>(self) -> usize {
        match self {
            Self::Small => G::SMALL_CHUNK,
            Self::Medium => G::MEDIUM_CHUNK,
        }
    }

    /// What a chunk of this class asks of the backing allocator.
    #[inline]
    pub(crate) const fn chunk_layout<G: Geometry>(self) -> Layout {
        match self {
            Self::Small => const { chunk_layout(G::SMALL_CHUNK) },
            Self::Medium => const { chunk_layout(G::MEDIUM_CHUNK) },
        }
    }
}

const fn chunk_layout(size: usize) -> Layout {
    match Layout::from_size_align(size - SLACK, size) {
        Ok(layout) => layout,
        Err(_) => panic!("chunk sizes are powers of two"),
    }
}

/// Checks a geometry when the program is compiled; `header` is the bytes that a chunk needs for itself.
pub(crate) const fn check<G: Geometry>(header: usize) {
    assert!(G::SMALL_CHUNK.is_power_of_two(), "chunk sizes are powers of two");
    assert!(G::MEDIUM_CHUNK.is_power_of_two(), "chunk sizes are powers of two");
    assert!(G::SMALL_ALIGN.is_power_of_two(), "alignments are powers of two");
    assert!(G::MEDIUM_ALIGN.is_power_of_two(), "alignments are powers of two");
    assert!(G::SMALL_MAX <= G::MEDIUM_MAX, "the small class is the smaller one");
    assert!(G::SMALL_ALIGN <= G::MEDIUM_ALIGN, "the small class is the smaller one");
    assert!(G::SMALL_CHUNK <= LARGEST_CHUNK, "a chunk is 1 MiB at most: counts and addresses rest on it");
    assert!(G::MEDIUM_CHUNK <= LARGEST_CHUNK, "a chunk is 1 MiB at most: counts and addresses rest on it");
    assert!(fits(header, G::SMALL_ALIGN, G::SMALL_MAX, G::SMALL_CHUNK), "a small block fits an empty chunk");
    assert!(
        fits(header, G::MEDIUM_ALIGN, G::MEDIUM_MAX, G::MEDIUM_CHUNK),
        "a medium block fits an empty chunk"
    );
}

/// Largest chunk of any geometry, in bytes.
const LARGEST_CHUNK: usize = 1 << 20;

/// Whether the largest block fits behind the header at the first place of the largest alignment. The first comparisons keep the
/// sum from wrapping around, which it does silently where overflow is not checked.
const fn fits(header: usize, align: usize, max: usize, chunk: usize) -> bool {
    align <= chunk && max <= chunk && header.next_multiple_of(align) + max + SLACK <= chunk
}

#[cfg(test)]
mod tests {
    use super::{Class, Geometry, SLACK, Standard, fits};
    use core::alloc::Layout;

    fn class(size: usize, align: usize) -> Option<usize> {
        Class::of::<Standard>(Layout::from_size_align(size, align).ok()?).map(Class::index)
    }

    #[test]
    fn classes_follow_from_size_and_alignment() {
        assert_eq!(class(0, 1), None);
        assert_eq!(class(1, 1), Some(0));
        assert_eq!(class(Standard::SMALL_MAX, Standard::SMALL_ALIGN), Some(0));
        assert_eq!(class(Standard::SMALL_MAX + 1, 1), Some(1));
        assert_eq!(class(1, Standard::SMALL_ALIGN * 2), Some(1));
        assert_eq!(class(Standard::MEDIUM_MAX, Standard::MEDIUM_ALIGN), Some(1));
        assert_eq!(class(Standard::MEDIUM_MAX + 1, 1), None);
        assert_eq!(class(1, Standard::MEDIUM_ALIGN * 2), None);
        assert_eq!(class(isize::MAX as usize, 1), None);
        assert_eq!(class(8, 1 << 29), None);
    }

    #[test]
    fn sums_that_would_wrap_around_do_not_fit() {
        assert!(fits(128, 4096, 64 << 10, 256 << 10));
        assert!(!fits(128, 64, usize::MAX - 143, 1 << 20));
        assert!(!fits(128, 1 << (usize::BITS - 2), usize::MAX - usize::MAX / 4, 1 << 20));
        assert!(!fits(128, 8, (64 << 10) - 128 - SLACK + 1, 64 << 10));
    }

    #[test]
    fn chunks_ask_for_less_than_their_alignment() {
        for class in Class::ALL {
            let layout = class.chunk_layout::<Standard>();
            assert_eq!(layout.align(), class.chunk_size::<Standard>());
            assert!(layout.size() < layout.align());
        }
    }
}
