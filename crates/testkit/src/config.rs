//! How much the suite does: every number of cases and every bound, in one place.
//!
//! Under Miri a step takes about a hundred times as long, so that the numbers shrink there and the kinds of
//! operation stay.
#![forbid(unsafe_code)]

/// Picks the second value under Miri, and a quarter of the first one under AddressSanitizer, whose quarantine makes blocks dear.
const fn here_or_miri(here: usize, miri: usize) -> usize {
    if cfg!(miri) {
        miri
    } else if cfg!(ephemera_poison = "asan") {
        here.div_ceil(4)
    } else {
        here
    }
}

/// Seeds that are run for each profile.
pub const SEEDS: usize = here_or_miri(96, 1);
/// Operations of a program drawn from a seed.
pub const SEED_OPS: usize = here_or_miri(400, 32);
/// Cases of the proptest test. `PROPTEST_CASES` in the environment raises or lowers it where it is set.
pub const PROPTEST_CASES: u32 = here_or_miri(256, 2) as u32;
/// Steps that proptest may take to make a failing program shorter.
pub const PROPTEST_SHRINKS: u32 = here_or_miri(20_000, 0) as u32;
/// Most operations of a program drawn by proptest.
pub const PROPTEST_OPS: usize = here_or_miri(160, 24);
/// Programs that are decoded from random bytes.
pub const BYTE_STRINGS: usize = here_or_miri(128, 2);
/// Longest byte string that is decoded.
pub const BYTE_STRING_LEN: usize = here_or_miri(2_048, 200);
/// Programs for which each call of the backing allocator is refused in turn.
pub const REFUSAL_SEEDS: usize = here_or_miri(6, 1);
/// Operations of such a program.
pub const REFUSAL_OPS: usize = here_or_miri(80, 24);
/// Most calls of one program that are refused in turn; beyond it they are spread evenly.
pub const REFUSAL_POINTS: usize = here_or_miri(120, 3);
/// Rounds of each thread in an exchange of blocks.
pub const EXCHANGE_ROUNDS: usize = here_or_miri(2_000, 25);
/// Threads in an exchange of blocks.
pub const EXCHANGE_THREADS: usize = here_or_miri(3, 2);
/// Exchanges of the hand-over test.
pub const EXCHANGES: usize = here_or_miri(8, 1);

/// Largest size that is drawn as an ordinary one, in bytes.
pub const LARGEST_DRAWN: usize = here_or_miri(1 << 20, 32 << 10);
/// Bytes that may be live at once; allocations beyond are skipped.
pub const LIVE_BYTES: usize = here_or_miri(48 << 20, 4 << 20);
/// Blocks that may be live at once; allocations beyond are skipped.
pub const LIVE_BLOCKS: usize = here_or_miri(512, 64);
/// Alignment that is drawn now and then and that hardly any program asks for. AddressSanitizer makes its red zones as large as
/// the alignment, and remembers them.
pub const RARE_ALIGN: usize = if cfg!(ephemera_poison = "asan") { 1 << 22 } else { 1 << 29 };
/// Blocks of [`RARE_ALIGN`] that may be live at once: each takes as much address space.
pub const RARE_ALIGN_LIVE: usize = 2;

/// Above this size a refusal is always fine, in bytes.
pub const MODEST_SIZE: usize = 16 << 20;
/// Above this alignment a refusal is always fine.
pub const MODEST_ALIGN: usize = 1 << 16;

/// Blocks to this size are filled and read whole, in bytes.
pub const FILLED_WHOLE: usize = here_or_miri(4 << 20, 1 << 10);
/// Of larger blocks, this much is filled and read at each end, in bytes.
pub const FILLED_EDGE: usize = here_or_miri(64 << 10, 256);
