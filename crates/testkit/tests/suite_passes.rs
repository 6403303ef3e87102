//! Tests that the suite passes for correct subjects of each form that a subject may have.

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use ephemera_testkit::allocator_suite;
use ephemera_testkit::backing::{Counting, Hostile, Refusals, Shared};
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::program::{Profile, Program};
use ephemera_testkit::subject::Subject;
use ephemera_testkit::suite::{run, run_with_failures};

/// A subject that any thread may use, over the stack of hostile backing allocators.
#[derive(Default)]
struct Everywhere(Hostile);

impl Subject for Everywhere {
    type Alloc<'s> = &'s Hostile;
    const HAND_OVER: bool = true;
    const REFUSES_HUGE: bool = true;

    fn fresh(&self) -> Self::Alloc<'_> {
        &self.0
    }

    fn sizes(&self) -> &[usize] {
        &[24, 48, 256, 1024]
    }

    fn run_job(&self, alloc: &Self::Alloc<'_>, job: ThreadJob) -> JobResult {
        job.run_elsewhere(alloc)
    }

    fn refusals(&self) -> Option<&Refusals> {
        Some(self.0.refusals())
    }

    fn finish(&self, _alloc: Self::Alloc<'_>) -> usize {
        assert_eq!(self.0.outstanding(), []);
        self.0.held().bytes
    }
}

allocator_suite!(everywhere, Everywhere::default());

/// A handle that is bound to its thread and shares the ownership of its backing allocator.
#[derive(Clone)]
struct Bound {
    backing: Shared<Hostile>,
    to_thread: PhantomData<Rc<()>>,
}

// SAFETY: every call goes to the backing allocator, which meets the contract and which all clones
// share. The resizing methods are the default ones.
unsafe impl Allocator for Bound {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.backing.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds the method's contract, which is the same for the inner
        // allocator.
        unsafe { self.backing.deallocate(ptr, layout) };
    }
}

#[derive(Default)]
struct OneThread(Shared<Hostile>);

impl Subject for OneThread {
    type Alloc<'s> = Bound;
    const REFUSES_HUGE: bool = true;

    fn fresh(&self) -> Bound {
        Bound { backing: self.0.clone(), to_thread: PhantomData }
    }

    fn refusals(&self) -> Option<&Refusals> {
        Some(self.0.refusals())
    }

    fn finish(&self, alloc: Bound) -> usize {
        drop(alloc);
        self.0.held().bytes
    }
}

allocator_suite!(one_thread, OneThread::default());

/// An allocator of size zero, whose state is a static.
#[derive(Clone, Copy)]
struct ZeroSized;

static STATE: Counting = Counting::new();

// SAFETY: every call goes to one static allocator, which meets the contract.
unsafe impl Allocator for ZeroSized {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        STATE.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds the method's contract, which is the same for the inner
        // allocator.
        unsafe { STATE.deallocate(ptr, layout) };
    }
}

struct Static;

impl Subject for Static {
    type Alloc<'s> = ZeroSized;
    const HAND_OVER: bool = true;
    const GLOBAL_STATE: bool = true;

    fn fresh(&self) -> ZeroSized {
        ZeroSized
    }

    fn run_job(&self, alloc: &ZeroSized, job: ThreadJob) -> JobResult {
        job.run_elsewhere(alloc)
    }

    fn finish(&self, _alloc: ZeroSized) -> usize {
        STATE.held().bytes
    }
}

allocator_suite!(zero_sized, Static);

/// A subject that tests the global allocator itself, whose blocks can grow in place.
struct Plain(Counting);

impl Subject for Plain {
    type Alloc<'s> = &'s Counting;

    fn fresh(&self) -> Self::Alloc<'_> {
        &self.0
    }

    fn finish(&self, _alloc: Self::Alloc<'_>) -> usize {
        self.0.held().bytes
    }
}

allocator_suite!(plain, Plain(Counting::over(Global)));

#[test]
fn run_reports_its_operations() {
    let subject = Everywhere::default();
    let report = run(&subject, &Program::from_seed(1, 300, Profile::Mixed));
    assert!(
        report.served > 50 && report.resized > 5 && report.handed_over > 0 && report.peak > 5,
        "{report:?}"
    );
    let calls = subject.0.calls();
    assert!(calls.allocate > 0 && calls.allocate_zeroed > 0 && calls.grow > 0, "{calls:?}");
    assert!(calls.grow_zeroed > 0 && calls.shrink > 0 && calls.deallocate > 0, "{calls:?}");
}

#[test]
fn every_backing_call_is_refused_in_turn() {
    let program = Program::from_seed(2, 20, Profile::Resize);
    let subject = Everywhere::default();
    run(&subject, &program);
    let calls = subject.0.refusals().calls();
    assert!(calls > 5);
    let report = run_with_failures(Everywhere::default, &program);
    // In each run, at least one request fails, whether the backing allocator refuses one call, or
    // that call and all later ones.
    let points = usize::try_from(calls).expect("few calls").min(ephemera_testkit::config::REFUSAL_POINTS);
    assert!(report.refused >= 2 * points, "{report:?}, {calls} calls");
}
