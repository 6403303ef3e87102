//! S8, producer and consumer: items allocated on one thread and freed on another, in batches over a
//! bounded channel.
//!
//! Batches are vectors that the two threads send back and forth. All batches and the channel's
//! buffer exist before the loop, so the loop itself allocates only items. Over the allocator that
//! does nothing, the loop costs as much as the channel.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::blocks::layout;
use super::buffers::Payload;
use super::crew::{GONE, Mate, Parcel, Travelling, twice};
use super::{Cell, Context, StateCell, buffers, by_const, mix, objects};
use crate::blocks::{Contender, RawAlloc};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::tally;

/// Fills an empty batch with `n` items from `produce`. The tag of an item is its index.
#[inline(never)]
fn fill<I>(batch: &mut Vec<I>, n: usize, produce: &mut impl FnMut(u64) -> I) {
    for tag in 0..n as u64 {
        batch.push(produce(tag));
    }
}

/// Empties a batch and passes each item with its tag to `consume`.
#[inline(never)]
fn empty<I>(batch: &mut Vec<I>, consume: &mut impl FnMut(I, u64)) {
    for (tag, item) in batch.drain(..).enumerate() {
        consume(item, tag as u64);
    }
}

/// Builds a cell with a producer on this thread, and starts a consumer on `cpu`. The contender must
/// let any thread free items. A batch has `n` items, and the channel holds at most `in_flight`
/// batches. `produce` makes the item for a tag. `consume` folds an item into a checksum and frees
/// it.
fn handing_over<I: 'static>(
    produce: impl FnMut(u64) -> I + 'static,
    n: usize,
    in_flight: usize,
    cpu: Option<usize>,
    mut consume: impl FnMut(I, u64, &mut u64) + Send + 'static,
) -> Box<dyn Cell> {
    let (full, arriving) = sync_channel::<Parcel>(in_flight);
    let (back, free) = sync_channel::<Parcel>(in_flight + 2);
    for _ in 0..in_flight + 2 {
        // The channel has room for all batches, and its other end is live, so the send succeeds.
        let _ = back.send(Travelling(Box::new(Vec::<I>::with_capacity(n))));
    }
    let mate = Mate::new(cpu, move || {
        move |units| {
            let mut sum = 0;
            for _ in 0..units {
                let Ok(parcel) = arriving.recv() else { break };
                let mut batch = parcel.open::<Vec<I>>();
                empty(&mut batch, &mut |item, tag| consume(item, tag, &mut sum));
                if back.send(Travelling(batch)).is_err() {
                    break;
                }
            }
            sum
        }
    });
    // These fields are dropped in order. The consumer's loop ends when `full` is dropped, so the
    // drop of `mate` can join the thread. The contender, which `produce` owns, outlives the
    // channels and the thread.
    StateCell::boxed(n, (full, mate, free, produce, n), |(full, mate, free, produce, n), units| {
        mate.order(units);
        for _ in 0..units {
            let mut batch = free.recv().expect(GONE).open::<Vec<I>>();
            fill(&mut batch, *n, produce);
            full.send(Travelling(batch)).expect(GONE);
        }
        mix(0, mate.answer())
    })
}

/// The size of a block, in bytes.
const BLOCK: usize = 64;

/// Creates a cell that hands over blocks, each with its tag in the first word.
fn blocks_over<C: Contender>(n: usize, in_flight: usize, cpu: Option<usize>) -> Box<dyn Cell> {
    let mut alloc = C::create();
    alloc.expect_live((in_flight + 2) * n * BLOCK);
    let alloc = Travelling(Arc::new(alloc));
    let theirs = alloc.clone();
    let produce = move |tag| {
        // SAFETY: the size is not zero.
        let block = unsafe { alloc.0.by_ref().alloc(layout(BLOCK, 8)) };
        // SAFETY: the block is aligned to 8 bytes and has room for a word. The store is atomic
        // because the allocator that does nothing returns overlapping blocks.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        word.store(tag, Relaxed);
        block
    };
    handing_over(produce, n, in_flight, cpu, move |block: *mut u8, tag, sum| {
        let theirs = &theirs;
        // SAFETY: the block is aligned to eight, has room for a word, and was written.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        let word = word.load(Relaxed);
        if C::Ref::<'_>::CHECKED && word != tag {
            tally::damaged();
        }
        *sum = sum.wrapping_add(word);
        // SAFETY: the producer has the same contender, which frees on any thread. The block was
        // allocated with this layout and has left its batch.
        unsafe { theirs.0.by_ref().dealloc(block, layout(BLOCK, 8)) };
    })
}

/// Builds a cell whose batches have `n` blocks, with at most `in_flight` batches in the channel.
pub(super) fn blocks<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    blocks_over::<C>(n, in_flight, context.second_cpu)
}

/// Builds a cell of two pairs of threads, with the producers on one processor and the consumers on
/// another.
pub(super) fn pairs_of_blocks<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let cpu = context.second_cpu;
    twice(move || blocks_over::<C>(n, in_flight, cpu))
}

fn objects_over<T: Object, P: RawPool<T>>(
    pool: Travelling<Arc<P>>,
    n: usize,
    in_flight: usize,
    cpu: Option<usize>,
) -> Box<dyn Cell> {
    let theirs = pool.clone();
    // SAFETY: the consumer drops the object before the pool ends.
    let produce = move |tag| unsafe { pool.0.put(T::new(tag)) };
    handing_over(produce, n, in_flight, cpu, move |handle: P::Handle, tag, sum| {
        let theirs = &theirs;
        // SAFETY: `theirs` is the producer's pool, which made the object with this tag, and the
        // object is live.
        unsafe { objects::verify::<T, P>(&theirs.0, &handle, tag, sum) };
        // SAFETY: this pool returned the handle, and the object is live.
        *sum = sum.wrapping_add(unsafe { theirs.0.look(&handle, T::ends) }.0);
        // SAFETY: this pool returned the handle, and any thread may drop it.
        unsafe { theirs.0.take(handle) };
    })
}

/// Makes a pool for at most `most` live objects.
fn pool<T: Object, M: Maker>(most: usize) -> Travelling<Arc<impl RawPool<T>>> {
    let mut pool = M::make::<T>(most);
    pool.expect_live(most);
    Travelling(Arc::new(pool))
}

/// Builds a cell whose batches have `n` objects of `words` words, with at most `in_flight` batches
/// in the channel.
pub(super) fn objects<M: Maker>(
    n: usize,
    words: usize,
    in_flight: usize,
    context: &Context,
) -> Box<dyn Cell> {
    let (most, cpu) = ((in_flight + 2) * n, context.second_cpu);
    by_const!(words, [4, 5], WORDS => {
        let pool = pool::<WordObject<WORDS>, M>(most);
        objects_over::<WordObject<WORDS>, _>(pool, n, in_flight, cpu)
    })
}

/// Builds a cell of two pairs of threads that share one pool. The producers run on one processor,
/// and the consumers on the other.
pub(super) fn pairs_of_objects<M: Maker>(
    n: usize,
    words: usize,
    in_flight: usize,
    context: &Context,
) -> Box<dyn Cell> {
    let (most, cpu) = (2 * (in_flight + 2) * n, context.second_cpu);
    by_const!(words, [4], WORDS => {
        let pool = pool::<WordObject<WORDS>, M>(most);
        twice(move || objects_over::<WordObject<WORDS>, _>(pool, n, in_flight, cpu))
    })
}

/// Builds a cell whose batches have `n` buffers of `size` bytes, with at most `in_flight` batches
/// in the channel.
pub(super) fn buffers<S: Source>(
    n: usize,
    size: usize,
    in_flight: usize,
    context: &Context,
) -> Box<dyn Cell> {
    let mut source = S::create(&Demand::of((in_flight + 2) * n, size));
    let payload = Arc::new(Payload::new(context.seed, size));
    let theirs = Arc::clone(&payload);
    // SAFETY: the source was made for all batches, and the channel keeps their order.
    let produce = move |tag| unsafe { source.filled([payload.piece(tag, size)]) };
    let consume = move |buffer: OrHeap<S::Buf>, tag, sum: &mut u64| {
        buffers::verify::<S>(&buffer, theirs.piece(tag, size), sum);
        // A timed run reads only the first and the last byte. If the consumer read all bytes, the
        // table would compare how fast a processor fetches another processor's writes.
        buffer.read(|bytes| {
            let ends = bytes.first().zip(bytes.last());
            let (first, last) = ends.map_or((0, 0), |(&first, &last)| (u64::from(first), u64::from(last)));
            *sum = sum.wrapping_add(first << 8 | last);
        });
        give(buffer);
    };
    handing_over(produce, n, in_flight, context.second_cpu, consume)
}
