//! Workloads over sources of byte buffers.

pub mod csv;
pub mod handoff;
pub mod http;
pub mod packets;
pub mod single;
pub mod slots;
pub mod straggler;

use super::mix;
use crate::buffers::{Readable, Source};
use crate::tally;
use crate::workloads::rng::Rng;

/// Pieces of a payload begin at this many places, so that neighbours in time differ.
const PLACES: usize = 32;

/// Bytes to write into buffers, made before the loop.
#[derive(Debug)]
pub struct Payload(Box<[u8]>);

impl Payload {
    /// Bytes for pieces of up to `longest`.
    #[must_use]
    pub fn new(seed: u64, longest: usize) -> Self {
        let mut rng = Rng::new(seed, 21);
        Self((0..longest + 8 * PLACES).map(|_| rng.word() as u8).collect())
    }

    /// The piece for a tag.
    #[inline(always)]
    #[must_use]
    pub fn piece(&self, tag: u64, len: usize) -> &[u8] {
        let at = 8 * (tag as usize % PLACES);
        &self.0[at..at + len]
    }
}

/// Bytes of a buffer that a checksum takes, when all were compared.
const SUMMED: usize = 64;

/// In a check run: compares all that a buffer holds with what was written, reports what differs, folds its beginning into `sum`.
#[inline(always)]
fn verify<S: Source>(buffer: &impl Readable, written: &[u8], sum: &mut u64) {
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

/// A number that depends on every byte.
fn digest(buffer: &impl Readable) -> u64 {
    let mut sum = 0xCBF2_9CE4_8422_2325_u64;
    buffer.read(|bytes| {
        for &byte in bytes {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{Buffer, Demand, give};
    use crate::contenders::blocks::System;
    use crate::contenders::buffers::Vectors;
    use crate::tally::Counted;

    #[test]
    fn what_differs_from_what_was_written_is_seen() {
        let mut source = Counted::<Vectors<System>>::create(&Demand::of(1, 64));
        let before = tally::read().damaged;
        // SAFETY: one buffer at a time, as demanded.
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
    fn neighbouring_pieces_differ() {
        let payload = Payload::new(1, 64);
        assert_ne!(payload.piece(0, 64), payload.piece(1, 64));
        assert_eq!(payload.piece(3, 64), payload.piece(3 + PLACES as u64, 64));
    }
}
