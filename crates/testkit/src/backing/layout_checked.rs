//! Defines a backing allocator that checks the layout of every block that is freed or resized.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::pattern;

/// The byte that fills new memory, unless the caller requested zeroed memory.
pub const FRESH: u8 = 0xa5;
/// The byte that fills a block just before `deallocate` frees it.
pub const FREED: u8 = 0xdb;

/// An allocator that records each live block with its layout.
///
/// A call that frees or resizes a block with the wrong layout **panics** with both layouts in the
/// message. A call with a block that is not live panics too. An allocator must not panic, but in a
/// test the alternative is undefined behaviour.
///
/// New memory that need not be zero is filled with [`FRESH`], and memory that `deallocate` frees is
/// filled with [`FREED`], to reveal reads of either. Very large blocks are filled only near their
/// ends.
#[derive(Debug, Default)]
pub struct LayoutChecked<A = Global> {
    inner: A,
    /// Maps each address to the layouts of its live blocks. Only a zero-sized block can share the
    /// address of another block.
    blocks: Mutex<HashMap<usize, Vec<Layout>>>,
}

impl LayoutChecked {
    /// Creates a `LayoutChecked` over the global allocator.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> LayoutChecked<A> {
    /// Creates a `LayoutChecked` over `inner`.
    #[must_use]
    pub fn over(inner: A) -> Self {
        Self { inner, blocks: Mutex::new(HashMap::new()) }
    }

    /// Returns the inner allocator.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Returns the layouts of all live blocks, sorted by size.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Layout> {
        let mut layouts: Vec<Layout> = self.blocks().values().flatten().copied().collect();
        layouts.sort_unstable_by_key(|layout| (layout.size(), layout.align()));
        layouts
    }

    /// Checks that every block was freed.
    ///
    /// # Panics
    ///
    /// Panics with the layouts of all live blocks, if there are any.
    pub fn assert_no_leaks(&self) {
        let layouts = self.outstanding();
        assert!(layouts.is_empty(), "{} blocks were not freed: {layouts:?}", layouts.len());
    }

    /// Locks the map, even if a panic has poisoned the lock.
    fn blocks(&self) -> MutexGuard<'_, HashMap<usize, Vec<Layout>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, ptr: NonNull<u8>, layout: Layout) {
        self.blocks().entry(ptr.addr().get()).or_default().push(layout);
    }

    /// Removes a live block from the map.
    ///
    /// # Panics
    ///
    /// Panics if no block with this address and layout is live.
    fn leave(&self, call: &str, ptr: NonNull<u8>, layout: Layout) {
        let mut blocks = self.blocks();
        let there = blocks.entry(ptr.addr().get()).or_default();
        let found = there.iter().position(|&entry| entry == layout);
        if let Some(index) = found {
            there.swap_remove(index);
            if there.is_empty() {
                blocks.remove(&ptr.addr().get());
            }
            return;
        }
        let there = there.clone();
        drop(blocks);
        if there.is_empty() {
            panic!("{call} of {ptr:p} with {layout:?}: no such block is live");
        }
        panic!("{call} of {ptr:p} with {layout:?}: the block was allocated with {there:?}");
    }
}

/// Fills bytes `from..len` of a block with `byte`. In a very large block, fills only the bytes near
/// its ends.
///
/// # Safety
///
/// `ptr` is valid for writes of `len` bytes.
unsafe fn fill(ptr: NonNull<u8>, from: usize, len: usize, byte: u8) {
    for range in pattern::filled(len) {
        let start = range.start.max(from);
        if start < range.end {
            // SAFETY: `start` is below the end of the range, which is at most `len`.
            let at = unsafe { ptr.add(start) };
            // SAFETY: the range ends at or before `len`, and the caller guarantees `len` writable
            // bytes.
            unsafe { at.write_bytes(byte, range.end - start) };
        }
    }
}

// SAFETY: every call goes to `inner`, which meets the contract. `LayoutChecked` writes only to new
// bytes that the caller has not seen, and to blocks that the caller frees.
unsafe impl<A: Allocator> Allocator for LayoutChecked<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let given = self.inner.allocate(layout)?;
        // SAFETY: `inner` has just allocated `layout.size()` bytes.
        unsafe { fill(given.cast(), 0, layout.size(), FRESH) };
        self.enter(given.cast(), layout);
        Ok(given)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let given = self.inner.allocate_zeroed(layout)?;
        self.enter(given.cast(), layout);
        Ok(given)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.leave("deallocate", ptr, layout);
        // SAFETY: `leave` found the block live with this layout, and its owner frees it.
        unsafe { fill(ptr, 0, layout.size(), FREED) };
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.deallocate(ptr, layout) };
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.leave("grow", ptr, old);
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let Ok(given) = (unsafe { self.inner.grow(ptr, old, new) }) else {
            self.enter(ptr, old);
            return Err(AllocError);
        };
        // SAFETY: `inner` has just allocated `new.size()` bytes.
        unsafe { fill(given.cast(), old.size(), new.size(), FRESH) };
        self.enter(given.cast(), new);
        Ok(given)
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.leave("grow_zeroed", ptr, old);
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.grow_zeroed(ptr, old, new) };
        self.enter(given.map_or(ptr, NonNull::cast), if given.is_ok() { new } else { old });
        given
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.leave("shrink", ptr, old);
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.shrink(ptr, old, new) };
        self.enter(given.map_or(ptr, NonNull::cast), if given.is_ok() { new } else { old });
        given
    }
}
