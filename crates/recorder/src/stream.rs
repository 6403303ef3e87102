//! A stream: the position in a packet where one thread writes events without a lock.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use crate::format::{self, Base, Clocks, LONGEST, PACKET, PACKET_HEADER, packet};

/// One recorded call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The first byte of the event: the op and the alignment.
    pub(crate) lead: u8,
    /// The address of the block.
    pub(crate) address: u64,
    /// The requested size in bytes, or `None` if the op has no size.
    pub(crate) size: Option<u64>,
}

/// The maximum number of calls from one measured call to the next.
const GAP: u32 = 64;

/// The position in a packet where a thread writes events. In the child of a fork, all fields
/// start as zero, which means that the stream has no packet.
///
/// The fields belong to the holder (I2). While the holder writes, it is marked busy. The recorder
/// then drops and counts the calls of its signal handlers, so no handler touches the stream (I6).
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Stream {
    /// The address of the packet, or null if the stream has none.
    pub(crate) packet: AtomicPtr<u8>,
    /// The offset of the next event in the packet.
    pub(crate) at: AtomicUsize,
    /// The number of the thread that holds the stream; 0 means none.
    pub(crate) holder: AtomicUsize,
    sequence: AtomicU64,
    time: AtomicU64,
    address: AtomicU64,
    /// The number of calls to skip before the next measured call.
    until: AtomicU32,
    /// The link of the list of streams without a holder: the index of the next stream plus one,
    /// or 0.
    pub(crate) next: AtomicU32,
}

/// Returns whether a packet has room for any event at `at`.
#[inline]
fn fits(at: usize) -> bool {
    // A stream that never had a packet has the offset 0, so the subtraction wraps and the stream
    // has no room.
    at.wrapping_sub(PACKET_HEADER) <= PACKET - PACKET_HEADER - LONGEST
}

/// Replaces `old` with `new` in `used`. Returns `false` if `used` has another value, and may then
/// store that value again.
///
/// A signal handler runs before or after this one instruction, so it cannot fork between the
/// comparison and the store. The instruction has no `lock` prefix, because a locked instruction
/// would slow down each event. Without the prefix, a child that executes the instruction at the
/// same moment as its parent may still store an old length. The parent's next event in this packet
/// corrects that length.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn exchange(used: &AtomicU32, old: u32, new: u32) -> bool {
    let found: u32;
    // ORDERING: Release, like every store on x86-64. Pairs with the Acquire of a process that maps
    // the file during the recording. A reader that calls `open` after the recorded process has
    // ended finds all of its stores. Publishes: the event's bytes.
    // SAFETY: the pointer is valid and aligned, and the instruction accesses nothing else. Every
    // other access to the field is atomic.
    unsafe {
        core::arch::asm!(
            "cmpxchg dword ptr [{used}], {new:e}",
            used = in(reg) used.as_ptr(),
            new = in(reg) new,
            inout("eax") old => found,
            options(nostack),
        );
    }
    found == old
}

/// Replaces `old` with `new` in `used`. Returns `false` and changes nothing if `used` has another
/// value.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn exchange(used: &AtomicU32, old: u32, new: u32) -> bool {
    // ORDERING: Release. Pairs with the Acquire of a process that maps the file during the
    // recording. A reader that calls `open` after the recorded process has ended finds all of its
    // stores. Publishes: the event's bytes.
    used.compare_exchange(old, new, Release, Relaxed).is_ok()
}

impl Stream {
    /// Returns the packet and the offset of the next event, or `None` if `thread` does not hold the
    /// stream or the packet is full.
    #[inline]
    fn end(&self, thread: usize) -> Option<(*mut u8, usize)> {
        let packet = self.packet.load(Relaxed);
        let at = self.at.load(Relaxed);
        (fits(at) && self.is_held_by(thread)).then_some((packet, at))
    }

    /// Returns whether `thread` still holds the stream. If so, the values that the caller has
    /// read from the stream are valid.
    ///
    /// If a signal handler forks in the middle of an event, the child finds the stream without a
    /// holder (I3).
    #[inline]
    fn is_held_by(&self, thread: usize) -> bool {
        // ORDERING: SeqCst, as a compiler fence only. Pairs with `restart`, called on this thread
        // in a child. Publishes: nothing; earlier loads stay before the load of `holder`.
        compiler_fence(SeqCst);
        self.holder.load(Relaxed) == thread
    }

    /// Writes one event, with a number from `sequence` and a time since `clock`. Returns `false` if
    /// `thread` does not hold the stream or there is no room.
    #[inline]
    pub(crate) fn write(&self, thread: usize, clock: u64, sequence: &AtomicU64, call: &Call) -> bool {
        let Some((packet, at)) = self.end(thread) else { return false };
        let base = Base {
            sequence: self.sequence.load(Relaxed),
            time: self.time.load(Relaxed),
            address: self.address.load(Relaxed),
        };
        // Relaxed: all additions to one counter have one order. That order agrees with every order
        // of the calls that the program or its allocator enforces (I4).
        let event = Base {
            sequence: sequence.fetch_add(1, Relaxed),
            time: crate::os::ticks_since(clock).max(base.time),
            address: call.address,
        };
        let (bytes, length) = format::encode(call.lead, &base, &event, call.size);
        // If a signal handler forks after this check, parent and child share the packet, and both
        // copy the same bytes. `append` says what happens to the packet's length.
        if !self.is_held_by(thread) {
            return false;
        }
        self.append(thread, packet, at, &bytes[..length]);
        self.sequence.store(event.sequence, Relaxed);
        self.time.store(event.time, Relaxed);
        self.address.store(event.address, Relaxed);
        true
    }

    /// Writes an event that names `thread`, the holder of the stream, as the thread of the
    /// following events. Returns `false` if `thread` does not hold the stream, or if the stream has
    /// no packet with room.
    pub(crate) fn hand_over(&self, thread: u32) -> bool {
        let Some((packet, at)) = self.end(thread as usize).filter(|(packet, _)| !packet.is_null()) else {
            return false;
        };
        let mut bytes = [0; LONGEST];
        bytes[0] = format::lead(format::op::THREAD, 0);
        let length = 1 + format::put(&mut bytes[1..], thread.into());
        if !self.is_held_by(thread as usize) {
            return false;
        }
        self.append(thread as usize, packet, at, &bytes[..length]);
        true
    }

    /// Writes a note of `thread`'s clocks, if the thread holds the stream and there is room.
    pub(crate) fn note_clocks(&self, thread: usize, clocks: &Clocks) {
        self.note(thread, format::encode_clocks(self.time.load(Relaxed), clocks));
    }

    /// Writes a note of the time that the previous event's call spent in the allocator and in the
    /// recorder, both in nanoseconds, if `thread` holds the stream and there is room.
    pub(crate) fn note_took(&self, thread: usize, allocator: u64, recorder: u64) {
        self.note(thread, format::encode_took(allocator, recorder));
    }

    fn note(&self, thread: usize, (bytes, length): ([u8; LONGEST], usize)) {
        // After a fork in a signal handler, a stream may have an offset without a packet.
        if let Some((packet, at)) = self.end(thread).filter(|(packet, _)| !packet.is_null()) {
            self.append(thread, packet, at, &bytes[..length]);
        }
    }

    /// Counts a call by `thread`. Returns whether the recorder measures this call.
    ///
    /// The gaps are uniformly distributed between 1 and [`GAP`] calls, so a loop of the program
    /// cannot decide which of its calls are measured.
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
        // Multiplicative hashing of two values that no program controls: the time and the address
        // of the last event.
        let mixed =
            (self.time.load(Relaxed) ^ self.address.load(Relaxed) >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.until.store((mixed >> 40) as u32 % GAP, Relaxed);
        true
    }

    /// Copies `bytes` of `thread` into the packet at offset `at`, and updates `used` in the
    /// packet's header.
    ///
    /// If a signal handler has forked in the middle of this event, the child still shares the
    /// packet. The child may return from the handler after the parent has written further events.
    /// The child then finds that `used` differs from its value before this event, and does not
    /// change it.
    #[inline]
    fn append(&self, thread: usize, packet: *mut u8, at: usize, bytes: &[u8]) {
        // SAFETY: `at` lies within the packet (I2).
        let end = unsafe { packet.add(at) };
        // SAFETY: the callers checked that the packet has room for the longest event at `at`. Only
        // this thread writes to the packet (I2), or a child that its signal handler forked, which
        // copies the same bytes.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let (old, at) = (at - PACKET_HEADER, at + bytes.len());
        // SAFETY: the packet's header lies at its beginning.
        let used = unsafe { packet.add(packet::USED) };
        // SAFETY: a packet is aligned to four bytes, and so is the field. Every access to it is
        // atomic.
        let used = unsafe { AtomicU32::from_ptr(used.cast()) };
        let (old, new) = (old as u32, (at - PACKET_HEADER) as u32);
        // The load comes first, because a failed exchange stores the value that it read, which
        // could undo a store that the parent makes at the same moment. For the holder, either check
        // fails only if a forked child has stored its length first.
        if (used.load(Relaxed) != old || !exchange(used, old, new)) && self.is_held_by(thread)
            || weakened!("recorder_length_stored")
        {
            // ORDERING: Release. Pairs with the Acquire of a process that maps the file during the
            // recording, as in `exchange`. Publishes: the event's bytes.
            used.store(new, Release);
        }
        self.at.store(at, Relaxed);
    }

    /// Returns the packet and the offset of the next event in it.
    pub(crate) fn place(&self) -> (*mut u8, usize) {
        (self.packet.load(Relaxed), self.at.load(Relaxed))
    }

    /// Returns whether there is room for one more event.
    pub(crate) fn has_room(&self) -> bool {
        // After a fork in a signal handler, a stream may have an offset without a packet.
        !self.packet.load(Relaxed).is_null() && fits(self.at.load(Relaxed))
    }

    /// Begins a new packet, which no other thread uses.
    ///
    /// # Safety
    ///
    /// `packet` must be valid for [`PACKET`] bytes, aligned to four bytes and zeroed. From the
    /// call on, only this stream may use the packet.
    pub(crate) unsafe fn begin(&self, packet: *mut u8, stream: u32, thread: u32, base: &Base) {
        let mut header = [0; PACKET_HEADER];
        header[..4].copy_from_slice(&format::PACKET_MAGIC);
        header[packet::THREAD..][..4].copy_from_slice(&thread.to_le_bytes());
        header[packet::STREAM..][..4].copy_from_slice(&stream.to_le_bytes());
        header[packet::SEQUENCE..][..8].copy_from_slice(&base.sequence.to_le_bytes());
        header[packet::TIME..][..8].copy_from_slice(&base.time.to_le_bytes());
        // SAFETY: the caller passes a packet that is valid for its header.
        unsafe { packet.copy_from_nonoverlapping(header.as_ptr(), PACKET_HEADER) };
        self.sequence.store(base.sequence, Relaxed);
        self.time.store(base.time, Relaxed);
        self.address.store(0, Relaxed);
        self.packet.store(packet, Relaxed);
        self.at.store(PACKET_HEADER, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_a_packet_has_no_room() {
        let stream = Stream::default();
        let call = Call { lead: 1, address: 16, size: Some(1) };
        let sequence = AtomicU64::new(0);
        assert!(!stream.write(0, 0, &sequence, &call));
        assert!(!stream.hand_over(1));
        assert_eq!(sequence.into_inner(), 0, "an event that was not written has no number");
    }

    #[test]
    fn a_stream_writes_only_within_its_packet() {
        let mut words = vec![0_u64; PACKET / 8 + 1];
        words[PACKET / 8] = u64::MAX;
        let stream = Stream::default();
        stream.holder.store(7, Relaxed);
        // SAFETY: the vector has `PACKET` zeroed bytes that nothing else uses. They are aligned to
        // four bytes or more.
        unsafe { stream.begin(words.as_mut_ptr().cast(), 3, 7, &Base::default()) };
        let sequence = AtomicU64::new(0);
        let mut written = 0_u64;
        while stream.write(7, 0, &sequence, &Call { lead: 1, address: !written << 9, size: Some(!written) }) {
            written += 1;
            assert!(
                !stream.write(8, 0, &sequence, &Call { lead: 1, address: 0, size: None }),
                "the stream has another holder"
            );
        }
        assert_eq!(sequence.into_inner(), written);
        assert!(written > 500, "{written}");
        assert!(stream.at.load(Relaxed) <= PACKET);
        assert_eq!(words[PACKET / 8], u64::MAX);
    }

    #[test]
    fn measured_calls_have_varying_gaps() {
        let stream = Stream::default();
        assert!(!stream.is_due(7), "no thread holds the stream");
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
        assert!((calls / 43..calls / 24).contains(&due), "{due}: one call in 32");
        assert!(
            (due / 3..due * 2 / 3).contains(&odd),
            "{odd} of {due}: two alternating calls are both measured"
        );
        assert!(longest <= GAP, "{longest}");
    }
}
