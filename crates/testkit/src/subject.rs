//! The allocator under test.

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use crate::backing::Refusals;
use crate::errand::{Done, Errand};

/// An allocator under test, with the facts that the suite needs.
///
/// The subject owns the backing allocator, and the allocator under test borrows from it. So
/// `Alloc<'s>` may be `RingAlloc<&'s Hostile>`, an allocator over
/// [`Shared`](crate::backing::Shared), or a zero-sized type with global state.
///
/// Only [`fresh`](Subject::fresh) and [`finish`](Subject::finish) are required. A subject whose
/// allocator is `Sync` also has these lines:
///
/// ```
/// # use allocator_api2::alloc::Global;
/// # use ephemera_testkit::subject::Subject;
/// use ephemera_testkit::errand::{Done, Errand};
/// # struct Plain;
/// # impl Subject for Plain {
/// #     type Alloc<'s> = Global;
/// #     fn fresh(&self) -> Global { Global }
/// #     fn finish(&self, _alloc: Global) -> usize { 0 }
/// const HAND_OVER: bool = true;
///
/// fn elsewhere(&self, alloc: &Self::Alloc<'_>, errand: Errand) -> Done {
///     errand.run_elsewhere(alloc)
/// }
/// # }
/// ```
pub trait Subject {
    /// The type of the allocator, usually a reference or a handle that is cheap to clone.
    type Alloc<'s>: Allocator
    where
        Self: 's;

    /// Whether [`Subject::elsewhere`] uses another thread. If so, the suite checks that.
    const HAND_OVER: bool = false;

    /// Whether all subjects of this type share state. If so, only one program runs at a time.
    ///
    /// Tests outside the suite that use the same state must hold
    /// [`suite::take_turn`](crate::suite::take_turn).
    const GLOBAL_STATE: bool = false;

    /// Whether returned slices have exactly the requested length.
    const EXACT: bool = true;

    /// Whether the backing allocator refuses absurd sizes by itself, as
    /// [`Hostile`](crate::backing::Hostile) does. If not, the suite does not request them under
    /// Miri, which would end the program.
    const REFUSES_HUGE: bool = false;

    /// Returns an allocator without blocks. The suite may call this several times, one after the
    /// other.
    fn fresh(&self) -> Self::Alloc<'_>;

    /// Returns the sizes at which the allocator changes its behaviour: class edges, chunk sizes,
    /// the largest size that it does not pass on to the backing allocator.
    fn sizes(&self) -> &[usize] {
        &[]
    }

    /// Returns whether the allocator may refuse an ordinary request although the backing allocator
    /// refused nothing, for instance because of a cap.
    fn may_refuse(&self, _layout: Layout) -> bool {
        false
    }

    /// Has the allocator return as much memory to the backing allocator as it can now.
    fn trim(&self, _alloc: &Self::Alloc<'_>) {}

    /// Runs an errand: on another thread if the allocator can be shared, and on the calling thread
    /// otherwise.
    fn elsewhere(&self, alloc: &Self::Alloc<'_>, errand: Errand) -> Done {
        errand.run_here(alloc)
    }

    /// Returns the control of the backing allocator's refusals, if it has one.
    fn refusals(&self) -> Option<&Refusals> {
        None
    }

    /// Ends the use of `alloc` after all its blocks were freed. Returns how many bytes are still
    /// held from the backing allocator, which should be 0.
    fn finish(&self, alloc: Self::Alloc<'_>) -> usize;
}
