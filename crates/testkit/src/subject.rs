//! The allocator that is tested.

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use crate::backing::Refusals;
use crate::errand::{Done, Errand};

/// An allocator under test, with what the suite has to know about it.
///
/// The subject owns what lies below, the allocator borrows from it: `Alloc<'s>` may be `RingAlloc<&'s Hostile>`,
/// an allocator over [`Shared`](crate::backing::Shared), or a zero-sized type with global state.
///
/// Only [`fresh`](Subject::fresh) and [`finish`](Subject::finish) have to be written. A subject whose allocator is
/// `Sync` adds the same two lines each time:
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
    /// The allocator: usually a handle that is cheap to clone, or a reference.
    type Alloc<'s>: Allocator
    where
        Self: 's;

    /// Whether [`Subject::elsewhere`] uses another thread. The suite checks that it does.
    const HAND_OVER: bool = false;

    /// Whether all subjects of this type share state, so that only one program may run at a time.
    ///
    /// Tests outside the suite that touch the same state hold [`suite::turn`](crate::suite::turn) meanwhile.
    const GLOBAL_STATE: bool = false;

    /// Whether slices are exactly as long as was asked for.
    const EXACT: bool = true;

    /// Whether what lies below refuses absurd sizes by itself, as [`Hostile`](crate::backing::Hostile) does.
    /// Where it does not, Miri is spared them: it ends the program over one.
    const REFUSES_HUGE: bool = false;

    /// An allocator that serves nothing yet. It may be called several times, one after the other.
    fn fresh(&self) -> Self::Alloc<'_>;

    /// Sizes at which the allocator changes its ways: class edges, chunk sizes, the largest that it serves itself.
    fn sizes(&self) -> &[usize] {
        &[]
    }

    /// Whether an ordinary request may be refused although the backing allocator refused nothing, as under a cap.
    fn may_refuse(&self, _layout: Layout) -> bool {
        false
    }

    /// Gives back what can be given back now.
    fn trim(&self, _alloc: &Self::Alloc<'_>) {}

    /// Runs an errand: on another thread if the allocator can be used there, else here.
    fn elsewhere(&self, alloc: &Self::Alloc<'_>, errand: Errand) -> Done {
        errand.run_here(alloc)
    }

    /// Where to arm refusals of the backing allocator, if they can be had.
    fn refusals(&self) -> Option<&Refusals> {
        None
    }

    /// Ends `alloc`, of which every block was freed, and says how many bytes are still held from below: 0 is right.
    fn finish(&self, alloc: Self::Alloc<'_>) -> usize;
}
