//! Contenders that hand out byte buffers.

mod bytes;
mod bytesbuf;
mod nothing;
mod recycled;
mod rings;
mod vectors;

pub(crate) use self::bytes::EachBytesMut;
use self::bytes::SplitBytesMut;
use self::bytesbuf::BytesBufPool;
use self::nothing::Nothing;
use self::recycled::RecycledVectors;
use self::rings::{OurBufferRing, UpstreamBufferRing};
pub(crate) use self::vectors::Vectors;
use super::blocks::{OurOneRing, OurPooled};
use super::entry::{Entry, buffers as entry, registry};

/// Returns the contenders in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    registry! {
        entry, Nothing, Vectors;
        OURS "one-ring": Vectors<OurOneRing>,
        OURS "pooled-allocator": Vectors<OurPooled>,
        PEERS "bytes": EachBytesMut,
        MORE_PEERS "bytes-split": SplitBytesMut,
        MORE_PEERS "bytesbuf": BytesBufPool,
        MORE_PEERS "object-pool": RecycledVectors,
        PEERS "upstream-ringal": UpstreamBufferRing,
        OURS "ringal": OurBufferRing,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::{OurBufferRing, UpstreamBufferRing};
    use crate::buffers::{Demand, OrHeap, REFUSALS, Readable, Source, give, refused};

    /// Takes buffers from a source until the source refuses one, then drops them and takes another.
    fn exhaust<S: Source>() {
        let mut source = S::create(&Demand::of(1, 1024));
        let mut held = Vec::new();
        let before = refused();
        while refused() == before {
            // SAFETY: the test exceeds the demand, but only the source that does nothing relies on
            // it. A ring refuses a buffer that does not fit.
            held.push(unsafe { source.filled([&[7; 1000], b"and a tail"]) });
            assert!(held.len() <= 64, "a ring of 64 KiB refuses");
        }
        assert!(held.len() > 32 && matches!(held.last(), Some(OrHeap::Heap(_))));
        for buffer in &held {
            buffer.read(|bytes| assert!(bytes[..1000] == [7; 1000] && &bytes[1000..] == b"and a tail"));
        }
        // SAFETY: the test exceeds the demand, but only the source that does nothing relies on it.
        // A ring refuses a buffer that does not fit.
        let grown = unsafe { source.grown(&[9; 8000], 64) };
        assert!(matches!(&grown, OrHeap::Heap(bytes) if bytes == &[9; 8000]));
        assert_eq!(refused(), before + 2);
        held.into_iter().for_each(give);
        // SAFETY: the test exceeds the demand, but only the source that does nothing relies on it.
        // A ring refuses a buffer that does not fit.
        let again = unsafe { source.grown(&[9; 8000], 64) };
        assert!(matches!(again, OrHeap::Own(_)), "nothing is held any more");
        again.read(|bytes| assert_eq!(bytes, [9; 8000]));
        give(again);
    }

    #[test]
    fn refused_buffers_come_from_the_heap_and_are_counted() {
        let _alone = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
        exhaust::<OurBufferRing>();
        exhaust::<UpstreamBufferRing>();
    }
}
