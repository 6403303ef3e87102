//! A stream: the end of a chunk that one thread writes to, without locks.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use crate::format::{self, Base, CHUNK, CHUNK_HEAD, Clocks, LONGEST, chunk};

/// What happened to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Op and alignment.
    pub(crate) lead: u8,
    /// Where the block is.
    pub(crate) address: u64,
    /// Its size, for ops that have one.
    pub(crate) size: Option<u64>,
}

/// Most calls from one that is measured to the next.
const GAP: u32 = 64;

/// Where a thread writes. All zeros is a stream without a chunk: what a fork leaves to the child.
///
/// Its fields are the holder's alone (I2). While the holder writes, its thread is busy: a signal
/// handler that calls meanwhile leaves the stream alone, and its call is dropped and counted (I6).
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Stream {
    /// The chunk; null without one.
    pub(crate) chunk: AtomicPtr<u8>,
    /// Where the next event goes, from the chunk's beginning.
    pub(crate) at: AtomicUsize,
    /// Number of the thread that holds the stream; 0 nobody.
    pub(crate) holder: AtomicUsize,
    sequence: AtomicU64,
    time: AtomicU64,
    address: AtomicU64,
    /// Calls until one is measured.
    until: AtomicU32,
    /// The next stream that nobody holds, by its index plus one.
    pub(crate) next: AtomicU32,
}

/// Room that a chunk must have for an event that begins at `at`.
#[inline]
fn fits(at: usize) -> bool {
    // A stream without a chunk stands at 0, a chunk's events begin behind its head.
    at.wrapping_sub(CHUNK_HEAD) <= CHUNK - CHUNK_HEAD - LONGEST
}

impl Stream {
    /// The chunk, and where the next event goes; `None` where the stream is not `thread`'s or has
    /// no room.
    #[inline]
    fn end(&self, thread: usize) -> Option<(*mut u8, usize)> {
        let chunk = self.chunk.load(Relaxed);
        let at = self.at.load(Relaxed);
        (fits(at) && self.is_held_by(thread)).then_some((chunk, at))
    }

    /// Returns whether the thread holds the stream now. If so, what it read from the stream before
    /// is its own.
    ///
    /// Where a signal handler forks, the child finds the stream empty (I3) at any point of an event
    /// that its thread has begun.
    #[inline]
    fn is_held_by(&self, thread: usize) -> bool {
        // ORDERING: SeqCst, of the compiler alone. Pairs with `restart`, called on this thread in a
        // child. Publishes: nothing; the loads before stay before.
        compiler_fence(SeqCst);
        self.holder.load(Relaxed) == thread
    }

    /// Writes one event. Returns whether the stream is `thread`'s and had room.
    #[inline]
    pub(crate) fn write(&self, thread: usize, clock: u64, sequence: &AtomicU64, call: &Call) -> bool {
        let Some((chunk, at)) = self.end(thread) else { return false };
        let base = Base {
            sequence: self.sequence.load(Relaxed),
            time: self.time.load(Relaxed),
            address: self.address.load(Relaxed),
        };
        // Relaxed: all additions to one counter have one order, which agrees with any order that
        // the program or its allocator gave the calls themselves (I4).
        let event = Base {
            sequence: sequence.fetch_add(1, Relaxed),
            time: crate::os::ticks_since(clock).max(base.time),
            address: call.address,
        };
        let (bytes, length) = format::encode(call.lead, &base, &event, call.size);
        // From here on, the child of a fork has the bytes that its parent writes, and may write
        // them too.
        if !self.is_held_by(thread) {
            return false;
        }
        self.append(chunk, at, &bytes[..length]);
        self.sequence.store(event.sequence, Relaxed);
        self.time.store(event.time, Relaxed);
        self.address.store(event.address, Relaxed);
        true
    }

    /// Notes that `thread`, which holds the stream, writes from here on. Returns whether there was
    /// room.
    pub(crate) fn hand_over(&self, thread: u32) -> bool {
        let Some((chunk, at)) = self.end(thread as usize).filter(|(chunk, _)| !chunk.is_null()) else {
            return false;
        };
        let mut bytes = [0; LONGEST];
        bytes[0] = format::lead(format::op::THREAD, 0);
        let length = 1 + format::put(&mut bytes[1..], thread.into());
        if !self.is_held_by(thread as usize) {
            return false;
        }
        self.append(chunk, at, &bytes[..length]);
        true
    }

    /// Notes `thread`'s clocks, where it holds the stream and the chunk has room.
    pub(crate) fn note_clocks(&self, thread: usize, clocks: &Clocks) {
        self.note(thread, format::encode_clocks(self.time.load(Relaxed), clocks));
    }

    /// Notes how many nanoseconds the allocator and the recorder took for the event before, under
    /// the same conditions.
    pub(crate) fn note_took(&self, thread: usize, allocator: u64, recorder: u64) {
        self.note(thread, format::encode_took(allocator, recorder));
    }

    fn note(&self, thread: usize, (bytes, length): ([u8; LONGEST], usize)) {
        // After a fork within a signal handler, a stream may have a place without a chunk.
        if let Some((chunk, at)) = self.end(thread).filter(|(chunk, _)| !chunk.is_null()) {
            self.append(chunk, at, &bytes[..length]);
        }
    }

    /// Counts a call of `thread`; returns whether it is one to be measured.
    ///
    /// The gaps are uniform between 1 and [`GAP`] calls, so that a loop of the program never
    /// decides which of its calls are seen.
    #[inline]
    pub(crate) fn is_due(&self, thread: usize) -> bool {
        let until = self.until.load(Relaxed);
        if until > 0 {
            self.until.store(until - 1, Relaxed);
            return false;
        }
        if self.holder.load(Relaxed) != thread {
            return false;
        }
        // Multiplicative hashing of what no program controls: the time of the last event, and where
        // it was.
        let mixed =
            (self.time.load(Relaxed) ^ self.address.load(Relaxed) >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.until.store((mixed >> 40) as u32 % GAP, Relaxed);
        true
    }

    /// Copies bytes to the end of the chunk and counts them in its head.
    #[inline]
    fn append(&self, chunk: *mut u8, at: usize, bytes: &[u8]) {
        // SAFETY: `at` lies within the chunk (I2).
        let end = unsafe { chunk.add(at) };
        // SAFETY: the chunk has room for the longest event behind `at`, which the callers checked,
        // and it is this thread's (I2).
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let at = at + bytes.len();
        // SAFETY: the chunk's head lies at its beginning.
        let used = unsafe { chunk.add(chunk::USED) };
        // SAFETY: the field is aligned to four, since chunks begin at pages, and is accessed as an
        // atomic alone.
        let used = unsafe { AtomicU32::from_ptr(used.cast()) };
        // ORDERING: Release. Pairs with the Acquire of whoever maps the file while it is written;
        // who reads it later, by `open`, finds all stores of the dead process. Publishes: the
        // event's bytes.
        used.store((at - CHUNK_HEAD) as u32, Release);
        self.at.store(at, Relaxed);
    }

    /// Returns the chunk, and where in it the next event goes.
    pub(crate) fn place(&self) -> (*mut u8, usize) {
        (self.chunk.load(Relaxed), self.at.load(Relaxed))
    }

    /// Whether there is room for one more event.
    pub(crate) fn has_room(&self) -> bool {
        // After a fork within a signal handler, a stream may have a place without a chunk.
        !self.chunk.load(Relaxed).is_null() && fits(self.at.load(Relaxed))
    }

    /// Begins a new chunk, which nobody else knows.
    ///
    /// # Safety
    ///
    /// `chunk` is valid for [`CHUNK`] bytes, aligned to a page, zeroed, and this stream's from here
    /// on.
    pub(crate) unsafe fn begin(&self, chunk: *mut u8, stream: u32, thread: u32, base: &Base) {
        let mut head = [0; CHUNK_HEAD];
        head[..4].copy_from_slice(&format::CHUNK_MAGIC);
        head[chunk::THREAD..][..4].copy_from_slice(&thread.to_le_bytes());
        head[chunk::STREAM..][..4].copy_from_slice(&stream.to_le_bytes());
        head[chunk::SEQUENCE..][..8].copy_from_slice(&base.sequence.to_le_bytes());
        head[chunk::TIME..][..8].copy_from_slice(&base.time.to_le_bytes());
        // SAFETY: the caller says so.
        unsafe { chunk.copy_from_nonoverlapping(head.as_ptr(), CHUNK_HEAD) };
        self.sequence.store(base.sequence, Relaxed);
        self.time.store(base.time, Relaxed);
        self.address.store(0, Relaxed);
        self.chunk.store(chunk, Relaxed);
        self.at.store(CHUNK_HEAD, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_a_chunk_has_no_room() {
        let stream = Stream::default();
        let call = Call { lead: 1, address: 16, size: Some(1) };
        let sequence = AtomicU64::new(0);
        assert!(!stream.write(0, 0, &sequence, &call));
        assert!(!stream.hand_over(1));
        assert_eq!(sequence.into_inner(), 0, "an event that was not written has no number");
    }

    #[test]
    fn a_chunk_is_filled_and_not_beyond() {
        let mut words = vec![0_u64; CHUNK / 8 + 1];
        words[CHUNK / 8] = u64::MAX;
        let stream = Stream::default();
        stream.holder.store(7, Relaxed);
        // SAFETY: the vector has the bytes, aligned well enough for the head's words, and nobody
        // else uses them.
        unsafe { stream.begin(words.as_mut_ptr().cast(), 3, 7, &Base::default()) };
        let sequence = AtomicU64::new(0);
        let mut written = 0_u64;
        while stream.write(7, 0, &sequence, &Call { lead: 1, address: !written << 9, size: Some(!written) }) {
            written += 1;
            assert!(!stream.write(8, 0, &sequence, &Call { lead: 1, address: 0, size: None }), "not its own");
        }
        assert_eq!(sequence.into_inner(), written);
        assert!(written > 500, "{written}");
        assert!(stream.at.load(Relaxed) <= CHUNK);
        assert_eq!(words[CHUNK / 8], u64::MAX);
    }
    #[test]
    fn calls_to_be_measured_come_at_gaps_that_vary() {
        let stream = Stream::default();
        assert!(!stream.is_due(7), "nobody holds it");
        stream.holder.store(7, Relaxed);
        let (mut due, mut odd, mut last, mut longest) = (0, 0, 0, 0);
        let calls = if cfg!(miri) { 6_400_u32 } else { 64_000 };
        for call in 0..calls {
            stream.time.store(u64::from(call) * 3, Relaxed);
            stream.address.store(u64::from(call % 2) * 64, Relaxed);
            if stream.is_due(7) {
                (due, odd, longest) = (due + 1, odd + call % 2, longest.max(call - last));
                last = call;
            }
        }
        assert!((calls / 43..calls / 24).contains(&due), "{due}: one in 32");
        assert!((due / 3..due * 2 / 3).contains(&odd), "{odd} of {due}: both of two calls in turn are seen");
        assert!(longest <= GAP, "{longest}");
    }
}
