//! Models `ring-alloc`, to compute how many bytes its chunks would hold for the trace.
//!
//! The model has chunks, fronts and empty chunks, but no addresses. It has two classes of blocks.
//! Each thread fills its front chunk of each class from the start. A chunk is reusable when all its
//! blocks are freed, and a thread keeps up to four empty chunks of each class. The sizes come from
//! `ring_alloc`'s geometry.
#![forbid(unsafe_code)]

use super::grown;
use ephemera_recorder::Id;

/// The largest block and the chunk size of each class, in bytes.
const GEOMETRY: [(u64, u64); 2] = [(2 << 10, 32 << 10), (64 << 10, 256 << 10)];
const HEADER: u64 = 128;
/// The maximum number of empty chunks of each class that a thread keeps. The model ignores the
/// 2 MiB that a thread of `OneRingAlloc` may keep in a hand-over.
const KEPT: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct ModelChunk {
    class: u8,
    thread: u32,
    live: u32,
    used: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ModelThread {
    /// The index of the front chunk of each class.
    fronts: [Option<u32>; 2],
    empties: [u32; 2],
}

/// The chunks of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingModel {
    chunks: Vec<ModelChunk>,
    unused: Vec<u32>,
    threads: Vec<ModelThread>,
    /// For each block: the index of its chunk, or `None` for a large block; its offset in the
    /// chunk; its size in bytes.
    places: Vec<(Option<u32>, u64, u64)>,
    held: u64,
    /// The peak of the held bytes.
    pub(crate) peak: u64,
}

impl RingModel {
    /// Adds an allocated block to a chunk of its thread. A large block only adds its size to the
    /// held bytes.
    pub(crate) fn born(&mut self, id: Id, thread: u32, size: u64, align: u64) {
        let class = GEOMETRY.iter().position(|(most, _)| size <= *most && align <= 512);
        let place = match class {
            None => {
                self.hold(size);
                (None, 0, size)
            }
            Some(class) => self.place(class, thread as usize, size.max(1), align.max(1)),
        };
        *grown(&mut self.places, id as usize) = place;
    }

    fn hold(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
        self.peak = self.peak.max(self.held);
    }

    fn place(&mut self, class: usize, thread: usize, size: u64, align: u64) -> (Option<u32>, u64, u64) {
        let room = GEOMETRY[class].1 - HEADER;
        let front = grown(&mut self.threads, thread).fronts[class];
        if let Some(chunk) = front.map(|front| &mut self.chunks[front as usize]) {
            let at = chunk.used.next_multiple_of(align);
            if at + size <= room {
                chunk.used = at + size;
                chunk.live += 1;
                return (front, at, size);
            }
        }
        let empties = &mut self.threads[thread].empties[class];
        if *empties > 0 {
            *empties -= 1;
        } else {
            self.hold(GEOMETRY[class].1);
        }
        let chunk = ModelChunk { class: class as u8, thread: thread as u32, live: 1, used: size };
        let index = self.unused.pop().unwrap_or(self.chunks.len() as u32);
        *grown(&mut self.chunks, index as usize) = chunk;
        self.threads[thread].fronts[class] = Some(index);
        (Some(index), 0, size)
    }

    pub(crate) fn gone(&mut self, id: Id) {
        let (chunk, at, size) = self.places[id as usize];
        let Some(index) = chunk else {
            self.held = self.held.saturating_sub(size);
            return;
        };
        let chunk = &mut self.chunks[index as usize];
        chunk.live -= 1;
        if at + size == chunk.used {
            chunk.used = at;
        }
        if chunk.live > 0 {
            return;
        }
        chunk.used = 0;
        let (class, thread) = (usize::from(chunk.class), chunk.thread as usize);
        let thread = &mut self.threads[thread];
        if thread.fronts[class] == Some(index) {
            return;
        }
        self.unused.push(index);
        if thread.empties[class] < KEPT {
            thread.empties[class] += 1;
        } else {
            self.held = self.held.saturating_sub(GEOMETRY[class].1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lives_stay_in_one_chunk() {
        let mut rings = RingModel::default();
        for _ in 0..100_000 {
            rings.born(0, 1, 100, 8);
            rings.gone(0);
        }
        assert_eq!(rings.peak, 32 << 10);
    }

    #[test]
    fn a_ring_of_a_queue_takes_little_more_than_the_live_blocks() {
        let mut rings = RingModel::default();
        for i in 0..1_000_000_u32 {
            if i >= 1000 {
                rings.gone(i % 1000);
            }
            rings.born(i % 1000, 1, 128, 16);
        }
        assert!(rings.peak <= 6 * (32 << 10), "{}", rings.peak);
    }

    #[test]
    fn a_block_that_stays_holds_its_chunk() {
        let mut rings = RingModel::default();
        for stays in 0..100 {
            rings.born(stays, 1, 16, 16);
            // Together, these blocks are larger than a chunk, so the next long-lived block lies in
            // another chunk.
            let traffic = 1000..3100;
            traffic.clone().for_each(|id| rings.born(id, 1, 16, 16));
            traffic.for_each(|id| rings.gone(id));
        }
        let chunks = rings.held / (32 << 10);
        assert!((100..=102).contains(&chunks), "{chunks}");
    }

    #[test]
    fn a_freed_large_block_no_longer_counts() {
        let mut rings = RingModel::default();
        rings.born(0, 1, 1 << 20, 16);
        rings.gone(0);
        rings.born(0, 1, 1 << 20, 16);
        assert_eq!((rings.peak, rings.held), (1 << 20, 1 << 20));
    }
}
