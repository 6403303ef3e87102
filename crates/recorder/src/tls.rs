//! Two words of each thread: its stream and its number.
//!
//! On x86-64 they are reached by their offset from the thread pointer (the model "initial exec"), which needs no call. The
//! model that a library gets by default asks the dynamic linker where they are, and that one may allocate: `malloc` would end
//! in itself. Elsewhere they are a `const` thread-local without destructor.

use core::ptr::{null, without_provenance};

use crate::stream::Stream;

/// What a thread carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Words {
    /// The thread's stream; below [`EARLY`], how many calls it made without one; [`ENDED`]; or [`BUSY`].
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

/// In place of a stream: calls that come now are the recorder's own. Streams lie above.
pub(crate) const BUSY: *const Stream = without_provenance(EARLY + 2);

const _: () = assert!(EARLY + 2 < align_of::<Stream>(), "no stream lies so low");

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod place {
    use super::Words;
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
        // SAFETY: the words belong to this thread, are initialised to zero, and the loader places them before any code runs.
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
    pub(crate) fn set(words: Words) {
        // SAFETY: as in `get`; nothing has a reference to the words.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + ephemera_recorder_words@GOTTPOFF]",
                "mov qword ptr fs:[{place}], {stream}",
                "mov qword ptr fs:[{place} + 8], {number}",
                place = out(reg) _,
                stream = in(reg) words.stream,
                number = in(reg) words.number,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod place {
    use super::{NONE, Words};
    use core::cell::Cell;

    std::thread_local! {
        static WORDS: Cell<Words> = const { Cell::new(Words { stream: NONE, number: 0 }) };
    }

    pub(crate) fn get() -> Words {
        WORDS.with(Cell::get)
    }

    pub(crate) fn set(words: Words) {
        WORDS.with(|place| place.set(words));
    }
}

pub(crate) use self::place::{get, set};

#[cfg(test)]
mod tests {
    use super::{BUSY, Words, get, set};

    #[test]
    fn each_thread_has_its_own() {
        let numbers = || (get().stream.addr(), get().number);
        std::thread::spawn(move || {
            assert_eq!(numbers(), (0, 0));
            set(Words { stream: BUSY, number: usize::MAX });
            assert_eq!(std::thread::spawn(numbers).join().expect("it reads two words"), (0, 0));
            assert_eq!(numbers(), (BUSY.addr(), usize::MAX));
        })
        .join()
        .expect("the assertions hold");
    }
}
