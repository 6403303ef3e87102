//! One allocator, all `Allocator` traits.
//!
//! There are three traits of that name that containers ask for, all with the same six methods:
//!
//! | trait | spoken by | implemented |
//! |---|---|---|
//! | `allocator_api2::alloc::Allocator`, 0.2 | hashbrown, bumpalo, most others | always |
//! | `allocator_api2::alloc::Allocator`, 0.4 | newer users of that crate | with feature `allocator-api2-04` |
//! | `core::alloc::Allocator` | the standard library's containers | where the compiler offers it without a gate |
//!
//! An allocator has the six methods as inherent methods, with the [`AllocError`] of this module, and one
//! line of [`impl_allocator!`](crate::impl_allocator) that makes them an implementation of each trait.
//!
//! # When two of them are the same trait
//!
//! With its feature `nightly`, allocator-api2 0.2 has no trait of its own and re-exports the standard one.
//! Features are united over the whole build, so any package may turn that on. Then:
//!
//! * Where the standard trait needs no gate, the compiler refuses the second implementation (E0119,
//!   "conflicting implementations"). Turn on feature `nightly` here too, or build with
//!   `RUSTFLAGS='--cfg ephemera_no_std_allocator'`: either leaves the implementation for allocator-api2's
//!   name of the trait, which is the standard one.
//! * Where it needs one (nightly compilers before 1.100), uses of the trait are refused (E0658). Turn on
//!   feature `nightly`, which opens the gate. It does so for this package only: every package that names
//!   the trait, or invokes [`impl_allocator!`](crate::impl_allocator), opens it for itself.
//!
//! # A note on clones
//!
//! allocator-api2 demands that a clone of an allocator acts as the same allocator. The standard trait does
//! not (there it is a promise of its own). Code that takes any `A: Allocator + Clone` must not free to one
//! clone what another allocated, since with feature `nightly` the `A` may be of the second kind.

pub use allocator_api2::alloc::{AllocError, Allocator};

/// Implements every `Allocator` trait for a type that has the six methods as inherent methods.
///
/// The type needs, callable as `Self::name`:
///
/// ```text
///        fn allocate       (&self, Layout)                       -> Result<NonNull<[u8]>, AllocError>
///        fn allocate_zeroed(&self, Layout)                       -> Result<NonNull<[u8]>, AllocError>
/// unsafe fn deallocate     (&self, NonNull<u8>, Layout)
/// unsafe fn grow           (&self, NonNull<u8>, Layout, Layout)  -> Result<NonNull<[u8]>, AllocError>
/// unsafe fn grow_zeroed    (&self, NonNull<u8>, Layout, Layout)  -> Result<NonNull<[u8]>, AllocError>
/// unsafe fn shrink         (&self, NonNull<u8>, Layout, Layout)  -> Result<NonNull<[u8]>, AllocError>
/// ```
///
/// where `AllocError` is [`traits::AllocError`](crate::traits::AllocError). Generic parameters stand in
/// square brackets, further bounds may follow in a `where` clause. A method that is missing is a compile
/// error. It is never replaced by the default of the trait.
///
/// # Safety
///
/// The word `unsafe` in the invocation is the promise that the inherent methods keep the contracts of all
/// the traits: blocks are valid, disjoint and fit their layouts, clones and moved values are equivalent
/// allocators, and no method unwinds.
///
/// # Examples
///
/// ```
/// # #![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]
/// # #[cfg(feature = "alloc")] mod example {
/// use core::alloc::Layout;
/// use core::ptr::NonNull;
/// use ephemera_prim::traits::{AllocError, Allocator};
///
/// /// Hands requests on to another allocator.
/// #[derive(Clone)]
/// struct Through<A>(A);
///
/// impl<A: Allocator> Through<A> {
///     fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
///         self.0.allocate(layout)
///     }
/// #   fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
/// #       self.0.allocate_zeroed(layout)
/// #   }
///     // ...
/// #   unsafe fn grow(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.grow(p, o, n) }
/// #   }
/// #   unsafe fn grow_zeroed(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.grow_zeroed(p, o, n) }
/// #   }
/// #   unsafe fn shrink(&self, p: NonNull<u8>, o: Layout, n: Layout) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.shrink(p, o, n) }
/// #   }
///     unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
///         unsafe { self.0.deallocate(block, layout) }
///     }
/// }
///
/// // SAFETY: every method is that of an allocator, which is cloned and moved along.
/// ephemera_prim::impl_allocator!(unsafe impl[A: Allocator] for Through<A>);
///
/// # pub fn main() {
/// fn takes_an_allocator(_: impl Allocator) {}
/// takes_an_allocator(Through(allocator_api2::alloc::Global));
/// # }}
/// # #[cfg(feature = "alloc")] example::main();
/// ```
///
/// Without one of the methods there is no implementation:
///
/// ```compile_fail
/// # use core::alloc::Layout;
/// # use core::ptr::NonNull;
/// use ephemera_prim::traits::{AllocError, Allocator};
///
/// struct OnlyAllocates;
///
/// impl OnlyAllocates {
///     fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
///         Err(AllocError)
///     }
/// }
///
/// ephemera_prim::impl_allocator!(unsafe impl[] for OnlyAllocates);
/// ```
#[macro_export]
macro_rules! impl_allocator {
    (unsafe impl[$($generics:tt)*] for $allocator:ty $(where $($bounds:tt)+)?) => {
        $crate::__impl_allocator_one!(api02, [$($generics)*], $allocator, [$(where $($bounds)+)?]);
        $crate::__impl_allocator_api04!(api04, [$($generics)*], $allocator, [$(where $($bounds)+)?]);
        $crate::__impl_allocator_standard!(standard, [$($generics)*], $allocator, [$(where $($bounds)+)?]);
    };
}

/// The implementation of one trait, named by its module in `__reexport`.
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_one {
    ($api:ident, [$($generics:tt)*], $allocator:ty, [$($bounds:tt)*]) => {
        // SAFETY: whoever wrote `unsafe impl[...]` vouches for the inherent methods.
        unsafe impl<$($generics)*> $crate::traits::__reexport::$api::Allocator for $allocator $($bounds)* {
            #[inline]
            fn allocate(
                &self,
                layout: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::Block {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                Self::allocate(self, layout).map_err($crate::traits::__reexport::$api::error)
            }

            #[inline]
            fn allocate_zeroed(
                &self,
                layout: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::Block {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                Self::allocate_zeroed(self, layout).map_err($crate::traits::__reexport::$api::error)
            }

            #[inline]
            unsafe fn deallocate(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                layout: $crate::traits::__reexport::Layout,
            ) {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the contract of the trait, kept by the caller, is the contract of the method.
                unsafe { Self::deallocate(self, block, layout) }
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                old: $crate::traits::__reexport::Layout,
                new: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::Block {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the contract of the trait, kept by the caller, is the contract of the method.
                unsafe { Self::grow(self, block, old, new) }
                    .map_err($crate::traits::__reexport::$api::error)
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                old: $crate::traits::__reexport::Layout,
                new: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::Block {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the contract of the trait, kept by the caller, is the contract of the method.
                unsafe { Self::grow_zeroed(self, block, old, new) }
                    .map_err($crate::traits::__reexport::$api::error)
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                old: $crate::traits::__reexport::Layout,
                new: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::Block {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the contract of the trait, kept by the caller, is the contract of the method.
                unsafe { Self::shrink(self, block, old, new) }
                    .map_err($crate::traits::__reexport::$api::error)
            }
        }
    };
}

// The features and cfgs of this package decide, not those of the package that invokes the macro.

/// Implements the trait of allocator-api2 0.4.
#[cfg(feature = "allocator-api2-04")]
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_api04 {
    ($($request:tt)*) => {
        $crate::__impl_allocator_one!($($request)*);
    };
}

/// Feature `allocator-api2-04` is off: nothing.
#[cfg(not(feature = "allocator-api2-04"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_api04 {
    ($($request:tt)*) => {};
}

/// Implements the standard trait.
#[cfg(all(ephemera_std_allocator, not(feature = "nightly")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_standard {
    ($($request:tt)*) => {
        $crate::__impl_allocator_one!($($request)*);
    };
}

/// The standard trait needs a gate, or is the one of allocator-api2 0.2: nothing.
#[cfg(not(all(ephemera_std_allocator, not(feature = "nightly"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_standard {
    ($($request:tt)*) => {};
}

/// What the expansion of [`impl_allocator!`](crate::impl_allocator) names. Not public API.
#[doc(hidden)]
pub mod __reexport {
    pub use core::alloc::Layout;
    pub use core::ptr::NonNull;

    /// Has methods of the same names for every type. The method that an implementation is about to define
    /// is a candidate for its own body, so where the inherent method is missing, it would call itself. With
    /// this trait in scope the name is ambiguous, and that is an error. Inherent methods win over both.
    pub trait InherentMethodMissing {
        fn allocate(_: Missing) {}
        fn allocate_zeroed(_: Missing) {}
        fn deallocate(_: Missing) {}
        fn grow(_: Missing) {}
        fn grow_zeroed(_: Missing) {}
        fn shrink(_: Missing) {}
    }

    impl<T: ?Sized> InherentMethodMissing for T {}

    /// Named by the compiler's message where a method is missing.
    #[derive(Debug)]
    pub enum Missing {}

    pub mod api02 {
        pub use allocator_api2::alloc::{AllocError, Allocator};

        pub type Block = Result<super::NonNull<[u8]>, AllocError>;

        #[inline]
        #[must_use]
        pub const fn error(error: AllocError) -> AllocError {
            error
        }
    }

    #[cfg(feature = "allocator-api2-04")]
    pub mod api04 {
        pub use allocator_api2_04::alloc::{AllocError, Allocator};

        pub type Block = Result<super::NonNull<[u8]>, AllocError>;

        #[inline]
        #[must_use]
        pub const fn error(_: super::api02::AllocError) -> AllocError {
            AllocError
        }
    }

    #[cfg(all(ephemera_std_allocator, not(feature = "nightly")))]
    #[expect(
        clippy::incompatible_msrv,
        reason = "compiled only where the build script saw the trait compile"
    )]
    pub mod standard {
        pub use core::alloc::{AllocError, Allocator};

        pub type Block = Result<super::NonNull<[u8]>, AllocError>;

        #[inline]
        #[must_use]
        pub const fn error(_: super::api02::AllocError) -> AllocError {
            AllocError
        }
    }
}
