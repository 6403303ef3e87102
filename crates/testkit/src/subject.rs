//! Defines the trait [`Subject`], which describes the allocator under test.

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use crate::backing::Refusals;
use crate::job::{JobResult, ThreadJob};

/// An allocator under test, with the facts that the suite needs.
///
/// The subject usually owns the backing allocator, and the allocator under test may borrow from the
/// subject. For example, `Alloc<'s>` may be `RingAlloc<&'s Hostile>`, an allocator over
/// [`Shared`](crate::backing::Shared), or a zero-sized type with global state.
///
/// [`fresh`](Subject::fresh) and [`finish`](Subject::finish) are the only required methods. A
/// subject whose allocator is `Sync` should also have these lines:
///
/// ```
/// # use allocator_api2::alloc::Global;
/// # use ephemera_testkit::subject::Subject;
/// use ephemera_testkit::job::{JobResult, ThreadJob};
/// # struct Plain;
/// # impl Subject for Plain {
/// #     type Alloc<'s> = Global;
/// #     fn fresh(&self) -> Global { Global }
/// #     fn finish(&self, _alloc: Global) -> usize { 0 }
/// const HAND_OVER: bool = true;
///
/// fn run_job(&self, alloc: &Self::Alloc<'_>, job: ThreadJob) -> JobResult {
///     job.run_elsewhere(alloc)
/// }
/// # }
/// ```
pub trait Subject {
    /// The type of the allocator, usually a reference or a handle that is cheap to clone.
    type Alloc<'s>: Allocator
    where
        Self: 's;

    /// Whether [`Subject::run_job`] runs jobs on another thread. If so, the suite checks the
    /// thread of each job.
    const HAND_OVER: bool = false;

    /// Whether all subjects of this type share state. If so, the suite runs only one program at a
    /// time.
    ///
    /// Tests outside the suite that use the same state must first call
    /// [`suite::take_turn`](crate::suite::take_turn).
    const GLOBAL_STATE: bool = false;

    /// Whether returned slices have exactly the requested length.
    const EXACT: bool = true;

    /// Whether the backing allocator refuses absurd sizes by itself, as
    /// [`Hostile`](crate::backing::Hostile) does. If not, the suite does not request such sizes
    /// under Miri, because Miri would end the program.
    const REFUSES_HUGE: bool = false;

    /// Returns an allocator without blocks. The suite calls this method several times, and finishes
    /// each allocator before it requests the next one.
    fn fresh(&self) -> Self::Alloc<'_>;

    /// Returns the sizes at which the allocator changes its behaviour: class edges, chunk sizes,
    /// and the largest size that it does not pass on to the backing allocator.
    fn sizes(&self) -> &[usize] {
        &[]
    }

    /// Returns whether the allocator may refuse this ordinary request although the backing
    /// allocator refused nothing. One reason is a limit on the allocator's memory.
    fn may_refuse(&self, _layout: Layout) -> bool {
        false
    }

    /// Asks the allocator to return as much memory to the backing allocator as it can. By default,
    /// does nothing.
    fn trim(&self, _alloc: &Self::Alloc<'_>) {}

    /// Runs a job. By default, runs it on the calling thread. Subjects whose allocator is
    /// `Sync` should run it on another thread.
    fn run_job(&self, alloc: &Self::Alloc<'_>, job: ThreadJob) -> JobResult {
        job.run_here(alloc)
    }

    /// Returns the [`Refusals`] of the backing allocator, or `None` if it has none, which is the
    /// default.
    fn refusals(&self) -> Option<&Refusals> {
        None
    }

    /// Drops `alloc` after all of its blocks have been freed. Returns the number of bytes still
    /// held from the backing allocator, which should be 0, or no more than before the run if the
    /// subject has global state.
    fn finish(&self, alloc: Self::Alloc<'_>) -> usize;
}
