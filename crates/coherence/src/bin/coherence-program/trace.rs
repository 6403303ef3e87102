//! The marks and the facts that the program leaves for the reader of its log.

use std::fs;
use std::io::{Write as _, stderr};
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use ephemera_coherence::marks::{Fact, Phase, TABLE};

static MARKS: [AtomicU8; TABLE] = [const { AtomicU8::new(0) }; TABLE];

/// Stores to the mark of a core and a phase. The log then shows that the core enters the phase.
#[inline(always)]
pub(crate) fn mark(phase: Phase, core: usize) {
    // ORDERING: SeqCst. Pairs with the second fence in `mark`: the compiler does not move an access
    // across the store to the mark, so the log shows each access in its phase.
    compiler_fence(Ordering::SeqCst);
    MARKS[phase.index(core)].store(1, Ordering::Relaxed);
    // ORDERING: SeqCst. Pairs with the first fence in `mark`.
    compiler_fence(Ordering::SeqCst);
}

/// Runs `work` in `phase`, then enters the phase `Outside`. Returns the result of `work`.
#[inline(always)]
pub(crate) fn within<R>(phase: Phase, core: usize, work: impl FnOnce() -> R) -> R {
    mark(phase, core);
    let result = work();
    mark(Phase::Outside, core);
    result
}

/// Prints a fact. One call writes the whole line, because valgrind writes its log to the same file
/// and could otherwise split the line.
pub(crate) fn tell(fact: &Fact) {
    // Best effort: if nothing reads the log, the write may fail, but then nothing needs the fact.
    let _ = stderr().write_all(fact.line().as_bytes());
}

/// Prints the address of the marks and the ranges of static variables.
pub(crate) fn tell_statics() {
    tell(&Fact::Table(MARKS.as_ptr().addr() as u64));
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut file = "";
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let name = words.nth(3).unwrap_or_default();
        let Some((start, end)) = range.split_once('-') else { continue };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or_default();
        let (start, end) = (number(start), number(end));
        if name.starts_with('/') {
            file = name;
        }
        // Zero-initialised variables lie in a nameless range that follows the ranges of their file.
        let of_file = name.starts_with('/') || (name.is_empty() && !file.is_empty());
        if of_file && rights.starts_with("rw") {
            tell(&Fact::Static(start..end));
        }
        if !name.starts_with('/') {
            file = "";
        }
    }
}

/// Prints the range of the calling thread's stack. The thread-locals of the thread lie in the same
/// range.
pub(crate) fn tell_stack() {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the function has no preconditions.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread exists, and the attributes are writable.
    let found = unsafe { libc::pthread_getattr_np(this, attributes.as_mut_ptr()) };
    assert_eq!(found, 0, "the C library knows the stack of its threads");
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: `pthread_getattr_np` succeeded, so the attributes are initialised. The other two
    // pointers are writable.
    unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut bytes) };
    // SAFETY: the attributes are initialised, and nothing uses them after this call.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let start = start.addr() as u64;
    tell(&Fact::Stack(start..start + bytes as u64));
}
