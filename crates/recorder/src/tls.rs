//! The two words of each thread: its stream and its number.
//!
//! On x86-64, they are at a constant offset from the thread pointer (the model "initial exec"), so
//! access needs no call. With the default model of a library, code asks the dynamic linker for
//! their address. The linker may allocate, which would call `malloc` recursively. On other
//! processors and under Miri, the words are a `const` thread-local without a destructor.

use core::ptr::{null, without_provenance};

use crate::stream::Stream;

/// The two words that the recorder keeps for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ThreadWords {
    /// The thread's stream, or a value in its place: the number of calls for which the thread has
    /// borrowed a stream, up to [`EARLY`]; [`ENDED`]; or [`BUSY`].
    pub(crate) stream: *const Stream,
    /// The thread's number; 0 until the thread has one.
    pub(crate) number: usize,
}

/// The value in place of a stream before the thread's first call, and after a call for which the
/// thread got no stream.
pub(crate) const NONE: *const Stream = null();

/// The number of calls for which a thread borrows a stream before it leases one.
pub(crate) const EARLY: usize = 8;

/// The value in place of a stream after the recorder has seen the thread's end.
pub(crate) const ENDED: *const Stream = without_provenance(EARLY + 1);

/// The value in place of a stream while the recorder runs on the thread. A call that finds this
/// value comes from a signal handler, or from the recorder itself. Streams have higher addresses.
pub(crate) const BUSY: *const Stream = without_provenance(EARLY + 2);

const _: () = assert!(EARLY + 2 < align_of::<Stream>(), "no stream has such a low address");

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod place {
    use super::{BUSY, Stream, ThreadWords};
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.ephemera_recorder_words,\"awT\",@nobits",
        ".balign 16",
        ".globl ephemera_recorder_words",
        ".hidden ephemera_recorder_words",
        ".type ephemera_recorder_words, @object",
        ".size ephemera_recorder_words, 16",
        "ephemera_recorder_words:",
        ".zero 16",
        ".popsection",
    );

    #[inline(always)]
    pub(crate) fn get() -> ThreadWords {
        let (stream, number);
        // SAFETY: the words belong to this thread and are initialised to zero, and the loader
        // places them before any code runs.
        unsafe {
            asm!(
                "mov {number}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "mov {stream}, qword ptr fs:[{number}]",
                "mov {number}, qword ptr fs:[{number} + 8]",
                stream = out(reg) stream,
                number = out(reg) number,
                options(nostack, readonly, preserves_flags),
            );
        }
        ThreadWords { stream, number }
    }

    #[inline(always)]
    pub(crate) fn set_stream(stream: *const Stream) {
        // SAFETY: the words belong to this thread, and nothing has a reference to them.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "mov qword ptr fs:[{place}], {stream}",
                place = out(reg) _,
                stream = in(reg) stream,
                options(nostack, preserves_flags),
            );
        }
    }

    pub(crate) fn set_number(number: usize) {
        // SAFETY: the words belong to this thread, and nothing has a reference to them.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "mov qword ptr fs:[{place} + 8], {number}",
                place = out(reg) _,
                number = in(reg) number,
                options(nostack, preserves_flags),
            );
        }
    }

    pub(crate) fn take() -> ThreadWords {
        let mut stream = BUSY;
        // SAFETY: the words belong to this thread, and nothing has a reference to them.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "xchg qword ptr fs:[{place}], {stream}",
                place = out(reg) _,
                stream = inlateout(reg) stream,
                options(nostack, preserves_flags),
            );
        }
        ThreadWords { stream, number: get().number }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod place {
    use super::{BUSY, NONE, Stream, ThreadWords};
    use core::cell::Cell;
    use core::sync::atomic::Ordering::SeqCst;
    use core::sync::atomic::compiler_fence;

    std::thread_local! {
        static WORDS: Cell<ThreadWords> = const { Cell::new(ThreadWords { stream: NONE, number: 0 }) };
    }

    pub(crate) fn get() -> ThreadWords {
        WORDS.with(Cell::get)
    }

    pub(crate) fn set_stream(stream: *const Stream) {
        // ORDERING: SeqCst, as a compiler fence only. Pairs with `get`, called by a signal handler
        // of this thread. Publishes: the earlier writes of the thread to its stream.
        compiler_fence(SeqCst);
        WORDS.with(|place| place.set(ThreadWords { stream, ..place.get() }));
        // ORDERING: SeqCst, as a compiler fence only. Pairs with `get`, called by a signal handler
        // of this thread. Publishes: the word, before the next writes of the thread to its stream.
        compiler_fence(SeqCst);
    }

    pub(crate) fn set_number(number: usize) {
        WORDS.with(|place| place.set(ThreadWords { number, ..place.get() }));
    }

    pub(crate) fn take() -> ThreadWords {
        let words = get();
        set_stream(BUSY);
        words
    }
}

/// Marks the thread busy. Returns its previous words.
pub(crate) use self::place::take;
pub(crate) use self::place::{get, set_number, set_stream};

#[cfg(test)]
mod tests {
    use super::{BUSY, get, set_number, take};

    #[test]
    fn each_thread_has_its_own_state() {
        let numbers = || (get().stream.addr(), get().number);
        std::thread::spawn(move || {
            assert_eq!(numbers(), (0, 0));
            set_number(usize::MAX);
            assert_eq!(take().stream.addr(), 0);
            assert_eq!(std::thread::spawn(numbers).join().expect("no panic"), (0, 0));
            assert_eq!(numbers(), (BUSY.addr(), usize::MAX));
        })
        .join()
        .expect("the assertions hold");
    }
}
