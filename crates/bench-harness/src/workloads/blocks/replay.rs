//! R6, replay: the heap calls of a real program, from its start to its end, in the recorded order
//! and on one thread. The traces are part of the harness, so everybody replays the same calls.
//! `data/README.md` describes the traces and how they were made.
//!
//! The cell writes to a block as every replay of a trace does: the first byte of each cache line in
//! its first 256 bytes. A counted run (a check or the memory pass) also writes one byte of every
//! page, so the whole block becomes resident. Blocks that the program never freed are freed at the
//! end.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::null_mut;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ephemera_trace::Trace;
use ephemera_trace::replay::{Action, ProgramOp, ReplayProgram};

use crate::blocks::{Contender, RawAlloc, refused};
use crate::tally;
use crate::workloads::litter::{self, Census, Histogram};
use crate::workloads::{Cell, Context, StateCell, each, mix};

/// The distance, in bytes, between touched bytes in the first [`TOUCHED`] bytes of a block.
const LINE: usize = 64;
/// The number of bytes at the start of a block among which every [`LINE`]th byte is touched.
const TOUCHED: usize = 256;
/// The distance, in bytes, between touched bytes after the first [`TOUCHED`] bytes of a block, in a
/// counted run.
const PAGE: usize = 4096;

/// Returns the trace with this name in a form that can be replayed. The first call reads the trace
/// and keeps the result.
///
/// # Panics
///
/// Panics if the file, which is part of the harness, is missing or is not a trace.
pub(crate) fn program(name: &'static str) -> &'static ReplayProgram {
    static PROGRAMS: Mutex<BTreeMap<&str, &ReplayProgram>> = Mutex::new(BTreeMap::new());
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.entry(name).or_insert_with(|| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let path = data.join(name).with_extension("trace");
        let program = Trace::open(&path).and_then(|trace| ReplayProgram::of(&trace));
        Box::leak(Box::new(program.unwrap_or_else(|error| panic!("{}: {error}", path.display()))))
    })
}

/// Returns the number of blocks that the program with this name allocates.
pub(crate) fn asked(name: &'static str) -> u64 {
    let asks = |op: &&ProgramOp| matches!(op.action, Action::Alloc | Action::Zeroed);
    ops(program(name)).iter().filter(asks).count() as u64
}

/// Returns the operations of a single-threaded program, all of which [`ReplayProgram::of`] keeps in
/// memory.
fn ops(program: &ReplayProgram) -> &[ProgramOp] {
    program.lanes().first().map_or(&[], |lane| lane.whole().expect("no operation is in a file"))
}

/// Writes the first byte of each line in the first [`TOUCHED`] bytes of a block, from offset
/// `from`. In a counted run, also writes one byte of each page after them.
///
/// # Safety
///
/// The caller must own the block, which must have `size` bytes.
#[inline(always)]
unsafe fn touch<R: RawAlloc>(block: *mut u8, from: u32, size: u32, tag: u8) {
    let write = |at| {
        // SAFETY: the offsets of both loops are below the size.
        let place = unsafe { block.add(at) };
        // SAFETY: `place` is within the block, which the caller owns.
        unsafe { place.write(tag) };
    };
    let (from, size) = (from as usize, size as usize);
    (from.next_multiple_of(LINE)..size.min(TOUCHED)).step_by(LINE).for_each(write);
    if R::CHECKED {
        (from.max(TOUCHED).next_multiple_of(PAGE)..size).step_by(PAGE).for_each(write);
    }
}

/// In a counted run, reads the touched bytes among the first [`TOUCHED`] bytes and folds them into
/// `sum`. Counts each byte that differs from `tag` as damage.
///
/// # Safety
///
/// The caller must own the block, which must have `size` bytes, all touched with this tag.
#[inline(always)]
unsafe fn verify<R: RawAlloc>(block: *mut u8, size: u32, tag: u8, sum: &mut u64) {
    if R::CHECKED {
        for at in (0..(size as usize).min(TOUCHED)).step_by(LINE) {
            // SAFETY: the offset is below the size.
            let place = unsafe { block.add(at) };
            // SAFETY: `place` is within the block, which the caller owns, and `touch` wrote this
            // byte.
            let found = unsafe { place.read() };
            if found != tag {
                tally::damaged();
            }
            *sum = mix(*sum, u64::from(found) | u64::from(size) << 8);
        }
    }
}

/// Replays the calls of a program once. Returns a checksum, which is 0 in a timed run.
///
/// # Safety
///
/// `slots` must have as many elements as the program has slots, and none of them may be a live
/// block.
///
/// # Panics
///
/// Panics if the contender refuses a request.
#[inline(never)]
unsafe fn play<R: RawAlloc + Copy>(alloc: R, program: &ReplayProgram, slots: &mut [*mut u8]) -> u64 {
    let mut sum = 0;
    for op in ops(program) {
        let (slot, tag) = (op.slot as usize, op.slot as u8);
        let new = op.layout();
        match op.action {
            Action::Free => {
                // SAFETY: the program filled the slot with a block of this layout, which was
                // touched with the slot's tag. The program fills the slot again before its next
                // use.
                unsafe { end(alloc, slots[slot], new, tag, &mut sum) };
                continue;
            }
            Action::Alloc => {
                // SAFETY: no size of a program is zero.
                slots[slot] = unsafe { alloc.alloc(new) };
                // SAFETY: the block is new and has `op.size` bytes.
                unsafe { touch::<R>(slots[slot], 0, op.size, tag) };
            }
            Action::Zeroed => {
                // SAFETY: no size of a program is zero.
                slots[slot] = present(black_box(unsafe { alloc.raw_alloc_zeroed(new) }), new);
                // SAFETY: the block is new and has `op.size` bytes.
                unsafe { touch::<R>(slots[slot], 0, op.size, tag) };
            }
            Action::Resize => {
                let old = op.old_layout();
                let block = black_box(slots[slot]);
                let moved = if op.size >= op.old {
                    // SAFETY: the slot holds a block of the old layout. The new one is at least as
                    // large. Both layouts have the alignment of the operation.
                    unsafe { alloc.raw_resize::<true>(block, old, new) }
                } else {
                    // SAFETY: the slot holds a block of the old layout. The new one is smaller and
                    // not empty. Both layouts have the alignment of the operation.
                    unsafe { alloc.raw_resize::<false>(block, old, new) }
                };
                slots[slot] = present(black_box(moved), new);
                // SAFETY: the block has the new size.
                unsafe { touch::<R>(slots[slot], op.old, op.size, tag) };
            }
            // There is only one thread, which never waits for another.
            Action::Epoch => {}
        }
    }
    for left in program.left() {
        let block = slots[left.slot as usize];
        // SAFETY: the program filled the slot with a block of this layout, which was touched with
        // the slot's tag, and never emptied it. This is the last use of the block.
        unsafe { end(alloc, block, left.layout(), left.slot as u8, &mut sum) };
    }
    sum
}

/// Verifies a block in a counted run, and frees it.
///
/// # Safety
///
/// This allocator must have returned the block for this layout, and [`touch`] must have written
/// `tag` to it up to this size. The caller must not use the block again.
#[inline(always)]
unsafe fn end<R: RawAlloc + Copy>(alloc: R, block: *mut u8, layout: Layout, tag: u8, sum: &mut u64) {
    // SAFETY: the caller owns the block, and `touch` wrote the tag when the block was allocated and
    // when it grew.
    unsafe { verify::<R>(block, layout.size() as u32, tag, sum) };
    // SAFETY: `alloc` returned the block for this layout, and the caller does not use it again.
    unsafe { alloc.dealloc(block, layout) };
}

/// Returns `block`, or panics if it is null.
#[inline(always)]
fn present(block: *mut u8, layout: Layout) -> *mut u8 {
    if block.is_null() { refused(layout) } else { block }
}

/// Returns the layouts that are live when the program holds the largest number of blocks, each with
/// the number of its blocks.
fn most(program: &ReplayProgram) -> Histogram {
    let change = |op: &ProgramOp| match op.action {
        Action::Alloc | Action::Zeroed => 1,
        Action::Free => -1,
        Action::Resize | Action::Epoch => 0,
    };
    let mut live = 0_i64;
    let counts = ops(program).iter().map(|op| {
        live += change(op);
        live
    });
    let (until, _) = counts.enumerate().max_by_key(|&(_, live)| live).unwrap_or_default();
    let census = Census::default();
    for op in ops(program).iter().take(until + 1) {
        match op.action {
            Action::Alloc | Action::Zeroed => census.add(op.layout()),
            Action::Free => census.remove(op.layout()),
            Action::Resize => {
                census.remove(op.old_layout());
                census.add(op.layout());
            }
            Action::Epoch => {}
        }
    }
    census.held()
}

/// Builds a cell that replays the trace with this name, on a littered heap if `littered`.
pub(crate) fn cell<C: Contender>(name: &'static str, littered: bool, context: &Context) -> Box<dyn Cell> {
    let program = program(name);
    litter::scatter::<C::Backing>(littered, || most(program), context.seed);
    let state = (C::create(), program, vec![null_mut(); program.slots]);
    StateCell::boxed(program.ops as usize, state, |(alloc, program, slots), units| {
        // SAFETY: there are as many slots as the program has, and each run frees all of its blocks.
        each(units, || unsafe { play(alloc.by_ref(), program, slots) })
    })
}

#[cfg(test)]
mod tests {
    use ephemera_trace::units::grouped;
    use ephemera_trace::{TraceEvent, What, Writer};

    use super::*;
    use crate::contenders::blocks::System;
    use crate::workloads::{Workload, catalogue};

    #[test]
    fn all_traces_are_present_and_complete() {
        let names = catalogue().into_iter().filter_map(|spec| match spec.workload {
            Workload::Replay(name, _) => Some(name),
            _ => None,
        });
        for name in names {
            let program = program(name);
            assert_eq!((program.lanes().len(), program.huge), (1, 0), "{}: one thread", name);
            assert!(program.ops > 10_000, "{}: {} operations", name, program.ops);
            let ended =
                ops(program).iter().filter(|op| op.action == Action::Free).count() + program.left().len();
            assert_eq!(asked(name), ended as u64, "{}", name);
            let said = format!(
                "{} calls, at most {} KiB live",
                grouped(program.ops),
                grouped(program.peak_live >> 10)
            );
            let rows = catalogue().into_iter().filter(|spec| match spec.workload {
                Workload::Replay(its, _) => its == name,
                _ => false,
            });
            for spec in rows {
                assert!(spec.title.ends_with(&said), "{} has {said}", spec.title);
            }
        }
    }

    #[test]
    fn the_histogram_is_that_of_the_peak() {
        let mut writer = Writer::new("a peak");
        let alloc =
            |block: u64, size, zeroed| What::Alloc { address: block << 8, size, align_log2: 3, zeroed };
        for (sequence, what) in (0..).zip([
            alloc(1, 8, false),
            alloc(2, 24, false),
            What::Resize { address: 1 << 8 },
            What::Resized { address: 1 << 8, size: 40 },
            alloc(3, 40, true),
            What::Free { address: 2 << 8 },
            What::Free { address: 3 << 8 },
            alloc(4, 100, false),
        ]) {
            writer.push(&TraceEvent { sequence, time: sequence, thread: 1, what });
        }
        let path = std::env::temp_dir().join(format!("ephemera-peak-{}", std::process::id()));
        writer.save(&path).expect("the directory for temporary files is writable");
        let program = Trace::open(&path).and_then(|trace| ReplayProgram::of(&trace)).expect("a whole trace");
        std::fs::remove_file(path).expect("the test wrote it");
        let held: Vec<(usize, u64)> =
            most(&program).into_iter().map(|(layout, count)| (layout.size(), count)).collect();
        assert_eq!(held, [(24, 1), (40, 2)]);
        let mut slots = vec![null_mut(); program.slots];
        // SAFETY: there are as many slots as the program has, and all are empty.
        unsafe { play(System.by_ref(), &program, &mut slots) };
    }
}
