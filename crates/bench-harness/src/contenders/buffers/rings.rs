//! Rings of byte buffers: ours and the published version, which share an API.
//!
//! A ring is bounded and refuses requests that do not fit. Then its users take a buffer from the
//! heap, and so do the workloads. The table shows the number of refusals.

/// Defines a contender for a crate with the API of `ringal`.
macro_rules! ring {
    ($krate:ident, $info:expr) => {
        use core::fmt;
        use std::io::Write;

        use $krate::{ExtBuf, FixedBuf, FixedBufMut, RingAl};

        use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
        use crate::card::{Caps, Info, MemoryBy};
        use crate::contenders::blocks::System;

        /// The ring, and the number of its refusals.
        pub struct BufferRing {
            ring: RingAl,
            refused: u64,
        }

        impl fmt::Debug for BufferRing {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Ring").field("refused", &self.refused).finish_non_exhaustive()
            }
        }

        impl Readable for FixedBufMut {
            #[inline(always)]
            fn start(&self) -> *const u8 {
                self.as_ptr()
            }

            #[inline(always)]
            fn read(&self, mut each: impl FnMut(&[u8])) {
                each(self);
            }
        }

        impl Readable for FixedBuf {
            #[inline(always)]
            fn start(&self) -> *const u8 {
                self.as_ptr()
            }

            #[inline(always)]
            fn read(&self, mut each: impl FnMut(&[u8])) {
                each(self);
            }
        }

        /// Ends a workload that writes more than it took.
        #[cold]
        #[inline(never)]
        fn full(asked: usize, written: usize) -> ! {
            panic!("{asked} bytes written to a buffer that has room for {written}");
        }

        impl Buffer for FixedBufMut {
            type Frozen = FixedBuf;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) {
                let written = Write::write(self, bytes).unwrap_or(0);
                if written != bytes.len() {
                    full(bytes.len(), written);
                }
            }

            #[inline(always)]
            fn freeze(self) -> FixedBuf {
                Self::freeze(self)
            }
        }

        /// A buffer that grows, and the counter of refusals.
        pub struct RingWriting<'s>(ExtBuf<'s>, &'s mut u64);

        impl fmt::Debug for RingWriting<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Writing").finish_non_exhaustive()
            }
        }

        impl Growing for RingWriting<'_> {
            type Done = FixedBufMut;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) -> bool {
                let whole = self.0.write(bytes).unwrap_or(0) == bytes.len();
                if !whole {
                    *self.1 += 1;
                }
                whole
            }

            #[inline(always)]
            fn finish(self) -> FixedBufMut {
                self.0.finalize()
            }
        }

        // SAFETY: the ring keeps buffers apart, as its documentation says.
        unsafe impl Source for BufferRing {
            const INFO: Info = $info;
            type Backing = System;
            type Buf = FixedBufMut;
            type Growing<'s> = RingWriting<'s>;

            fn create(demand: &Demand) -> Self {
                Self { ring: RingAl::new(demand.store()), refused: 0 }
            }

            #[inline(always)]
            unsafe fn raw_take(&mut self, capacity: usize) -> Option<FixedBufMut> {
                let buffer = self.ring.fixed(capacity);
                if buffer.is_none() {
                    self.refused += 1;
                }
                buffer
            }

            #[inline(always)]
            unsafe fn raw_grow(&mut self, first: usize) -> Option<RingWriting<'_>> {
                match self.ring.extendable(first) {
                    Some(buffer) => Some(RingWriting(buffer, &mut self.refused)),
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

        /// Returns the card of a ring.
        const fn card(name: &'static str, version: &'static str, notes: &'static str) -> Info {
            Info {
                name,
                version,
                caps: Caps { shared_alloc: false, any_size: false, ..Caps::GENERAL },
                memory: MemoryBy::HighWater,
                notes,
            }
        }
    };
}

/// The ring of this workspace.
pub mod ours {
    ring!(ringal, card("RingAl", env!("EPHEMERA_VERSION_RINGAL"), "bounded; one thread takes"));
}

/// The ring of the published crate.
pub mod upstream {
    ring!(
        upstream_ringal,
        card("upstream RingAl", env!("EPHEMERA_VERSION_UPSTREAM_RINGAL"), "bounded; one thread takes")
    );
}
