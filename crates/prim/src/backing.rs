//! Newtypes for backing allocators that implement another `Allocator` trait.
//!
//! A *backing allocator* is the allocator from which an allocator of this workspace takes its
//! memory. Any implementor of `allocator_api2::alloc::Allocator` of version 0.2 can serve as one. A
//! type that implements another version of the trait must be wrapped in a newtype:
//!
//! * `Api04<A>` for the trait of allocator-api2 0.4 (feature `allocator-api2-04`),
//! * `Std<A>` for `core::alloc::Allocator` (where the compiler offers it without a gate, or with
//!   feature `nightly`).
//!
//! A newtype forwards all six methods, so a backing allocator keeps its own way to grow in place or
//! to return zeroed memory. The error types carry no data, so their conversion loses no
//! information.
//!
//! A newtype has the same layout as the type that it wraps.

#[cfg(any(feature = "allocator-api2-04", feature = "nightly", ephemera_std_allocator))]
use crate::traits::Allocator;

/// Implements the trait of allocator-api2 0.2 for an allocator of version 0.4.
///
/// # Examples
///
/// ```
/// # #![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]
/// use allocator_api2_04::alloc::Allocator as Allocator04;
/// use ephemera_prim::backing::Api04;
/// use ephemera_prim::traits::Allocator;
///
/// fn as_backing<A: Allocator04>(allocator: A) -> impl Allocator {
///     Api04(allocator)
/// }
/// ```
#[cfg(feature = "allocator-api2-04")]
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Api04<A>(pub A);

#[cfg(feature = "allocator-api2-04")]
// SAFETY: every method forwards to the wrapped trait, whose contract is the same: a block stays
// valid while an equivalent allocator exists, and every such allocator can free and resize the
// block. Clones of the wrapped type are equivalent.
unsafe impl<A: allocator_api2_04::alloc::Allocator> Allocator for Api04<A> {
    crate::__forward_allocator!(|self| self.0, allocator_api2_04::alloc::Allocator);
}

#[cfg(any(ephemera_std_allocator, feature = "nightly"))]
pub use self::standard::Std;

#[cfg(any(ephemera_std_allocator, feature = "nightly"))]
#[cfg_attr(
    ephemera_std_allocator,
    expect(clippy::incompatible_msrv, reason = "compiled only where the build script saw the trait compile")
)]
mod standard {
    use super::Allocator;

    /// Implements the trait of allocator-api2 0.2 for an allocator of the standard trait.
    ///
    /// The standard trait does not promise that a clone of an allocator can free the blocks of the
    /// original. The trait of allocator-api2 does, so `Std` is `Clone` only around types whose
    /// clones are known to be equivalent: references, `Rc`, `Arc`, `Global` and `System`. To share
    /// an allocator of any other type, wrap a reference or an `Arc` to it in `Std`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #![cfg_attr(all(feature="nightly", not(ephemera_std_allocator)), feature(allocator_api))]
    /// # #[cfg(feature = "alloc")] {
    /// # extern crate alloc;
    /// use ephemera_prim::backing::Std;
    /// use ephemera_prim::traits::Allocator;
    ///
    /// fn takes_an_allocator(_: impl Allocator + Clone) {}
    /// takes_an_allocator(Std(alloc::alloc::Global));
    /// # }
    /// ```
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct Std<A>(pub A);

    // SAFETY: every method forwards to the wrapped trait, whose contract is the same but for
    // clones: a block stays valid while an equivalent allocator exists, and every such allocator
    // can free and resize the block. `Std` is `Clone` only around types whose clones are
    // equivalent.
    unsafe impl<A: core::alloc::Allocator> Allocator for Std<A> {
        crate::__forward_allocator!(|self| self.0, core::alloc::Allocator);
    }

    impl<A: EquivalentClones> Clone for Std<A> {
        #[inline]
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    impl<A: EquivalentClones + Copy> Copy for Std<A> {}

    /// A type whose clones are equivalent allocators.
    trait EquivalentClones: Clone {}

    impl<A: ?Sized> EquivalentClones for &A {}
    #[cfg(feature = "alloc")]
    impl<A: ?Sized> EquivalentClones for alloc::rc::Rc<A> {}
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    impl<A: ?Sized> EquivalentClones for alloc::sync::Arc<A> {}
    #[cfg(feature = "alloc")]
    impl EquivalentClones for alloc::alloc::Global {}
    #[cfg(feature = "std")]
    impl EquivalentClones for std::alloc::System {}
}
