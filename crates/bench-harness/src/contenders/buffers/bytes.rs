//! `bytes`: a `BytesMut` for each buffer, and the way its users avoid that: buffers cut off one large `BytesMut`, which
//! takes its memory back once all that was cut off it is gone.

use core::mem;

use bytes::{Bytes, BytesMut};

use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
use crate::card::{Caps, Info, MemoryBy};
use crate::contenders::blocks::System;

/// What one large `BytesMut` begins with: the most that the crate remembers when it makes the next one.
const LARGE: usize = 64 * 1024;

const fn card(name: &'static str, notes: &'static str) -> Info {
    Info {
        name,
        version: env!("EPHEMERA_VERSION_BYTES"),
        caps: Caps { shared_alloc: false, ..Caps::GENERAL },
        memory: MemoryBy::HighWater,
        notes,
    }
}

impl Readable for BytesMut {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(self);
    }
}

impl Readable for Bytes {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(self);
    }
}

impl Buffer for BytesMut {
    type Frozen = Bytes;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline(always)]
    fn freeze(self) -> Bytes {
        Self::freeze(self)
    }
}

impl Growing for BytesMut {
    type Done = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }

    #[inline(always)]
    fn finish(self) -> Self {
        self
    }
}

/// A `BytesMut` for each buffer.
#[derive(Clone, Copy, Debug)]
pub struct EachBytesMut;

// SAFETY: safe code keeps buffers apart.
unsafe impl Source for EachBytesMut {
    const INFO: Info = card("BytesMut", "over glibc");
    type Backing = System;
    type Buf = BytesMut;
    type Growing<'s> = BytesMut;

    fn create(_demand: &Demand) -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesMut> {
        Some(BytesMut::with_capacity(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, first: usize) -> Option<BytesMut> {
        Some(BytesMut::with_capacity(first))
    }
}

/// Buffers cut off one large `BytesMut`.
#[derive(Debug)]
pub struct SplitBytesMut(BytesMut);

/// The large one while it is written.
#[derive(Debug)]
pub struct SplitWriting<'s>(&'s mut BytesMut);

impl Growing for SplitWriting<'_> {
    type Done = BytesMut;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }

    #[inline(always)]
    fn finish(self) -> BytesMut {
        self.0.split()
    }
}

// SAFETY: safe code keeps buffers apart.
unsafe impl Source for SplitBytesMut {
    const INFO: Info = card("BytesMut, split off", "over glibc; cut off a large one, reserve and split");
    type Backing = System;
    type Buf = BytesMut;
    type Growing<'s> = SplitWriting<'s>;

    fn create(_demand: &Demand) -> Self {
        Self(BytesMut::with_capacity(LARGE))
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesMut> {
        self.0.reserve(capacity);
        let rest = self.0.split_off(capacity);
        Some(mem::replace(&mut self.0, rest))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, first: usize) -> Option<SplitWriting<'_>> {
        self.0.reserve(first);
        Some(SplitWriting(&mut self.0))
    }
}
