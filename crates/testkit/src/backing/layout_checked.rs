//! Checks that every block comes back with the layout that it was obtained with.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::pattern;

/// What fresh memory is filled with, unless it was asked for zeroed.
pub const FRESH: u8 = 0xa5;
/// What memory is filled with just before it goes back.
pub const FREED: u8 = 0xdb;

/// Remembers each outstanding block with its layout.
///
/// A block that comes back with another layout, or that is not outstanding, **panics** with both layouts in the
/// message. An allocator must not do that; in a test it is wanted, since going on would be undefined behaviour.
///
/// Fresh memory is filled with [`FRESH`], memory that goes back with [`FREED`]: reads of either show. Blocks of
/// several MiB are filled at their ends only.
#[derive(Debug, Default)]
pub struct LayoutChecked<A = Global> {
    inner: A,
    /// By address. Several only where zero-sized blocks share it, or while one moves between threads.
    blocks: Mutex<HashMap<usize, Vec<Layout>>>,
}

impl LayoutChecked {
    /// Checks what goes to the global allocator.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> LayoutChecked<A> {
    /// Checks what goes to `inner`.
    #[must_use]
    pub fn over(inner: A) -> Self {
        Self { inner, blocks: Mutex::new(HashMap::new()) }
    }

    /// The allocator below.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Layouts of all blocks that did not come back yet, by size.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Layout> {
        let mut layouts: Vec<Layout> = self.blocks().values().flatten().copied().collect();
        layouts.sort_unstable_by_key(|layout| (layout.size(), layout.align()));
        layouts
    }

    /// Does nothing if every block came back.
    ///
    /// # Panics
    ///
    /// If one did not, with the layouts of all those.
    pub fn assert_no_leaks(&self) {
        let layouts = self.outstanding();
        assert!(layouts.is_empty(), "{} blocks did not come back: {layouts:?}", layouts.len());
    }

    /// The list, also after a test panicked with it locked.
    fn blocks(&self) -> MutexGuard<'_, HashMap<usize, Vec<Layout>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, ptr: NonNull<u8>, layout: Layout) {
        self.blocks().entry(ptr.addr().get()).or_default().push(layout);
    }

    /// Takes a block off the list, or panics.
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
            panic!("{call} of {ptr:p} with {layout:?}: no such block is outstanding");
        }
        panic!("{call} of {ptr:p} with {layout:?}: the block was obtained with {there:?}");
    }
}

/// Fills bytes `from..len` of a block, only near its ends if it is very large.
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
            // SAFETY: the caller vouches for `len` bytes.
            unsafe { at.write_bytes(byte, range.end - start) };
        }
    }
}

// SAFETY: every call goes to `inner`, which keeps the contract. Only bytes of which the caller knows nothing yet, or
// nothing any more, are written.
unsafe impl<A: Allocator> Allocator for LayoutChecked<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let given = self.inner.allocate(layout)?;
        // SAFETY: `inner` just served `layout.size()` bytes.
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
        // SAFETY: the block is outstanding with this layout and its owner gives it up.
        unsafe { fill(ptr, 0, layout.size(), FREED) };
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.deallocate(ptr, layout) };
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.leave("grow", ptr, old);
        // SAFETY: the caller's duties are passed on as they are.
        let Ok(given) = (unsafe { self.inner.grow(ptr, old, new) }) else {
            self.enter(ptr, old);
            return Err(AllocError);
        };
        // SAFETY: `inner` just served `new.size()` bytes.
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
        // SAFETY: the caller's duties are passed on as they are.
        let given = unsafe { self.inner.grow_zeroed(ptr, old, new) };
        self.enter(given.map_or(ptr, NonNull::cast), if given.is_ok() { new } else { old });
        given
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.leave("shrink", ptr, old);
        // SAFETY: the caller's duties are passed on as they are.
        let given = unsafe { self.inner.shrink(ptr, old, new) };
        self.enter(given.map_or(ptr, NonNull::cast), if given.is_ok() { new } else { old });
        given
    }
}
