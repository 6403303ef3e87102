//! Contenders that hand out byte buffers.

mod bytes;
mod bytesbuf;
mod nothing;
mod recycled;
mod rings;
mod vectors;

pub use self::bytes::{EachBytesMut, SplitBytesMut, SplitWriting};
pub use self::bytesbuf::{BytesBufPool, BytesBufWriting};
pub use self::nothing::{Nothing, WrappedSlot};
pub use self::recycled::RecycledVectors;
pub use self::rings::{ours, upstream};
pub use self::vectors::{Plain, SharedVector, Vectors};
#[cfg(feature = "cpp-peers")]
use super::blocks::SnMalloc;
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::blocks::{OurOneRing, System};
use super::{Entry, buffers as entry, twin};

/// The registry, in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<Nothing>("nothing"),
        entry::<Vectors<System>>("glibc"),
        twin(entry::<Vectors<System>>("glibc-aa")),
        #[cfg(feature = "c-peers")]
        entry::<Vectors<MiMalloc>>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<Vectors<Jemalloc>>("jemalloc"),
        #[cfg(feature = "cpp-peers")]
        entry::<Vectors<SnMalloc>>("snmalloc"),
        entry::<Vectors<OurOneRing>>("one-ring"),
        #[cfg(feature = "rust-peers")]
        entry::<EachBytesMut>("bytes"),
        #[cfg(feature = "rust-peers")]
        entry::<SplitBytesMut>("bytes-split"),
        #[cfg(feature = "rust-peers")]
        entry::<BytesBufPool>("bytesbuf"),
        #[cfg(feature = "rust-peers")]
        entry::<RecycledVectors>("object-pool"),
        #[cfg(feature = "rust-peers")]
        entry::<upstream::BufferRing>("upstream-ringal"),
        entry::<ours::BufferRing>("ringal"),
    ]
}

#[cfg(test)]
mod tests {
    use super::{ours, upstream};
    use crate::buffers::{Demand, OrHeap, Readable, Source, give};

    /// Takes from a source until it refuses.
    fn exhaust<S: Source>() {
        let mut source = S::create(&Demand::of(1, 1024));
        let mut held = Vec::new();
        while source.refused() == 0 {
            // SAFETY: a ring keeps buffers apart, however many there are.
            held.push(unsafe { source.filled([&[7; 1000], b"and a tail"]) });
            assert!(held.len() <= 64, "a ring of 64 KiB refuses");
        }
        assert!(held.len() > 32 && matches!(held.last(), Some(OrHeap::Heap(_))));
        for buffer in &held {
            buffer.read(|bytes| assert!(bytes[..1000] == [7; 1000] && &bytes[1000..] == b"and a tail"));
        }
        // SAFETY: as above.
        let grown = unsafe { source.grown(&[9; 8000], 64) };
        assert!(matches!(&grown, OrHeap::Heap(bytes) if bytes == &[9; 8000]));
        assert_eq!(source.refused(), 2);
        held.into_iter().for_each(give);
        // SAFETY: as above.
        let again = unsafe { source.grown(&[9; 8000], 64) };
        assert!(matches!(again, OrHeap::Own(_)), "nothing is held any more");
        again.read(|bytes| assert_eq!(bytes, [9; 8000]));
        give(again);
    }

    #[test]
    fn what_a_ring_refuses_comes_from_the_heap_and_is_counted() {
        exhaust::<ours::BufferRing>();
        exhaust::<upstream::BufferRing>();
    }
}
