//! Prefetches cache lines before they are written.
//!
//! A bump allocator knows which lines its caller will write next. Without a hint, each first store
//! to a line waits for that line. Stores become visible in order, so the allocator's own stores
//! wait too. On an Emerald Rapids core, with the memory in the second-level cache, a chain of bumps
//! with one store to each new block takes 3.1 ns a block without a hint and 1.5 ns with one. With
//! the memory in the first-level cache, the chain takes 0.7 ns a block either way. Managed runtimes
//! with bump allocation call this "allocation prefetch".
//!
//! The module emits the instruction with inline assembly, because the compiler's intrinsic for a
//! write hint compiles to a read hint where the target's baseline has no write hint. For a line
//! that another core has read, a read hint costs 15 to 30 ns (decision 0004).

/// Prefetches the line at `line`, which the caller will write soon. This is a hint that does not
/// access memory, so any address is allowed. Does nothing under Miri, and on processors other than
/// x86-64 and AArch64.
#[inline]
pub fn for_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and has no visible effect. Processors without the instruction
    // execute a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch never faults and has no visible effect.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) line.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = line;
}
