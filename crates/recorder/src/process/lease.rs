//! Streams change hands: a thread borrows one for each of its first calls, then has one until it ends, then borrows again.
//!
//! What a thread does behind its last destructor is seen by nobody: the C library frees what a detached thread leaves, and other
//! threads' too. A stream that was leased then would never come back, and so the last calls borrow. A thread that never called
//! before may be so far too, and so the first calls borrow.

use core::ffi::c_void;
use core::ptr::without_provenance;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::{CLOCK, KEY, PROCESS, Process, SEQUENCE, STOPPED, WIPED, clocks};
use crate::format::{Base, Stop};
use crate::lock::Lock;
use crate::os;
use crate::stream::{Call, Stream};
use crate::tls::{self, BUSY, EARLY, ENDED, NONE, Words};

impl Process {
    /// Writes a call of a thread that carries `held`; what it carries from here on.
    pub(super) fn write(&self, held: *const Stream, number: usize, call: &Call) -> *const Stream {
        if self.state.load(Relaxed) == WIPED {
            self.restart();
        }
        if self.state.load(Relaxed) == STOPPED {
            return NONE;
        }
        if held == NONE {
            self.see_the_end();
        }
        if held == ENDED || held.addr() < EARLY {
            self.borrow(number, call);
            return if held == ENDED { ENDED } else { without_provenance(held.addr() + 1) };
        }
        let Some(stream) = self.stream_for(held, number) else { return NONE };
        // A stream of `stream_for` has room.
        stream.write(number, CLOCK.load(Relaxed), &SEQUENCE, call);
        core::ptr::from_ref(stream)
    }

    /// Has `leave` called when this thread ends.
    fn see_the_end(&self) {
        let value = core::ptr::from_ref(self).cast();
        // SAFETY: the key was made by `launch`. The value only has to be not null.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), value) };
    }

    /// Writes one call through a stream that is given back at once; none where the recording stops.
    fn borrow(&self, number: usize, call: &Call) -> Option<()> {
        let stream = self.lease(number)?;
        if !stream.has_room() {
            self.begin(stream, number)?;
        }
        stream.write(number, CLOCK.load(Relaxed), &SEQUENCE, call);
        self.give_back(stream);
        Some(())
    }

    /// A stream with room for the thread, `held` if it is its own.
    fn stream_for(&self, held: *const Stream, number: usize) -> Option<&Stream> {
        // SAFETY: as in `record`.
        let held = if held > BUSY { unsafe { held.as_ref() } } else { None };
        let stream = match held.filter(|stream| stream.holder.load(Relaxed) == number) {
            Some(stream) => stream,
            None => {
                let stream = self.lease(number)?;
                // Where the chunk has no room for a note, the next chunk begins with one.
                stream.note_clocks(number, &clocks::now(None));
                stream
            }
        };
        if !stream.has_room() {
            self.begin(stream, number)?;
        }
        Some(stream)
    }

    /// Gives a stream of the thread's a new chunk.
    fn begin(&self, stream: &Stream, number: usize) -> Option<()> {
        let before = os::thread_processor();
        let chunk = self.claim()?;
        let index = self.index_of(stream);
        let base =
            Base { sequence: SEQUENCE.load(Relaxed), time: os::ticks_since(CLOCK.load(Relaxed)), address: 0 };
        // SAFETY: `claim` gives each chunk once, within the file; a new part of a file reads as zeros.
        unsafe { stream.begin(chunk, index, number as u32, &base) };
        stream.note_clocks(number, &clocks::now(Some(before)));
        Some(())
    }

    fn index_of(&self, stream: &Stream) -> u32 {
        let offset = core::ptr::from_ref(stream).addr() - self.streams.as_ptr().addr();
        (offset / size_of::<Stream>()) as u32
    }

    /// A stream that nobody held, now the thread's.
    fn lease(&self, number: usize) -> Option<&Stream> {
        let stream = self.unheld()?;
        stream.holder.store(number, Relaxed);
        // Where it has no room for that, the next chunk says whose it is.
        stream.hand_over(number as u32);
        Some(stream)
    }

    fn unheld(&self) -> Option<&Stream> {
        let _lock = Lock::take(&self.locked);
        let free = self.free.load(Relaxed);
        if free > 0 {
            let stream = &self.streams[free as usize - 1];
            self.free.store(stream.next.load(Relaxed), Relaxed);
            return Some(stream);
        }
        let made = self.made.load(Relaxed);
        let Some(stream) = self.streams.get(made as usize) else {
            self.stop(Stop::Threads);
            return None;
        };
        self.made.store(made + 1, Relaxed);
        Some(stream)
    }

    fn give_back(&self, stream: &Stream) {
        stream.holder.store(0, Relaxed);
        let _lock = Lock::take(&self.locked);
        stream.next.store(self.free.load(Relaxed), Relaxed);
        self.free.store(self.index_of(stream) + 1, Relaxed);
    }
}

/// What runs at a thread's end: its stream goes to the next thread, and what it calls from here on borrows.
pub(super) unsafe extern "C" fn leave(_value: *mut c_void) {
    let Words { stream: held, number } = tls::get();
    // ORDERING: Acquire. Pairs with the Release in `launch`. Publishes: the process.
    let process = PROCESS.load(Acquire);
    if process.is_null() || held == BUSY {
        return;
    }
    if cfg!(ephemera_weaken = "recorder_stream_kept") {
        return;
    }
    tls::set(Words { stream: ENDED, number });
    if held < BUSY {
        return;
    }
    // SAFETY: as in `record`.
    let process = unsafe { &*process };
    // SAFETY: as in `record`.
    let stream = unsafe { &*held };
    // In the child of a fork nobody holds it.
    if process.state.load(Relaxed) != WIPED && stream.holder.load(Relaxed) == number {
        stream.note_clocks(number, &clocks::now(None));
        process.give_back(stream);
    }
}
