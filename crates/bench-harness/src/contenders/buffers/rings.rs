//! Rings of byte buffers: the ring of this workspace and upstream's, which share an API.
//!
//! A ring is bounded and refuses requests that do not fit. The workloads then take a buffer from
//! the heap, as users would. The table shows the share of refused requests.

use std::io::Write;

use crate::buffers::{Buffer, Demand, Growing, Source, readable};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// Panics because a workload wrote more bytes than it requested.
#[cold]
#[inline(never)]
fn full(asked: usize, written: usize) -> ! {
    panic!("{asked} bytes written to a buffer that has room for {written}");
}

/// Defines a contender for a crate with the API of `ringal`, and the type of its growing buffers.
macro_rules! ring {
    ($(#[$doc:meta])* $ring:ident, $writing:ident, $krate:ident, $name:literal, $version:expr) => {
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

        /// A buffer that grows, and the ring's counter of refusals.
        pub(crate) struct $writing<'s>($krate::ExtBuf<'s>, &'s mut u64);

        impl Growing for $writing<'_> {
            type Done = $krate::FixedBufMut;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) -> bool {
                let whole = self.0.write(bytes).unwrap_or(0) == bytes.len();
                if !whole {
                    *self.1 += 1;
                }
                whole
            }

            #[inline(always)]
            fn finish(self) -> $krate::FixedBufMut {
                self.0.finalize()
            }
        }

        $(#[$doc])*
        pub(crate) struct $ring {
            ring: $krate::RingAl,
            refused: u64,
        }

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
            type Growing<'s> = $writing<'s>;

            fn create(demand: &Demand) -> Self {
                Self { ring: $krate::RingAl::new(demand.store()), refused: 0 }
            }

            #[inline(always)]
            unsafe fn raw_take(&mut self, capacity: usize) -> Option<$krate::FixedBufMut> {
                let buffer = self.ring.fixed(capacity);
                if buffer.is_none() {
                    self.refused += 1;
                }
                buffer
            }

            #[inline(always)]
            unsafe fn raw_grow(&mut self, first: usize) -> Option<$writing<'_>> {
                match self.ring.extendable(first) {
                    Some(buffer) => Some($writing(buffer, &mut self.refused)),
                    None => {
                        self.refused += 1;
                        None
                    }
                }
            }

            fn refused(&self) -> u64 {
                self.refused
            }
        }
    };
}

ring! {
    /// The ring of this workspace, and the number of its refusals.
    OurBufferRing, OurRingWriting, ringal, "RingAl", env!("EPHEMERA_VERSION_RINGAL")
}
ring! {
    /// Upstream's ring, and the number of its refusals.
    UpstreamBufferRing, UpstreamRingWriting, upstream_ringal,
    "upstream RingAl", env!("EPHEMERA_VERSION_UPSTREAM_RINGAL")
}
