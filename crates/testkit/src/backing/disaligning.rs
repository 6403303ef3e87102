//! Aligns blocks to what was asked for and never to more.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// Above this alignment blocks are passed on as they come: to misplace them would take as much memory again.
pub const LARGEST_SHIFTED_ALIGN: usize = 1 << 20;

/// Serves blocks whose address is an odd multiple of the alignment asked for, in slices of exactly the size asked for.
///
/// Code that relies on alignment by luck, or on a few bytes more, fails over it. Every resize moves the block.
#[derive(Debug, Default)]
pub struct Disaligning<A = Global> {
    inner: A,
    /// By the address of a served block, what `inner` gave for it.
    homes: Mutex<HashMap<usize, Home>>,
}

/// A block of the inner allocator.
#[derive(Debug)]
struct Home {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointer is only kept to be given back to the inner allocator. Whether that may happen on another
// thread is the bound of the inner allocator itself, which decides whether `Disaligning` is `Sync`.
unsafe impl Send for Home {}

impl Disaligning {
    /// Misplaces blocks of the global allocator.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> Disaligning<A> {
    /// Misplaces blocks of `inner`.
    #[must_use]
    pub fn over(inner: A) -> Self {
        Self { inner, homes: Mutex::new(HashMap::new()) }
    }

    /// The allocator below.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// The list, also after a test panicked with it locked.
    fn homes(&self) -> MutexGuard<'_, HashMap<usize, Home>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: a served block lies within one of `inner`'s, which stays as long as it; `allocate` explains why it fits.
// Cloning is not offered. The resizing methods are the trait's own, which allocate, copy and free.
unsafe impl<A: Allocator> Allocator for Disaligning<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let align = layout.align();
        if layout.size() == 0 {
            let nowhere = ptr::without_provenance_mut::<u8>(align);
            let nowhere = NonNull::new(nowhere).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(nowhere, 0));
        }
        let slack = if align <= LARGEST_SHIFTED_ALIGN { align } else { 0 };
        let size = layout.size().checked_add(slack).ok_or(AllocError)?;
        let home = Layout::from_size_align(size, align).map_err(|_| AllocError)?;
        let start = self.inner.allocate(home)?.cast::<u8>();
        let even = (start.addr().get() / align).is_multiple_of(2);
        // SAFETY: the inner block is `slack` bytes longer than the layout, so that the shifted one ends within it.
        let shifted = unsafe { start.add(if even { slack } else { 0 }) };
        self.homes().insert(shifted.addr().get(), Home { start, layout: home });
        Ok(NonNull::slice_from_raw_parts(shifted, layout.size()))
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let home = self.homes().remove(&ptr.addr().get());
        let home = home.unwrap_or_else(|| panic!("{ptr:p} with {layout:?} came back but was never served"));
        // SAFETY: `inner` gave this block with this layout, and it just left the list, so that it goes back once.
        unsafe { self.inner.deallocate(home.start, home.layout) };
    }
}
