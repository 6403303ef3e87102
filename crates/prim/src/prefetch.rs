//! Asks for cache lines before they are written.
//!
//! A bump allocator knows which lines its caller will write to next. Without a hint each first store to a
//! line waits for that line, and since stores become visible in order, the allocator's own stores wait behind
//! it: on an Emerald Rapids core a chain of bumps with one store to each new block takes 3.1 ns a block in
//! memory that lies in the second-level cache, and 1.5 ns with a hint (0.7 ns in the first level, either way).
//! Lines that another core has read must not be asked for: there a hint costs 15 to 30 ns a line (decision 0004).
//! The runtimes that allocate by bump have done the same for long ("allocation prefetch").

/// Asks for the line at this address, which will be written soon. A hint: nothing is accessed, any address will do.
#[inline]
pub fn for_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes nothing that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
