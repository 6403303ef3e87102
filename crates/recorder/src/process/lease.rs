//! Leases streams to threads. A thread borrows a stream for each of its first calls, then keeps one
//! stream until the thread ends, and then borrows again.
//!
//! After a thread's last destructor, the recorder has no hook to return a stream, but the thread
//! may still call `free`. The C library does so for memory of this thread, if the thread is
//! detached, and for memory of threads that ended earlier. If the thread leased a stream for such a
//! call, the stream would never return to the list, so the thread borrows one instead. A thread
//! also borrows a stream for each of its first calls, because these calls may already come after
//! its last destructor.

use core::ffi::c_void;
use core::ptr::without_provenance;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::{CLOCK, KEY, PROCESS, Recording, SEQUENCE, STOPPED, WIPED};
use crate::file;
use crate::format::{Base, Stop};
use crate::lock::Lock;
use crate::os;
use crate::stream::{Call, Stream};
use crate::tls::{self, BUSY, EARLY, ENDED, NONE, ThreadWords};

impl Recording {
    /// Writes a call of the thread `number`, or counts it as dropped unless the recording has
    /// ended. `held` is the thread's [`ThreadWords::stream`], whose new value the function returns.
    pub(super) fn write(&self, held: *const Stream, number: usize, call: &Call) -> *const Stream {
        // ORDERING: Acquire. Pairs with the Release in `restart`: this thread sees the child's
        // file.
        if self.state.load(Acquire) == WIPED {
            self.restart();
        }
        // ORDERING: Acquire. Pairs with the Release in `stop`: this thread's later events are
        // beyond the end of the trace.
        if self.state.load(Acquire) == STOPPED {
            return NONE;
        }
        if held == NONE {
            self.register_leave();
        }
        let borrows = held == ENDED || held.addr() < EARLY;
        let written =
            if borrows { self.borrow(number, call).map(|()| held) } else { self.lend(held, number, call) };
        match written {
            Some(_) if held == ENDED => ENDED,
            Some(_) if borrows => without_provenance(held.addr() + 1),
            Some(stream) => stream,
            None => {
                // After a stop, the header already says that calls are missing.
                // ORDERING: Acquire. Pairs with the Release in `stop`: this thread's later
                // events are beyond the end of the trace.
                if self.state.load(Acquire) != STOPPED {
                    self.drop_call();
                }
                if held == ENDED { ENDED } else { NONE }
            }
        }
    }

    /// Writes one call through a stream that the thread leases until the thread ends. Returns the
    /// stream, or `None` if the call was not written.
    fn lend(&self, held: *const Stream, number: usize, call: &Call) -> Option<*const Stream> {
        let stream = self.stream_for(held, number)?;
        // The stream has room, so `write` fails only if the thread does not hold the stream: a
        // signal handler has forked, and this is the child.
        let written = stream.write(number, CLOCK.load(Relaxed), &SEQUENCE, call);
        written.then_some(core::ptr::from_ref(stream))
    }

    /// Registers `leave` to run at the end of this thread.
    fn register_leave(&self) {
        let value = core::ptr::from_ref(self).cast();
        // SAFETY: `prepare` created the key. Any value other than null is suitable.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), value) };
    }

    /// Borrows a stream for one call: leases a stream, writes the call, and returns the stream to
    /// the list. Returns `None` if the call was not written.
    fn borrow(&self, number: usize, call: &Call) -> Option<()> {
        let stream = self.with_room(self.lease(number)?, number)?;
        let written = stream.write(number, CLOCK.load(Relaxed), &SEQUENCE, call);
        self.return_stream(stream);
        written.then_some(())
    }

    /// Returns a stream with room: `held` if the thread still holds it, and otherwise a newly
    /// leased one. Returns `None` if no stream is free, or if the stream gets no packet.
    fn stream_for(&self, held: *const Stream, number: usize) -> Option<&Stream> {
        // SAFETY: every value above `BUSY` is the address of a stream, and streams are never
        // unmapped (I1).
        let held = if held > BUSY { unsafe { held.as_ref() } } else { None };
        let stream = match held.filter(|stream| stream.holder.load(Relaxed) == number) {
            Some(stream) => stream,
            None => {
                let stream = self.lease(number)?;
                // If the packet has no room for this note, the next packet begins with one.
                self.note_clocks_now(stream, number);
                stream
            }
        };
        self.with_room(stream, number)
    }

    /// Returns `stream`, which the thread holds, after making room for an event. If the stream gets
    /// no packet, returns it to the list, and returns `None`.
    fn with_room<'a>(&'a self, stream: &'a Stream, number: usize) -> Option<&'a Stream> {
        if stream.has_room() || self.begin(stream, number).is_some() {
            return Some(stream);
        }
        self.return_stream(stream);
        None
    }

    /// Gives a stream of the thread a new packet. Returns `None` if the kernel refuses the lock, or
    /// if there is no packet.
    ///
    /// The lock blocks signal handlers until the packet has its header. Otherwise, if a handler
    /// forked, the child would write its own header into the parent's packet.
    fn begin(&self, stream: &Stream, number: usize) -> Option<()> {
        let lock = Lock::take(&self.locked)?;
        let before = self.may_call(&lock).then(os::thread_processor);
        let packet = self.claim(&lock)?;
        let index = self.index_of(stream);
        let filled = stream.packet.load(Relaxed);
        let base =
            Base { sequence: SEQUENCE.load(Relaxed), time: os::ticks_since(CLOCK.load(Relaxed)), address: 0 };
        // SAFETY: `claim` returns each packet once: mapped, aligned to 4 KiB, and with space on
        // the disk. A new part of a file reads as zeros.
        unsafe { stream.begin(packet, index, number as u32, &base) };
        // SAFETY: the stream, the only one with this packet, has just moved to the new one.
        unsafe { file::release(filled) };
        self.note_clocks(stream, number, before, &lock);
        Some(())
    }

    fn index_of(&self, stream: &Stream) -> u32 {
        let offset = core::ptr::from_ref(stream).addr() - self.streams.as_ptr().addr();
        (offset / size_of::<Stream>()) as u32
    }

    /// Leases a stream that no thread holds. If all streams are held, ends the recording and
    /// returns `None`.
    fn lease(&self, number: usize) -> Option<&Stream> {
        let stream = self.unheld()?;
        stream.holder.store(number, Relaxed);
        // If the packet has no room for the thread's number, the next packet's header contains the
        // number.
        stream.hand_over(number as u32);
        Some(stream)
    }

    fn unheld(&self) -> Option<&Stream> {
        let link_of = |index: u32| self.streams[index as usize].next.load(Relaxed);
        if let Some(index) = self.free.pop(link_of) {
            return self.streams.get(index as usize);
        }
        let most = self.streams.len() as u32;
        let mut made = self.made.load(Relaxed);
        while made < most {
            match self.made.compare_exchange_weak(made, made + 1, Relaxed, Relaxed) {
                Ok(_) => return self.streams.get(made as usize),
                Err(now) => made = now,
            }
        }
        self.stop(Stop::Threads);
        None
    }

    fn return_stream(&self, stream: &Stream) {
        stream.holder.store(0, Relaxed);
        self.free.push(self.index_of(stream), |link| stream.next.store(link, Relaxed));
    }
}

/// Runs at the end of a thread. Returns the thread's stream to the list, and makes the thread
/// borrow a stream for each later call.
pub(super) unsafe extern "C" fn leave(_value: *mut c_void) {
    let ThreadWords { stream: held, number } = tls::get();
    // ORDERING: Acquire. Pairs with the Release in `prepare`: this thread sees the recording.
    let process = PROCESS.load(Acquire);
    if process.is_null() || held == BUSY {
        return;
    }
    if weakened!("recorder_stream_kept") {
        return;
    }
    tls::set_stream(ENDED);
    if held < BUSY {
        return;
    }
    // SAFETY: a published recording is never unmapped (I1).
    let process = unsafe { &*process };
    // SAFETY: every value above `BUSY` is the address of a stream, and streams are never unmapped
    // (I1).
    let stream = unsafe { &*held };
    // In the child of a fork, the stream is zeroed and has no holder.
    if process.state.load(Relaxed) != WIPED && stream.holder.load(Relaxed) == number {
        process.note_clocks_now(stream, number);
        process.return_stream(stream);
    }
}
