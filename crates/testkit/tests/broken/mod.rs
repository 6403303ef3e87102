//! Defines an allocator with a chosen fault. Despite the fault, its drop frees all memory.

use alloc::collections::BTreeMap;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_testkit::backing::{FailNth, Refusals};
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::subject::Subject;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault, as a control.
    Nothing,
    /// Returns the memory of a live block again.
    Overlaps,
    /// Returns addresses that are off by one byte.
    Misaligns,
    /// Leaks every fifth block that is freed.
    Leaks,
    /// Leaks blocks that are freed on another thread.
    LeaksForeign,
    /// Leaks blocks that are freed after the thread's state was destroyed.
    LeaksLate,
    /// Does not copy the last byte in a resize.
    LosesBytes,
    /// Does not zero memory in `allocate_zeroed`.
    NeverZeroes,
    /// Does not zero the first added byte in `grow_zeroed`.
    ZeroesTooLate,
    /// Overwrites a byte of a live block.
    Corrupts,
    /// Returns a slice that is too short.
    GivesLess,
    /// Returns a slice that is too long.
    GivesMore,
    /// Refuses every seventh request without a reason.
    Refuses,
    /// Overwrites a byte of the old block before it knows whether a resize succeeds.
    SpoilsOnRefusal,
    /// Leaks its first backing block if the backing allocator refuses the second one.
    LeaksOnRefusal,
    /// Runs jobs on the calling thread, although `HAND_OVER` promises another thread.
    StaysHere,
}

struct BackingBlock {
    start: NonNull<u8>,
    layout: Layout,
    thread: ThreadId,
}

thread_local! {
    /// Stands in for the per-thread state of an allocator. This value has a destructor.
    static STATE: Box<u8> = Box::new(0);
}

pub(crate) struct Broken {
    fault: Fault,
    backing: FailNth,
    blocks: Mutex<BTreeMap<usize, BackingBlock>>,
    calls: AtomicUsize,
}

// SAFETY: the pointers point to blocks of the global allocator, which any thread may use and free.
unsafe impl Send for Broken {}
// SAFETY: a mutex protects the map, and any thread may use and free the blocks in the map.
unsafe impl Sync for Broken {}

impl Broken {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            backing: FailNth::new(),
            blocks: Mutex::new(BTreeMap::new()),
            calls: AtomicUsize::new(0),
        }
    }

    /// Allocates a block from the backing allocator. Adds it to the map unless its size is zero.
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let start = self.backing.allocate(layout)?.cast::<u8>();
        // SAFETY: the backing allocator has just allocated `layout.size()` bytes.
        unsafe { start.write_bytes(0xee, layout.size()) };
        if layout.size() != 0 {
            let block = BackingBlock { start, layout, thread: thread::current().id() };
            self.blocks.lock().expect("no thread panics").insert(start.addr().get(), block);
        }
        Ok(start)
    }

    fn give(&self, ptr: NonNull<u8>) {
        if let Some(block) = self.blocks.lock().expect("no thread panics").remove(&ptr.addr().get()) {
            // SAFETY: the backing allocator allocated the block with this layout. The block was
            // just removed from the map, so it is freed once.
            unsafe { self.backing.deallocate(block.start, block.layout) };
        }
    }

    fn spoil(&self, start: NonNull<u8>, len: usize) {
        if len == 0 {
            return;
        }
        // SAFETY: the block has `len` bytes.
        let last = unsafe { start.add(len - 1) };
        // SAFETY: `last` is in the block, which `take` has written.
        let byte = unsafe { last.read() };
        // SAFETY: `last` is in the block.
        unsafe { last.write(!byte) };
    }

    fn every(&self, count: usize) -> bool {
        self.calls.fetch_add(1, Relaxed) % count == count - 1
    }

    /// Resizes a block by an allocation, a copy and a free, with faults.
    fn resize(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if self.fault == Fault::SpoilsOnRefusal {
            self.spoil(ptr, old.size());
        }
        let given = self.allocate(new)?;
        if self.fault == Fault::SpoilsOnRefusal {
            self.spoil(ptr, old.size());
        }
        let mut kept = old.size().min(new.size());
        if self.fault == Fault::LosesBytes {
            kept = kept.saturating_sub(1);
        }
        // SAFETY: both blocks have at least `kept` bytes. With `Fault::Overlaps` they may be the
        // same block.
        unsafe { given.cast().copy_from(ptr, kept) };
        // SAFETY: the caller of `grow` or `shrink` guarantees that the block is live with layout
        // `old`.
        unsafe { self.deallocate(ptr, old) };
        Ok(given)
    }
}

// SAFETY: with most faults, `Broken` violates the contract on purpose. The suite finds a violation
// before it relies on the violated property.
unsafe impl Allocator for Broken {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let size = layout.size();
        match self.fault {
            Fault::Overlaps if size != 0 => {
                let blocks = self.blocks.lock().expect("no thread panics");
                let fits = |block: &&BackingBlock| {
                    block.layout.size() >= size && block.start.addr().get().is_multiple_of(layout.align())
                };
                if let Some(block) = blocks.values().find(fits) {
                    return Ok(NonNull::slice_from_raw_parts(block.start, size));
                }
            }
            Fault::Misaligns if layout.align() > 1 && size != 0 => {
                let longer = Layout::from_size_align(size + 1, layout.align()).map_err(|_| AllocError)?;
                let start = self.take(longer)?;
                // SAFETY: the block is one byte longer than `size`.
                return Ok(NonNull::slice_from_raw_parts(unsafe { start.add(1) }, size));
            }
            Fault::GivesLess if size != 0 => {
                return Ok(NonNull::slice_from_raw_parts(self.take(layout)?, size - 1));
            }
            Fault::GivesMore => {
                let longer = Layout::from_size_align(size + 1, layout.align()).map_err(|_| AllocError)?;
                return Ok(NonNull::slice_from_raw_parts(self.take(longer)?, size + 1));
            }
            Fault::Refuses if self.every(7) => return Err(AllocError),
            Fault::Corrupts if self.every(5) => {
                if let Some(block) = self.blocks.lock().expect("no thread panics").values().next() {
                    self.spoil(block.start, block.layout.size());
                }
            }
            Fault::LeaksOnRefusal => {
                let header = self.take(Layout::new::<[u64; 2]>())?;
                let start = self.take(layout)?;
                self.give(header);
                return Ok(NonNull::slice_from_raw_parts(start, size));
            }
            _ => {}
        }
        Ok(NonNull::slice_from_raw_parts(self.take(layout)?, size))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let given = self.allocate(layout)?;
        if self.fault != Fault::NeverZeroes {
            // SAFETY: the block was just allocated and has `given.len()` bytes.
            unsafe { given.cast::<u8>().write_bytes(0, given.len()) };
        }
        Ok(given)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, _layout: Layout) {
        let keep = match self.fault {
            Fault::Leaks => self.every(5),
            Fault::LeaksForeign => {
                let blocks = self.blocks.lock().expect("no thread panics");
                blocks.get(&ptr.addr().get()).is_some_and(|block| block.thread != thread::current().id())
            }
            Fault::LeaksLate => STATE.try_with(|_| ()).is_err(),
            _ => false,
        };
        if !keep {
            self.give(ptr);
        }
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(ptr, old, new)
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let given = self.resize(ptr, old, new)?;
        let mut from = old.size();
        if self.fault == Fault::ZeroesTooLate {
            from = new.size().min(from + 1);
        }
        // SAFETY: `from` is at most the length of the block.
        let tail = unsafe { given.cast::<u8>().add(from) };
        // SAFETY: the block has `new.size() - from` bytes from `tail` on.
        unsafe { tail.write_bytes(0, new.size() - from) };
        Ok(given)
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(ptr, old, new)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        let starts: Vec<NonNull<u8>> =
            self.blocks.get_mut().expect("no thread panics").values().map(|block| block.start).collect();
        starts.into_iter().for_each(|start| self.give(start));
    }
}

impl Subject for Broken {
    type Alloc<'s> = &'s Self;
    const HAND_OVER: bool = true;

    fn fresh(&self) -> &Self {
        self
    }

    fn run_job(&self, alloc: &&Self, job: ThreadJob) -> JobResult {
        if self.fault == Fault::StaysHere { job.run_here(alloc) } else { job.run_elsewhere(alloc) }
    }

    fn refusals(&self) -> Option<&Refusals> {
        Some(self.backing.refusals())
    }

    fn finish(&self, _alloc: &Self) -> usize {
        self.blocks.lock().expect("no thread panics").values().map(|block| block.layout.size()).sum()
    }
}
