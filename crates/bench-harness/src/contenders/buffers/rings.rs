//! Rings of byte buffers: the ring of this workspace and upstream's, which share an API.
//!
//! A ring is bounded and refuses requests that do not fit. The workloads then take a buffer from
//! the heap, as users would. The table shows the share of refused requests.

use std::io::Write;

use crate::buffers::{Buffer, Demand, Source, readable};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// Panics because a workload wrote more bytes than it requested.
#[cold]
#[inline(never)]
fn full(asked: usize, written: usize) -> ! {
    panic!("{asked} bytes written to a buffer that has room for {written}");
}

/// Defines a contender for a crate with the API of `ringal`.
macro_rules! ring {
    ($(#[$doc:meta])* $ring:ident, $krate:ident, $name:literal, $version:expr) => {
        readable! { [] $krate::FixedBufMut, [] $krate::FixedBuf }

        impl Buffer for $krate::FixedBufMut {
            type Frozen = $krate::FixedBuf;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) {
                let written = Write::write(self, bytes).unwrap_or(0);
                if written != bytes.len() {
                    full(bytes.len(), written);
                }
            }

            #[inline(always)]
            fn freeze(self) -> $krate::FixedBuf {
                Self::freeze(self)
            }
        }

        $(#[$doc])*
        pub(crate) struct $ring($krate::RingAl);

        // SAFETY: the ring's documentation guarantees that its buffers do not overlap.
        unsafe impl Source for $ring {
            const INFO: Info = Info::new(
                $name,
                $version,
                Caps { any_size: false, ..Caps::MAKES_HERE },
                "bounded; one thread takes",
            );
            type Backing = System;
            type Buf = $krate::FixedBufMut;

            fn create(demand: &Demand) -> Self {
                Self($krate::RingAl::new(demand.store()))
            }

            #[inline(always)]
            unsafe fn raw_take(&mut self, capacity: usize) -> Option<$krate::FixedBufMut> {
                self.0.fixed(capacity)
            }

            #[inline(always)]
            unsafe fn raw_grown(
                &mut self,
                first: usize,
                mut pieces: impl Iterator<Item: AsRef<[u8]>>,
            ) -> Option<$krate::FixedBufMut> {
                let mut buffer = self.0.extendable(first)?;
                let mut fits = |piece: &[u8]| buffer.write(piece).unwrap_or(0) == piece.len();
                let whole = pieces.all(|piece| fits(piece.as_ref()));
                let buffer = buffer.finalize();
                whole.then_some(buffer)
            }
        }
    };
}

ring! {
    /// The ring of this workspace.
    OurBufferRing, ringal, "RingAl", env!("EPHEMERA_VERSION_RINGAL")
}
ring! {
    /// Upstream's ring.
    UpstreamBufferRing, upstream_ringal, "upstream RingAl",
    env!("EPHEMERA_VERSION_UPSTREAM_RINGAL")
}
