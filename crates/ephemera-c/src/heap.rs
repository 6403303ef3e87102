//! `Heap`, the allocator that the C functions call.
//!
//! In a shared library, each access to a thread-local of the standard library calls the dynamic
//! linker. On x86-64, the heap's thread-local has a fixed offset from the thread pointer instead
//! (the *initial-exec* model, which mimalloc and jemalloc use too). The library should therefore be
//! preloaded. If a running program loads the library instead, the thread-local takes part of the
//! small *static TLS surplus* of the C library. Loading fails if the surplus is used up.

use typed_pool::__private::{Family, FamilyCell, ThisCell};

#[cfg(target_arch = "x86_64")]
mod cell {
    use core::arch::asm;
    use core::ptr::NonNull;

    use super::{FamilyCell, ThisCell};

    /// The initial value of each thread's cell.
    struct Initial(#[expect(dead_code, reason = "each thread reads its copy")] FamilyCell);

    // SAFETY: each thread uses only its own copy of the static.
    unsafe impl Sync for Initial {}

    // SAFETY: an object in this section is a thread-local. Rust code does not access the static
    // itself, which has no address.
    #[unsafe(link_section = ".tdata.ephemera_c")]
    static INITIAL: Initial = Initial(FamilyCell::nowhere());

    /// Returns the calling thread's cell.
    #[inline]
    pub(super) fn this() -> ThisCell {
        let cell: *mut FamilyCell;
        // SAFETY: `fs:[0]` holds the thread pointer, and the global offset table holds the
        // thread-local's offset from that pointer. Neither value changes while the thread runs.
        unsafe {
            asm!(
                "mov {cell}, qword ptr fs:[0]",
                "add {cell}, qword ptr [rip + {initial}@GOTTPOFF]",
                cell = out(reg) cell,
                initial = sym INITIAL,
                options(pure, nomem, nostack),
            );
        }
        // SAFETY: a thread-local is not at address null.
        let cell = unsafe { NonNull::new_unchecked(cell) };
        // SAFETY: T3: the cell is this thread's own. No caller keeps the pointer after its call.
        unsafe { ThisCell::new(cell) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod cell {
    use super::{FamilyCell, ThisCell};

    std::thread_local! {
        static CELL: FamilyCell = const { FamilyCell::nowhere() };
    }

    /// Returns the calling thread's cell.
    #[inline]
    pub(super) fn this() -> ThisCell {
        ThisCell::of(&CELL)
    }
}

// SAFETY: the thread-local belongs to this family alone.
static FAMILY: Family = unsafe { Family::of_classes(cell::this) };

impl Heap {
    #[inline]
    pub(crate) fn __cell() -> ThisCell {
        cell::this()
    }

    #[inline]
    fn __family() -> &'static Family {
        &FAMILY
    }
}

typed_pool::__allocator_of_family! {
    /// An allocator like `PooledAllocator`, with its own thread-local.
    pub(crate) struct Heap;
}
