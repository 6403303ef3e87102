//! Marking of memory that an allocator holds and nobody may touch, for the tools that can check it.
//!
//! A block that went back to a chunk is still mapped and still part of a live allocation of the backing
//! allocator, so no tool notices when a program goes on using it. Allocators therefore call [`poison`] on
//! what they take back and [`unpoison`] on what they hand out. Both compile to nothing unless one of these
//! is set in `RUSTFLAGS`:
//!
//! | setting | effect |
//! |---|---|
//! | `--cfg ephemera_poison="asan"` | AddressSanitizer reports `use-after-poison` (together with `-Zsanitizer=address`) |
//! | `--cfg ephemera_poison="valgrind"` | memcheck reports an invalid read or write (Linux on x86-64; nothing happens outside valgrind) |
//! | Miri | the bytes become uninitialised, so that Miri reports a read of them |
//!
//! # Invariants
//!
//! * **P1**: poisoned bytes belong to the allocator. It unpoisons them before it reads or writes them
//!   itself, hands them out, or gives them back ([`raw::release`](crate::raw::release) does that for a
//!   whole block).
//! * **P2**: neither function keeps what was in the bytes. Intrusive links are written after the call, into
//!   bytes that were left out of it.
//!
//! AddressSanitizer keeps one mark for eight bytes: of a block that does not start and end at multiples of
//! eight it may leave up to seven bytes unmarked on either side.

use core::ptr::NonNull;

/// Marks `bytes` bytes from `block` on as not to be touched until [`unpoison`].
///
/// # Safety
///
/// The bytes must be valid for writes through `block`, belong to the caller alone, and hold nothing that is
/// still needed (P2).
#[inline]
pub unsafe fn poison(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's duties are the ones of the function called.
    unsafe { marks::poison(block, bytes) }
}

/// Marks `bytes` bytes from `block` on as usable and not initialised.
///
/// # Safety
///
/// The bytes must be valid for writes through `block`, belong to the caller alone, and hold nothing that is
/// still needed (P2).
#[inline]
pub unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's duties are the ones of the function called.
    unsafe { marks::unpoison(block, bytes) }
}

/// No tool: nothing to do.
#[cfg(not(any(miri, ephemera_poison = "asan", ephemera_poison = "valgrind")))]
mod marks {
    use core::ptr::NonNull;

    #[inline]
    pub(super) unsafe fn poison(_block: NonNull<u8>, _bytes: usize) {}

    #[inline]
    pub(super) unsafe fn unpoison(_block: NonNull<u8>, _bytes: usize) {}
}

/// Miri tracks for each byte whether it was initialised. Both directions make the bytes uninitialised.
#[cfg(miri)]
mod marks {
    use core::mem::MaybeUninit;
    use core::ptr::NonNull;

    /// What is copied over the block, piece by piece: one copy is one step for the interpreter.
    static NOTHING: [MaybeUninit<u8>; 4096] = [MaybeUninit::uninit(); 4096];

    pub(super) unsafe fn poison(block: NonNull<u8>, bytes: usize) {
        let source = NOTHING.as_ptr();
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(NOTHING.len());
            // SAFETY: `done < bytes`, and the caller vouches for `bytes` bytes from `block` on.
            let target = unsafe { block.as_ptr().add(done) };
            // SAFETY: `NOTHING` has `piece` bytes; `target` has `bytes - done >= piece` writable ones, which
            // the caller owns, so that they are not part of the static.
            unsafe { source.copy_to_nonoverlapping(target.cast(), piece) };
            done += piece;
        }
    }

    pub(super) unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: same duties of the caller.
        unsafe { poison(block, bytes) }
    }
}

/// AddressSanitizer's interface for user-defined poisoning.
#[cfg(all(not(miri), ephemera_poison = "asan"))]
mod marks {
    use core::ffi::c_void;
    use core::ptr::NonNull;

    unsafe extern "C" {
        fn __asan_poison_memory_region(start: *const c_void, bytes: usize);
        fn __asan_unpoison_memory_region(start: *const c_void, bytes: usize);
    }

    #[inline]
    pub(super) unsafe fn poison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the runtime asks for mapped memory that it may mark; the caller owns these bytes.
        unsafe { __asan_poison_memory_region(block.as_ptr().cast(), bytes) }
    }

    #[inline]
    pub(super) unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the runtime asks for mapped memory that it may mark; the caller owns these bytes.
        unsafe { __asan_unpoison_memory_region(block.as_ptr().cast(), bytes) }
    }
}

/// Memcheck's client requests.
///
/// A request is six machine words in memory, their address in `rax`, and a marker in the instruction
/// stream: four rotations of `rdi` by 128 bits in total, then an exchange of `rbx` with itself. Processors
/// execute the marker to no effect; valgrind's translator recognises it, serves the request and puts the
/// answer into `rdx`.
#[cfg(all(not(miri), ephemera_poison = "valgrind"))]
mod marks {
    use core::ptr::NonNull;

    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    compile_error!("`--cfg ephemera_poison=\"valgrind\"` knows the client requests of Linux on x86-64 only");

    /// The tool a request is for: `MC`, memcheck, in the two upper bytes. Other tools ignore it.
    const MEMCHECK: usize = 0x4D43_0000;
    /// From now on every access is an error.
    const MAKE_MEM_NOACCESS: usize = MEMCHECK;
    /// From now on accesses are fine, and values read before a write are undefined.
    const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;

    #[inline]
    fn request(code: usize, block: NonNull<u8>, bytes: usize) {
        let words: [usize; 6] = [code, block.as_ptr().addr(), bytes, 0, 0, 0];
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: the rotations add up to 2 * 64 bits and so give `rdi` back, the exchange changes nothing,
        // and the flags are not promised to be kept. Under valgrind the request reads the six words and sets
        // `rdx`, which is declared. No memory of the program's is written and the stack is not used.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") &raw const words,
                inout("rdx") 0_usize => _,
                options(nostack),
            );
        }
    }

    #[inline]
    pub(super) unsafe fn poison(block: NonNull<u8>, bytes: usize) {
        request(MAKE_MEM_NOACCESS, block, bytes);
    }

    #[inline]
    pub(super) unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
        request(MAKE_MEM_UNDEFINED, block, bytes);
    }
}
