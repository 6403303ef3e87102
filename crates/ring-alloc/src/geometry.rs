//! Defines the class of each layout, and the size of the chunks of each class.
//!
//! The class of a block depends only on its layout, not on the state of the heap, because the class
//! determines the mask with which a free finds the chunk from the block's address.
#![forbid(unsafe_code)]

use core::alloc::Layout;

/// The number of classes that have chunks: small and medium. Larger blocks come directly from the
/// backing allocator.
pub(crate) const CLASSES: usize = 2;

/// The number of bytes by which a chunk is smaller than its alignment.
///
/// Many general allocators put a header in front of each block. In glibc, a header has 8 bytes, and
/// blocks are multiples of 16 bytes. After a chunk as large as its alignment, the next header would
/// take the next aligned address, and the next chunk would start one alignment later. With 16 bytes
/// less, glibc can place chunks side by side.
pub(crate) const SLACK: usize = 16;

/// The sizes of blocks and chunks.
///
/// Most programs use the default, [`Standard`]. Other geometries are for tests in which chunks must
/// fill up soon, and for targets with little memory. A ring whose chunks have less than 32 KiB
/// never takes memory from pages, because each chunk would take a span of 32 KiB.
///
/// All sizes and alignments are in bytes. Chunk sizes and alignments are powers of two, and a chunk
/// has at most 1 MiB. `SMALL_MAX` is at most `MEDIUM_MAX`, and `SMALL_ALIGN` at most
/// `MEDIUM_ALIGN`. The largest block of a class, aligned to the largest alignment of that class,
/// must fit into an empty chunk between the header and the last 16 bytes, which stay unused. The
/// compiler checks these rules.
///
/// # Examples
///
/// A ring for a small device, with chunks of 1 KiB and 8 KiB:
///
/// ```
/// use ring_alloc::{Geometry, RingAlloc};
///
/// struct Little;
///
/// impl Geometry for Little {
///     const SMALL_MAX: usize = 128;
///     const SMALL_ALIGN: usize = 16;
///     const SMALL_CHUNK: usize = 1 << 10;
///     const MEDIUM_MAX: usize = 2 << 10;
///     const MEDIUM_ALIGN: usize = 64;
///     const MEDIUM_CHUNK: usize = 8 << 10;
///     const RETAIN: usize = 1;
/// }
///
/// let ring = RingAlloc::builder().geometry::<Little>().limit(32 << 10).build();
/// let text = allocator_api2::boxed::Box::new_in([7_u8; 64], ring.clone());
/// assert!(ring.stats().bytes_held < 2 << 10);
/// ```
pub trait Geometry: 'static {
    /// The size of the largest block of the small class.
    const SMALL_MAX: usize;
    /// The largest alignment of the small class.
    const SMALL_ALIGN: usize;
    /// The size and alignment of chunks of small blocks.
    const SMALL_CHUNK: usize;
    /// The size of the largest block of the medium class. Larger blocks come from the backing
    /// allocator.
    const MEDIUM_MAX: usize;
    /// The largest alignment of the medium class.
    const MEDIUM_ALIGN: usize;
    /// The size and alignment of chunks of medium blocks.
    const MEDIUM_CHUNK: usize;
    /// The number of empty chunks of each class that a heap keeps besides the front, by default. A
    /// heap frees all others, except small chunks that rest (see [`design`](crate::design)).
    const RETAIN: usize = 4;
}

/// The default geometry. Blocks of up to 2 KiB, aligned to at most 512 bytes, are in chunks of 32
/// KiB. Other blocks of up to 64 KiB, aligned to at most 4 KiB, are in chunks of 256 KiB.
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

/// A class of blocks, which determines the size of their chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkClass {
    Small = 0,
    Medium = 1,
}

impl ChunkClass {
    pub(crate) const ALL: [Self; CLASSES] = [Self::Small, Self::Medium];

    /// Returns the class of a layout, or `None` for a block of size zero and for a large block.
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

    /// Returns whether a layout is of the small class. This is the only check of the class on the
    /// fast path.
    #[inline]
    pub(crate) const fn is_small<G: Geometry>(layout: Layout) -> bool {
        // A size of zero wraps around to a large number, so it is not small.
        layout.size().wrapping_sub(1) < G::SMALL_MAX && layout.align() <= G::SMALL_ALIGN
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the alignment of the chunks of this class, which is their size plus [`SLACK`].
    #[inline]
    pub(crate) const fn chunk_size<G: Geometry>(self) -> usize {
        match self {
            Self::Small => G::SMALL_CHUNK,
            Self::Medium => G::MEDIUM_CHUNK,
        }
    }

    /// Returns the layout with which a chunk of this class is requested from the backing allocator.
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

/// Checks a geometry at compile time. `header` has the sizes of the headers of small and of medium
/// chunks.
pub(crate) const fn check<G: Geometry>(header: [usize; CLASSES]) {
    assert!(G::SMALL_CHUNK.is_power_of_two(), "chunk sizes are powers of two");
    assert!(G::MEDIUM_CHUNK.is_power_of_two(), "chunk sizes are powers of two");
    assert!(G::SMALL_ALIGN.is_power_of_two(), "alignments are powers of two");
    assert!(G::MEDIUM_ALIGN.is_power_of_two(), "alignments are powers of two");
    assert!(G::SMALL_MAX <= G::MEDIUM_MAX, "a small block is no larger than a medium one");
    assert!(G::SMALL_ALIGN <= G::MEDIUM_ALIGN, "a small alignment is no larger than a medium one");
    assert!(G::SMALL_CHUNK <= LARGEST_CHUNK, "a chunk is 1 MiB at most, as counts and addresses require");
    assert!(G::MEDIUM_CHUNK <= LARGEST_CHUNK, "a chunk is 1 MiB at most, as counts and addresses require");
    assert!(
        fits(header[0], G::SMALL_ALIGN, G::SMALL_MAX, G::SMALL_CHUNK),
        "the largest small block fits into an empty chunk"
    );
    assert!(
        fits(header[1], G::MEDIUM_ALIGN, G::MEDIUM_MAX, G::MEDIUM_CHUNK),
        "the largest medium block fits into an empty chunk"
    );
}

/// The largest chunk of any geometry, in bytes.
const LARGEST_CHUNK: usize = 1 << 20;

/// Returns whether a block of `max` bytes fits into an empty chunk of `chunk` bytes, at the first
/// multiple of `align` after the header and before the slack. The first two comparisons keep the
/// sum from wrapping around in builds without overflow checks.
pub(crate) const fn fits(header: usize, align: usize, max: usize, chunk: usize) -> bool {
    align <= chunk && max <= chunk && header.next_multiple_of(align) + max + SLACK <= chunk
}

#[cfg(test)]
mod tests {
    use super::{ChunkClass, Geometry, SLACK, Standard, fits};
    use core::alloc::Layout;

    fn class(size: usize, align: usize) -> Option<usize> {
        ChunkClass::of::<Standard>(Layout::from_size_align(size, align).ok()?).map(ChunkClass::index)
    }

    #[test]
    fn class_follows_from_size_and_alignment() {
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
    fn geometry_whose_sum_would_wrap_around_does_not_fit() {
        assert!(fits(128, 4096, 64 << 10, 256 << 10));
        assert!(!fits(128, 64, usize::MAX - 143, 1 << 20));
        assert!(!fits(128, 1 << (usize::BITS - 2), usize::MAX - usize::MAX / 4, 1 << 20));
        assert!(!fits(128, 8, (64 << 10) - 128 - SLACK + 1, 64 << 10));
    }

    #[test]
    fn chunk_layout_is_smaller_than_its_alignment() {
        for class in ChunkClass::ALL {
            let layout = class.chunk_layout::<Standard>();
            assert_eq!(layout.align(), class.chunk_size::<Standard>());
            assert!(layout.size() < layout.align());
        }
    }
}
