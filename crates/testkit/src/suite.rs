//! Runs programs on a subject and checks every step with the oracle.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::OnceCell;
use core::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::config::{
    LIVE_BLOCKS, LIVE_BYTES, MODEST_ALIGN, MODEST_SIZE, RARE_ALIGN, RARE_ALIGN_LIVE, REFUSAL_POINTS,
};
use crate::job::{JobResult, ThreadJob};
use crate::ops::{Extent, Op, clamped};
use crate::oracle::Oracle;
use crate::program::Program;
use crate::subject::Subject;
use crate::violation::{Failure, Refusing, Stage, Violation};

/// The counts of the operations of one or more runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of blocks allocated.
    pub served: usize,
    /// The number of successful resizes.
    pub resized: usize,
    /// The number of requests that were refused for an allowed reason.
    pub refused: usize,
    /// The number of operations that the suite skipped, for example because no block was live, or
    /// because of a bound in [`config`](crate::config).
    pub skipped: usize,
    /// The number of blocks that another thread freed.
    pub handed_over: usize,
    /// The largest number of blocks that were live after an operation.
    pub peak: usize,
}

impl Report {
    /// Returns the sum of two reports. The peak of the sum is the larger of the two peaks.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            served: self.served + other.served,
            resized: self.resized + other.resized,
            refused: self.refused + other.refused,
            skipped: self.skipped + other.skipped,
            handed_over: self.handed_over + other.handed_over,
            peak: self.peak.max(other.peak),
        }
    }
}

/// Waits until no other thread has the turn to use global state, and takes the turn. The calling
/// thread keeps the turn until its exit is complete, so the exit hooks of an allocator cannot
/// disturb the next test.
///
/// Call this before the thread uses an allocator, because the standard library drops thread-local
/// values in the reverse order of their registration. A thread that has the turn may call this
/// function again. The threads that it spawns must not call it.
pub fn take_turn() {
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! {
        static HELD: OnceCell<MutexGuard<'static, ()>> = const { OnceCell::new() };
    }
    HELD.with(|held| {
        held.get_or_init(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// Runs `program` and returns the counts of its operations.
///
/// # Panics
///
/// Panics with the [`Failure`] if a violation is found.
pub fn run<S: Subject>(subject: &S, program: &Program) -> Report {
    try_run(subject, program).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs `program` and returns the counts of its operations. After a failure, the live blocks are
/// leaked.
///
/// # Errors
///
/// Returns the first violation.
pub fn try_run<S: Subject>(subject: &S, program: &Program) -> Result<Report, Failure> {
    try_run_refusing(subject, program, Refusing::Nothing)
}

/// Runs `program` without refusals, and then twice for each call that it makes to the backing
/// allocator: once with that call refused, and once with that call and all later ones refused. Each
/// run uses its own subject from `make`. At most [`REFUSAL_POINTS`] calls of a program are refused.
///
/// Returns the sum of the reports of all runs. Does nothing for a subject whose
/// [`Subject::refusals`] returns `None`.
///
/// # Panics
///
/// Panics with the [`Failure`] if a violation is found.
pub fn run_with_failures<S: Subject>(make: impl Fn() -> S, program: &Program) -> Report {
    try_run_with_failures(make, program).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Behaves like [`run_with_failures`], but returns a failure instead of panicking.
///
/// # Errors
///
/// Returns the first violation.
pub fn try_run_with_failures<S: Subject>(make: impl Fn() -> S, program: &Program) -> Result<Report, Failure> {
    let subject = make();
    if subject.refusals().is_none() {
        return Ok(Report::default());
    }
    let mut report = try_run(&subject, program)?;
    let calls = subject.refusals().map_or(0, |refusals| refusals.calls()) as usize;
    let points = calls.min(REFUSAL_POINTS);
    for point in 0..points {
        let call = (point * calls / points) as u64 + 1;
        for refusing in [Refusing::Once(call), Refusing::From(call)] {
            report = report.and(try_run_refusing(&make(), program, refusing)?);
        }
    }
    Ok(report)
}

fn try_run_refusing<S: Subject>(
    subject: &S,
    program: &Program,
    refusing: Refusing,
) -> Result<Report, Failure> {
    if S::GLOBAL_STATE {
        take_turn();
    }
    let fail = |violation, stage| Failure::new(violation, stage, refusing, program);

    let before = subject.finish(subject.fresh());
    if before != 0 && !S::GLOBAL_STATE {
        return Err(fail(Violation::BytesLeft { before: 0, after: before }, Stage::Fresh));
    }
    let alloc = subject.fresh();
    if let Some(refusals) = subject.refusals() {
        refusals.arm(refusing);
    }
    let mut run = Run { subject, alloc: &alloc, oracle: Oracle::new(S::EXACT), report: Report::default() };
    for (index, op) in program.ops().enumerate() {
        run.step(op).map_err(|violation| fail(violation, Stage::Op(index, op)))?;
        run.report.peak = run.report.peak.max(run.oracle.len());
    }
    run.close().map_err(|violation| fail(violation, Stage::Closing))?;
    let report = run.report;
    // Global state may still hold bytes that an earlier failed run left, so compare with the bytes
    // that were held before this run, not with zero.
    let after = subject.finish(alloc);
    if after > before {
        return Err(fail(Violation::BytesLeft { before, after }, Stage::Finish));
    }
    Ok(report)
}

/// Lets several threads exchange blocks of one allocator, if the subject can share its allocator.
/// Otherwise, one thread exchanges blocks with itself.
///
/// # Panics
///
/// Panics if a violation is found.
pub fn run_exchange<S: Subject>(subject: &S, seed: u64) {
    if S::GLOBAL_STATE {
        take_turn();
    }
    let before = subject.finish(subject.fresh());
    let alloc = subject.fresh();
    let done = subject.run_job(&alloc, ThreadJob::exchange(seed));
    assert!(done.thread != thread::current().id() || !S::HAND_OVER, "{}", Violation::NotElsewhere);
    if let Err(violation) = done.outcome {
        panic!("exchange with seed {seed}: {violation}");
    }
    let after = subject.finish(alloc);
    assert!(after <= before, "exchange with seed {seed}: {}", Violation::BytesLeft { before, after });
}

/// Returns whether the request is ordinary: every allocator must serve it, unless the backing
/// allocator refuses a call or [`Subject::may_refuse`] allows a refusal.
pub(crate) fn is_modest(layout: Layout) -> bool {
    layout.size() <= MODEST_SIZE && layout.align() <= MODEST_ALIGN
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resize {
    Grow,
    GrowZeroed,
    Shrink,
}

/// A run of a program in progress.
struct Run<'r, 's, S: Subject + 's> {
    subject: &'s S,
    alloc: &'r S::Alloc<'s>,
    oracle: Oracle,
    report: Report,
}

impl<S: Subject> Run<'_, '_, S> {
    fn step(&mut self, op: Op) -> Result<(), Violation> {
        match op {
            Op::Allocate { size, align } => {
                self.allocate(size, align, false, |run, layout| Ok(run.alloc.allocate(layout)))
            }
            Op::AllocateZeroed { size, align } => {
                self.allocate(size, align, true, |run, layout| Ok(run.alloc.allocate_zeroed(layout)))
            }
            Op::AllocateElsewhere { size, align } => self.allocate(size, align, false, |run, layout| {
                let done = run.run_job(ThreadJob::allocate(layout))?;
                Ok(done.given.map(|given| given.0))
            }),
            Op::Grow { pick, by } => self.resize(pick, by, None, Resize::Grow),
            Op::GrowZeroed { pick, by } => self.resize(pick, by, None, Resize::GrowZeroed),
            Op::GrowAlign { pick, by, align } => self.resize(pick, by, Some(align), Resize::Grow),
            Op::GrowZeroedAlign { pick, by, align } => self.resize(pick, by, Some(align), Resize::GrowZeroed),
            Op::Shrink { pick, by } => self.resize(pick, by, None, Resize::Shrink),
            Op::ShrinkAlign { pick, by, align } => self.resize(pick, by, Some(align), Resize::Shrink),
            Op::Free { pick } => self.free(usize::from(pick)),
            Op::FreeFifo => self.free(0),
            Op::FreeLifo => self.free(self.oracle.len().wrapping_sub(1)),
            Op::HandOver { pick, count } => self.hand_over(usize::from(pick), usize::from(count)),
            Op::Trim => {
                self.subject.trim(self.alloc);
                Ok(())
            }
            Op::CheckAll => self.oracle.check(),
        }
    }

    fn allocate(
        &mut self,
        size: Extent,
        align: usize,
        zeroed: bool,
        call: impl FnOnce(&Self, Layout) -> Result<Result<NonNull<[u8]>, AllocError>, Violation>,
    ) -> Result<(), Violation> {
        let layout = clamped(size.resolve(self.subject.sizes()), align);
        if self.oracle.len() >= LIVE_BLOCKS || !self.has_room(size, layout.size(), align) {
            return self.skip();
        }
        let refused_before = self.backing_refused();
        match call(self, layout)? {
            Ok(given) => {
                self.report.served += 1;
                // SAFETY: the allocator has just returned `given` for `layout`. The block is freed
                // only after `Oracle::remove` returned it.
                unsafe { self.oracle.insert(given, layout, zeroed) }
            }
            Err(AllocError) => self.refused(layout, refused_before),
        }
    }

    fn resize(&mut self, pick: u16, by: Extent, align: Option<usize>, how: Resize) -> Result<(), Violation> {
        let Some(index) = self.pick(usize::from(pick)) else {
            return self.skip();
        };
        let block = &self.oracle.blocks()[index];
        let (start, old) = (block.start(), block.layout());
        let align = align.unwrap_or(old.align());
        let size = match how {
            Resize::Grow | Resize::GrowZeroed => by.grown(old.size(), self.subject.sizes()),
            Resize::Shrink => by.shrunk(old.size(), self.subject.sizes()),
        };
        let new = clamped(size, align);
        // `clamped` may reduce a huge size below the old size, if the new alignment is larger.
        if how != Resize::Shrink && (new.size() < old.size() || !self.has_room(by, new.size(), align)) {
            return self.skip();
        }
        if align == RARE_ALIGN && !self.has_room(Extent::Bytes(0), 0, align) {
            return self.skip();
        }
        block.check()?;
        let refused_before = self.backing_refused();
        let given = match how {
            // SAFETY: this allocator allocated the live block with layout `old`, and `new` is not
            // smaller.
            Resize::Grow => unsafe { self.alloc.grow(start, old, new) },
            // SAFETY: this allocator allocated the live block with layout `old`, and `new` is not
            // smaller.
            Resize::GrowZeroed => unsafe { self.alloc.grow_zeroed(start, old, new) },
            // SAFETY: this allocator allocated the live block with layout `old`, and `new` is not
            // larger.
            Resize::Shrink => unsafe { self.alloc.shrink(start, old, new) },
        };
        match given {
            Ok(given) => {
                self.report.resized += 1;
                // SAFETY: the allocator has just returned `given` for block `index` and layout
                // `new`.
                unsafe { self.oracle.resized(index, given, new, how == Resize::GrowZeroed) }
            }
            Err(AllocError) => self.refused(new, refused_before),
        }
    }

    fn free(&mut self, pick: usize) -> Result<(), Violation> {
        let Some(index) = self.pick(pick) else {
            return self.skip();
        };
        let block = self.oracle.remove(index)?;
        // SAFETY: this allocator allocated the block.
        unsafe { block.free(self.alloc) };
        Ok(())
    }

    fn hand_over(&mut self, pick: usize, count: usize) -> Result<(), Violation> {
        let mut blocks = Vec::new();
        for _ in 0..count {
            if let Some(index) = self.pick(pick) {
                blocks.push(self.oracle.remove(index)?);
            }
        }
        if blocks.is_empty() {
            return self.skip();
        }
        if S::HAND_OVER {
            self.report.handed_over += blocks.len();
        }
        // SAFETY: `run_job` runs the job with the allocator of this run, which allocated all
        // the blocks.
        let job = unsafe { ThreadJob::free(blocks) };
        self.run_job(job).map(drop)
    }

    /// Checks the remaining blocks, and then alternately frees the oldest and the newest.
    fn close(&mut self) -> Result<(), Violation> {
        self.oracle.check()?;
        while !self.oracle.is_empty() {
            self.free(0)?;
            if !self.oracle.is_empty() {
                self.free(self.oracle.len() - 1)?;
            }
        }
        Ok(())
    }

    fn run_job(&self, job: ThreadJob) -> Result<JobResult, Violation> {
        let done = self.subject.run_job(self.alloc, job);
        if S::HAND_OVER && done.thread == thread::current().id() {
            return Err(Violation::NotElsewhere);
        }
        done.outcome.map(|()| done)
    }

    /// Checks that a refusal is allowed and did not change any block. A refusal is allowed if the
    /// backing allocator refused, if the request is not modest, or if [`Subject::may_refuse`]
    /// returns `true`.
    fn refused(&mut self, layout: Layout, refused_before: u64) -> Result<(), Violation> {
        if is_modest(layout) && self.backing_refused() == refused_before && !self.subject.may_refuse(layout) {
            return Err(Violation::Refused { layout });
        }
        self.report.refused += 1;
        self.oracle.check()
    }

    fn backing_refused(&self) -> u64 {
        self.subject.refusals().map_or(0, |refusals| refusals.refused())
    }

    fn has_room(&self, extent: Extent, size: usize, align: usize) -> bool {
        let rare = |&align: &usize| align == RARE_ALIGN;
        let aligns = self.oracle.blocks().iter().map(|block| block.layout().align());
        if rare(&align) && aligns.filter(rare).count() >= RARE_ALIGN_LIVE {
            return false;
        }
        if extent.is_huge() {
            return S::REFUSES_HUGE || !cfg!(miri);
        }
        self.oracle.bytes().saturating_add(size) <= LIVE_BYTES
    }

    fn pick(&self, pick: usize) -> Option<usize> {
        pick.checked_rem(self.oracle.len())
    }

    fn skip(&mut self) -> Result<(), Violation> {
        self.report.skipped += 1;
        Ok(())
    }
}
