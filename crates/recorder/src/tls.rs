//! Two words of each thread: its stream and its number.
//!
//! On x86-64 they are reached by their offset from the thread pointer (the model "initial exec"),
//! which needs no call. The model that a library gets by default asks the dynamic linker where they
//! are, and that one may allocate: `malloc` would end in itself. Elsewhere they are a `const`
//! thread-local without destructor.

use core::ptr::{null, without_provenance};

use crate::stream::Stream;

/// What a thread carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Words {
    /// The thread's stream; below [`EARLY`], how many calls it made without one; [`ENDED`]; or
    /// [`BUSY`].
    pub(crate) stream: *const Stream,
    /// The thread's number; 0 not counted yet.
    pub(crate) number: usize,
}

/// Before anything.
pub(crate) const NONE: *const Stream = null();

/// Calls that a thread makes without a stream of its own.
pub(crate) const EARLY: usize = 8;

/// In place of a stream: the thread's end was seen.
pub(crate) const ENDED: *const Stream = without_provenance(EARLY + 1);

/// In place of a stream: the recorder is at work on this thread. A call that comes now is a signal
/// handler's, or the recorder's own. Streams lie above.
pub(crate) const BUSY: *const Stream = without_provenance(EARLY + 2);

const _: () = assert!(EARLY + 2 < align_of::<Stream>(), "no stream lies so low");

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod place {
    use super::{BUSY, Stream, Words};
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
    pub(crate) fn get() -> Words {
        let (stream, number);
        // SAFETY: the words belong to this thread, are initialised to zero, and the loader places
        // them before any code runs.
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
        Words { stream, number }
    }

    #[inline(always)]
    pub(crate) fn set_stream(stream: *const Stream) {
        // SAFETY: as in `get`; nothing has a reference to the words.
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
        // SAFETY: as in `set_stream`.
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

    pub(crate) fn take() -> Words {
        let mut stream = BUSY;
        // SAFETY: as in `set_stream`.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "xchg qword ptr fs:[{place}], {stream}",
                place = out(reg) _,
                stream = inlateout(reg) stream,
                options(nostack, preserves_flags),
            );
        }
        Words { stream, number: get().number }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod place {
    use super::{BUSY, NONE, Stream, Words};
    use core::cell::Cell;
    use core::sync::atomic::Ordering::SeqCst;
    use core::sync::atomic::compiler_fence;

    std::thread_local! {
        static WORDS: Cell<Words> = const { Cell::new(Words { stream: NONE, number: 0 }) };
    }

    pub(crate) fn get() -> Words {
        WORDS.with(Cell::get)
    }

    pub(crate) fn set_stream(stream: *const Stream) {
        // ORDERING: SeqCst, of the compiler. Pairs with `get`, called by a signal handler of this
        // thread. Publishes: what the thread wrote to its stream so far.
        compiler_fence(SeqCst);
        WORDS.with(|place| place.set(Words { stream, ..place.get() }));
        // ORDERING: SeqCst, of the compiler. Pairs with `get`, called by a signal handler of this
        // thread. Publishes: the word, before what the thread writes to its stream next.
        compiler_fence(SeqCst);
    }

    pub(crate) fn set_number(number: usize) {
        WORDS.with(|place| place.set(Words { number, ..place.get() }));
    }

    pub(crate) fn take() -> Words {
        let words = get();
        set_stream(BUSY);
        words
    }
}

/// Makes the thread busy, and returns what it carried until then.
pub(crate) use self::place::take;
pub(crate) use self::place::{get, set_number, set_stream};

#[cfg(test)]
mod tests {
    use super::{BUSY, get, set_number, take};

    #[test]
    fn each_thread_has_its_own() {
        let numbers = || (get().stream.addr(), get().number);
        std::thread::spawn(move || {
            assert_eq!(numbers(), (0, 0));
            set_number(usize::MAX);
            assert_eq!(take().stream.addr(), 0);
            assert_eq!(std::thread::spawn(numbers).join().expect("it reads two words"), (0, 0));
            assert_eq!(numbers(), (BUSY.addr(), usize::MAX));
        })
        .join()
        .expect("the assertions hold");
    }
}
