//! Workloads over sources of byte buffers.

pub(crate) mod csv;
pub(crate) mod http;
pub(crate) mod packets;
pub(crate) mod single;

use rand::Rng;

use super::slots::{PLACES as DRAWN, SIZES, SizeSpread, Slots};
use super::stock::{Lasting, Stock};
use super::stragglers::{self, WINDOW, most_late};
use super::{Cell, Context, FINGERPRINT, draws, fingerprint, mix};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::tally;
use crate::workloads::draws::stream;

/// The number of offsets at which pieces of a payload start. Consecutive pieces start at different
/// offsets, so they differ.
const PLACES: usize = 32;

/// The bytes that a workload writes to buffers, created before its loop starts.
pub(crate) struct Payload(Box<[u8]>);

impl Payload {
    /// Creates the bytes for pieces of up to `longest` bytes.
    pub(crate) fn new(seed: u64, longest: usize) -> Self {
        let mut rng = stream(seed, 21);
        Self((0..longest + 8 * PLACES).map(|_| rng.next_u64() as u8).collect())
    }

    /// Returns the piece of `len` bytes for a tag.
    #[inline(always)]
    pub(crate) fn piece(&self, tag: u64, len: usize) -> &[u8] {
        let at = 8 * (tag as usize % PLACES);
        &self.0[at..at + len]
    }
}

/// The number of bytes at the start of a buffer that go into the checksum. The comparison covers
/// all bytes.
const SUMMED: usize = 64;

/// In a counted run, compares all bytes of a buffer with the written bytes, counts a difference as
/// damage, and folds the first bytes into `sum`.
#[inline(always)]
pub(super) fn verify<S: Source>(buffer: &impl Readable, written: &[u8], sum: &mut u64) {
    if S::CHECKED {
        let mut rest = written;
        let mut same = true;
        let mut left = SUMMED;
        buffer.read(|bytes| {
            same &= rest.starts_with(bytes);
            rest = rest.get(bytes.len()..).unwrap_or_default();
            let taken = bytes.len().min(left);
            left -= taken;
            bytes[..taken].iter().for_each(|&byte| *sum = mix(*sum, u64::from(byte)));
        });
        if !same || !rest.is_empty() {
            tally::damaged();
        }
        *sum = mix(*sum, written.len() as u64);
    }
}

/// Returns a number that depends on every byte of a buffer.
fn digest(buffer: &impl Readable) -> u64 {
    let mut sum = FINGERPRINT;
    buffer.read(|bytes| sum = fingerprint(sum, bytes));
    sum
}

/// A source as the stock of a workload that is generic over stocks.
struct BufferStock<S> {
    payload: Payload,
    source: S,
}

impl<S: Source> BufferStock<S> {
    fn new(demand: &Demand, seed: u64) -> Self {
        Self { payload: Payload::new(seed, demand.largest), source: S::create(demand) }
    }
}

impl<S: Source> Stock for BufferStock<S> {
    const SIZED: bool = true;
    type Item = OrHeap<S::Buf>;

    #[inline(always)]
    unsafe fn take(&mut self, tag: u64, size: u16) -> OrHeap<S::Buf> {
        // SAFETY: the caller keeps the live buffers within the announced demand, and drops all of
        // them on this thread.
        unsafe { self.source.filled([self.payload.piece(tag, usize::from(size))]) }
    }

    #[inline(always)]
    unsafe fn verify(&self, buffer: &OrHeap<S::Buf>, tag: u64, size: u16, sum: &mut u64) {
        verify::<S>(buffer, self.payload.piece(tag, usize::from(size)), sum);
    }

    #[inline(always)]
    unsafe fn free(&mut self, buffer: OrHeap<S::Buf>, _size: u16) {
        give(buffer);
    }
}

/// The number of live buffers in S3.
pub(crate) const SLOTS: u16 = 1024;

/// The distribution of the sizes in S3.
pub(crate) const SPREAD: SizeSpread = SizeSpread::InverseSquare(4, 32_768);

/// Returns an upper bound on the number of bytes that are live at once in S3. The bound counts each
/// new buffer together with the buffer that it replaces.
fn most_bytes(seed: u64) -> usize {
    let sizes = SPREAD.sizes(seed);
    let places = draws::places::<DRAWN>(seed, SLOTS);
    let mut held = [0; SLOTS as usize];
    let (mut bytes, mut most) = (0, 0);
    // The loop fills all slots, then covers one common period of both tables.
    for at in 0..SIZES * DRAWN / 64 + held.len() {
        let size = usize::from(sizes[at % SIZES]);
        let place = if at < held.len() { at } else { usize::from(places[at % DRAWN]) };
        most = most.max(bytes + size);
        bytes += size;
        bytes -= core::mem::replace(&mut held[place], size);
    }
    most
}

/// Builds a cell of S3 with 1,024 buffers. They are freed in random order, so a ring refuses some
/// of the requests. The heap serves these requests, and the table shows their share.
pub(crate) fn slots<S: Source>(context: &Context) -> Box<dyn Cell> {
    let count = usize::from(SLOTS);
    let demand = Demand { largest: 32_768, buffers: count + 1, bytes: most_bytes(context.seed) };
    let stock = BufferStock::<S>::new(&demand, context.seed);
    Box::new(Lasting::new(stock, |stock| Slots::fill(stock, context.seed, SLOTS, SPREAD, count)))
}

/// Builds a cell of S6. One buffer in `one_in` is a straggler, or none if `one_in` is 0.
pub(crate) fn stragglers<S: Source>(one_in: usize, context: &Context) -> Box<dyn Cell> {
    let demand = Demand::of(WINDOW + 1 + most_late(one_in), usize::from(stragglers::SIZES.1));
    stragglers::cell(BufferStock::<S>::new(&demand, context.seed), context.seed, one_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{Buffer, Demand, give};
    use crate::contenders::blocks::System;
    use crate::contenders::buffers::Vectors;
    use crate::tally::Counted;

    #[test]
    fn changed_contents_are_detected() {
        let mut source = Counted::<Vectors<System>>::create(&Demand::of(1, 64));
        let before = tally::read().damaged;
        // SAFETY: there is one buffer at a time, of the announced size.
        let mut buffer = unsafe { source.take(64) }.expect("a vector is not bounded");
        buffer.write(b"what was written");
        let mut sum = 0;
        verify::<Counted<Vectors<System>>>(&buffer, b"what was written", &mut sum);
        assert_eq!(tally::read().damaged, before);
        verify::<Counted<Vectors<System>>>(&buffer, b"what was wrotten", &mut sum);
        verify::<Counted<Vectors<System>>>(&buffer, b"what was written and more", &mut sum);
        verify::<Counted<Vectors<System>>>(&buffer, b"what was", &mut sum);
        assert_eq!(tally::read().damaged, before + 3);
        give(buffer);
    }

    #[test]
    fn consecutive_pieces_differ() {
        let payload = Payload::new(1, 64);
        assert_ne!(payload.piece(0, 64), payload.piece(1, 64));
        assert_eq!(payload.piece(3, 64), payload.piece(3 + PLACES as u64, 64));
    }
}
