//! S1: one buffer at a time, in three forms. A fixed buffer is written in part and dropped. An
//! extendable buffer grows by many writes. A frozen buffer is shared.

use super::verify;
use crate::buffers::{Buffer, Demand, Source, give, heap};
use crate::workloads::{Cell, StateCell, by_const};

/// The number of bytes written to a fixed buffer.
const WRITTEN: usize = 16;
/// The length, in bytes, of a write into an extendable buffer. It is also the first capacity of
/// that buffer.
const LINE: usize = 64;
/// The number of writes into an extendable buffer.
const LINES: usize = 16;

/// Returns the bytes to write to a buffer. Each tag gives different bytes.
#[inline(always)]
fn mark(tag: u64) -> [u8; WRITTEN] {
    let (low, high) = (u128::from(tag), u128::from(!tag));
    (high << 64 | low).to_le_bytes()
}

/// Writes 16 bytes to a buffer and drops it.
#[inline(always)]
fn write_and_drop<S: Source>(mut buffer: impl Buffer, tag: u64, sum: &mut u64) {
    buffer.write(&mark(tag));
    verify::<S>(&buffer, &mark(tag), sum);
    give(buffer);
}

/// Takes a buffer of `CAPACITY` bytes and passes it to [`share_and_drop`] if `SHARED` is `true`,
/// and to [`write_and_drop`] otherwise, `ops` times.
#[inline(never)]
fn fixed<S: Source, const CAPACITY: usize, const SHARED: bool>(source: &mut S, ops: u64) -> u64 {
    let mut sum = 0;
    for tag in 0..ops {
        // SAFETY: there is one buffer at a time, of the announced size.
        match unsafe { source.take(CAPACITY) } {
            Some(buffer) if SHARED => share_and_drop::<S>(buffer, tag, &mut sum),
            Some(buffer) => write_and_drop::<S>(buffer, tag, &mut sum),
            None if SHARED => share_and_drop::<S>(heap(CAPACITY), tag, &mut sum),
            None => write_and_drop::<S>(heap(CAPACITY), tag, &mut sum),
        }
    }
    sum
}

/// Takes a buffer whose first capacity is 64 bytes, which grows by 16 writes of 64 bytes, and drops
/// it, `ops` times.
#[inline(never)]
fn extend<S: Source>(source: &mut S, ops: u64) -> u64 {
    let mut sum = 0;
    for tag in 0..ops {
        let line = [tag as u8; LINE];
        let lines = (0..LINES).map(|_| &line);
        // SAFETY: there is one buffer at a time, which grows to the announced size.
        if let Some(buffer) = unsafe { source.raw_grown(LINE, lines) } {
            verify::<S>(&buffer, &[tag as u8; LINE * LINES], &mut sum);
            give(buffer);
            continue;
        }
        let mut buffer = heap(LINE);
        (0..LINES).for_each(|_| buffer.extend_from_slice(&line));
        verify::<S>(&buffer, &[tag as u8; LINE * LINES], &mut sum);
        give(buffer);
    }
    sum
}

/// Writes 16 bytes to a buffer, freezes it, clones its handle four times and drops all handles.
///
/// The clones are not in an array, because in some builds the compiler would copy the array on the
/// stack, which costs as much as the clones.
#[inline(always)]
fn share_and_drop<S: Source>(mut buffer: impl Buffer, tag: u64, sum: &mut u64) {
    buffer.write(&mark(tag));
    let frozen = buffer.freeze();
    let (first, second) = (frozen.clone(), frozen.clone());
    let (third, fourth) = (frozen.clone(), frozen.clone());
    give(frozen);
    verify::<S>(&first, &mark(tag), sum);
    give(first);
    verify::<S>(&second, &mark(tag), sum);
    give(second);
    verify::<S>(&third, &mark(tag), sum);
    give(third);
    verify::<S>(&fourth, &mark(tag), sum);
    give(fourth);
}

fn boxed<S: Source>(largest: usize, run: fn(&mut S, u64) -> u64) -> Box<dyn Cell> {
    StateCell::boxed(1, S::create(&Demand::of(1, largest)), run)
}

/// Builds a cell of buffers of this capacity.
///
/// # Panics
///
/// Panics if there is no workload of buffers of this capacity.
pub(crate) fn fixed_cell<S: Source>(capacity: usize) -> Box<dyn Cell> {
    by_const!(capacity, [64, 256, 4096], CAPACITY => boxed::<S>(CAPACITY, fixed::<S, CAPACITY, false>))
}

/// Builds a cell of buffers that grow.
pub(crate) fn extend_cell<S: Source>() -> Box<dyn Cell> {
    boxed::<S>(LINE * LINES, extend::<S>)
}

/// Builds a cell of buffers that are frozen and shared.
pub(crate) fn freeze_cell<S: Source>() -> Box<dyn Cell> {
    boxed::<S>(LINE, fixed::<S, LINE, true>)
}
