//! `bytes` in two forms: a `BytesMut` for each buffer, and buffers split off one large `BytesMut`.
//! The large `BytesMut` reuses its memory once all parts split off it are dropped.

use core::mem;

use bytes::{Bytes, BytesMut};

use crate::buffers::{Demand, Source, extending};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// The first capacity of the large `BytesMut`, in bytes. It is the largest capacity that the crate
/// remembers for its next allocation.
const LARGE: usize = 64 * 1024;

const fn card(name: &'static str, notes: &'static str) -> Info {
    Info::new(name, env!("EPHEMERA_VERSION_BYTES"), Caps::MAKES_HERE, notes)
}

extending! { BytesMut => Bytes, BytesMut::freeze }

/// A source that creates a `BytesMut` for each buffer.
pub(crate) struct EachBytesMut;

// SAFETY: the crate's safe interface hands out only buffers that do not overlap.
unsafe impl Source for EachBytesMut {
    const INFO: Info = card("BytesMut", "over glibc");
    type Backing = System;
    type Buf = BytesMut;

    fn create(_demand: &Demand) -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesMut> {
        Some(BytesMut::with_capacity(capacity))
    }
}

/// A source that splits buffers off one large `BytesMut`.
pub(crate) struct SplitBytesMut(BytesMut);

// SAFETY: the crate's safe interface hands out only buffers that do not overlap.
unsafe impl Source for SplitBytesMut {
    const INFO: Info = card("BytesMut, split off", "over glibc; cut off a large one, reserve and split");
    type Backing = System;
    type Buf = BytesMut;

    fn create(_demand: &Demand) -> Self {
        Self(BytesMut::with_capacity(LARGE))
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesMut> {
        self.0.reserve(capacity);
        let rest = self.0.split_off(capacity);
        Some(mem::replace(&mut self.0, rest))
    }

    /// Writes the pieces to the start of the large `BytesMut`, and splits them off.
    #[inline(always)]
    unsafe fn raw_grown(
        &mut self,
        first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<BytesMut> {
        self.0.reserve(first);
        pieces.for_each(|piece| self.0.extend_from_slice(piece.as_ref()));
        Some(self.0.split())
    }
}
