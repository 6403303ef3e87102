//! Implements all `Allocator` traits for an allocator from one set of methods.
//!
//! Containers require one of three traits of that name. All three have the same six methods:
//!
//! | trait | used by | implemented |
//! |---|---|---|
//! | `allocator_api2::alloc::Allocator`, 0.2 | hashbrown, bumpalo, most others | always |
//! | `allocator_api2::alloc::Allocator`, 0.4 | newer users of that crate | with feature `allocator-api2-04` |
//! | `core::alloc::Allocator` | the standard library's containers | where the compiler offers it without a feature gate |
//!
//! An allocator defines the six methods as inherent methods, with the [`AllocError`] of this module
//! as their error. One invocation of [`impl_allocator!`](crate::impl_allocator) then implements
//! each trait.
//!
//! # When two of these traits are the same one
//!
//! With its feature `nightly`, allocator-api2 0.2 re-exports the standard trait instead of its own.
//! Cargo unifies features across the whole build, so any package may turn on this feature. In that
//! case:
//!
//! * If the standard trait is usable without a feature gate, the compiler refuses the second
//!   implementation (E0119, "conflicting implementations"). Turn on feature `nightly` of this crate
//!   too, or build with `RUSTFLAGS='--cfg ephemera_no_std_allocator'`. Either measure leaves only
//!   the implementation under allocator-api2's name.
//! * If the standard trait needs a gate (nightly compilers before 1.100), the compiler refuses uses
//!   of the trait (E0658). Turn on feature `nightly` of this crate, which opens the gate for this
//!   package. Every other package that names the trait, or invokes
//!   [`impl_allocator!`](crate::impl_allocator), must open the gate itself.
//!
//! # Clones
//!
//! allocator-api2 demands that a clone of an allocator acts as the same allocator. The standard
//! trait does not demand this, and with feature `nightly`, the standard trait may be the only one
//! that an `A: Allocator + Clone` implements. Code that is generic over such an `A` must therefore
//! not allocate a block through one clone and free it through another.

pub use allocator_api2::alloc::{AllocError, Allocator};

/// The result of an allocator's methods: a block, or an error if the allocator refuses the request.
pub type BlockResult = Result<core::ptr::NonNull<[u8]>, AllocError>;

/// Implements every `Allocator` trait for a type that has the six methods as inherent methods.
///
/// The type needs these methods, callable as `Self::name`:
///
/// ```text
///        fn allocate       (&self, Layout)                      -> BlockResult
///        fn allocate_zeroed(&self, Layout)                      -> BlockResult
/// unsafe fn deallocate     (&self, NonNull<u8>, Layout)
/// unsafe fn grow           (&self, NonNull<u8>, Layout, Layout) -> BlockResult
/// unsafe fn grow_zeroed    (&self, NonNull<u8>, Layout, Layout) -> BlockResult
/// unsafe fn shrink         (&self, NonNull<u8>, Layout, Layout) -> BlockResult
/// ```
///
/// [`BlockResult`](crate::traits::BlockResult) is the result type of the module `traits`. In the
/// invocation, write generic parameters in square brackets. A `where` clause may follow the type. A
/// missing method is a compile error; the macro never falls back to the trait's default.
///
/// # Safety
///
/// By writing `unsafe` in the invocation, the caller promises that the inherent methods uphold the
/// contracts of all three traits: blocks are valid, disjoint and fit their layouts; clones and
/// moved values are equivalent allocators; no method unwinds.
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
/// /// Forwards requests to another allocator.
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
/// #   unsafe fn grow(
/// #       &self, p: NonNull<u8>, o: Layout, n: Layout,
/// #   ) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.grow(p, o, n) }
/// #   }
/// #   unsafe fn grow_zeroed(
/// #       &self, p: NonNull<u8>, o: Layout, n: Layout,
/// #   ) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.grow_zeroed(p, o, n) }
/// #   }
/// #   unsafe fn shrink(
/// #       &self, p: NonNull<u8>, o: Layout, n: Layout,
/// #   ) -> Result<NonNull<[u8]>, AllocError> {
/// #       unsafe { self.0.shrink(p, o, n) }
/// #   }
///     unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
///         unsafe { self.0.deallocate(block, layout) }
///     }
/// }
///
/// // SAFETY: every method forwards to the inner allocator, which is cloned and moved along.
/// ephemera_prim::impl_allocator!(unsafe impl[A: Allocator] for Through<A>);
///
/// # pub fn main() {
/// fn takes_an_allocator(_: impl Allocator) {}
/// takes_an_allocator(Through(allocator_api2::alloc::Global));
/// # }}
/// # #[cfg(feature = "alloc")] example::main();
/// ```
///
/// If a method is missing, the invocation does not compile:
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
        $crate::traits::__reexport::impl_api04!(api04, [$($generics)*], $allocator, [$(where $($bounds)+)?]);
        $crate::traits::__reexport::impl_standard!(standard, [$($generics)*], $allocator, [$(where $($bounds)+)?]);
    };
}

/// Implements one trait. `$api` names the trait's module in `__reexport`.
///
/// A method with another error type does not compile:
///
/// ```compile_fail,E0631
/// # use core::alloc::Layout;
/// # use core::ptr::NonNull;
/// # use ephemera_prim::traits::{AllocError, BlockResult};
/// # struct Other;
/// # impl Other {
/// #     fn allocate_zeroed(&self, _: Layout) -> BlockResult { Err(AllocError) }
/// #     unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}
/// #     unsafe fn grow(&self, _: NonNull<u8>, _: Layout, _: Layout) -> BlockResult {
/// #         Err(AllocError)
/// #     }
/// #     unsafe fn grow_zeroed(&self, _: NonNull<u8>, _: Layout, _: Layout) -> BlockResult {
/// #         Err(AllocError)
/// #     }
/// #     unsafe fn shrink(&self, _: NonNull<u8>, _: Layout, _: Layout) -> BlockResult {
/// #         Err(AllocError)
/// #     }
/// # }
/// impl Other {
///     fn allocate(&self, _: Layout) -> Result<NonNull<[u8]>, ()> {
///         Err(())
///     }
/// }
///
/// ephemera_prim::impl_allocator!(unsafe impl[] for Other);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_allocator_one {
    ($api:ident, [$($generics:tt)*], $allocator:ty, [$($bounds:tt)*]) => {
        $crate::__impl_allocator_one!(
            $api, [$($generics)*], $allocator, [$($bounds)*],
            [allocate, allocate_zeroed], [grow, grow_zeroed, shrink]
        );
    };
    (
        $api:ident, [$($generics:tt)*], $allocator:ty, [$($bounds:tt)*],
        [$($plain:ident),*], [$($resizing:ident),*]
    ) => {
        // SAFETY: the author of `unsafe impl[...]` guarantees that the inherent methods uphold the
        // trait's contract.
        unsafe impl<$($generics)*> $crate::traits::__reexport::$api::Allocator for $allocator $($bounds)* {
            $(#[inline]
            fn $plain(
                &self,
                layout: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::ApiResult {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                Self::$plain(self, layout)
                    .map_err(|_: $crate::traits::AllocError| $crate::traits::__reexport::$api::AllocError)
            })*

            #[inline]
            unsafe fn deallocate(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                layout: $crate::traits::__reexport::Layout,
            ) {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the caller upholds the trait's contract, which the inherent method
                // shares.
                unsafe { Self::deallocate(self, block, layout) }
            }

            $(#[inline]
            unsafe fn $resizing(
                &self,
                block: $crate::traits::__reexport::NonNull<u8>,
                old: $crate::traits::__reexport::Layout,
                new: $crate::traits::__reexport::Layout,
            ) -> $crate::traits::__reexport::$api::ApiResult {
                use $crate::traits::__reexport::InherentMethodMissing as _;
                // SAFETY: the caller upholds the trait's contract, which the inherent method
                // shares.
                unsafe { Self::$resizing(self, block, old, new) }
                    .map_err(|_: $crate::traits::AllocError| $crate::traits::__reexport::$api::AllocError)
            })*
        }
    };
}

/// Expands to nothing, in place of `__impl_allocator_one!` for a trait that this build does not
/// implement.
#[doc(hidden)]
#[macro_export]
macro_rules! __impl_no_allocator {
    ($($request:tt)*) => {};
}

/// Defines the six methods of [`Allocator`](crate::traits::Allocator), which forward to the
/// allocator `$to`. `$to` implements the trait `$api`.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_allocator {
    (|$this:ident| $to:expr, $api:path) => {
        $crate::__forward_allocator!(
            |$this| $to, $api, [allocate, allocate_zeroed], [grow, grow_zeroed, shrink]
        );
    };
    (|$this:ident| $to:expr, $api:path, [$($plain:ident),*], [$($resizing:ident),*]) => {
        $(#[inline]
        fn $plain(&$this, layout: $crate::traits::__reexport::Layout) -> $crate::traits::BlockResult {
            <_ as $api>::$plain(&$to, layout).map_err(|_| $crate::traits::AllocError)
        })*

        #[inline]
        unsafe fn deallocate(
            &$this,
            block: $crate::traits::__reexport::NonNull<u8>,
            layout: $crate::traits::__reexport::Layout,
        ) {
            // SAFETY: the caller upholds the same contract; `block` came from an allocator that is
            // equivalent to `$to`.
            unsafe { <_ as $api>::deallocate(&$to, block, layout) }
        }

        $(#[inline]
        unsafe fn $resizing(
            &$this,
            block: $crate::traits::__reexport::NonNull<u8>,
            old: $crate::traits::__reexport::Layout,
            new: $crate::traits::__reexport::Layout,
        ) -> $crate::traits::BlockResult {
            // SAFETY: the caller upholds the same contract; `block` came from an allocator that is
            // equivalent to `$to`.
            unsafe { <_ as $api>::$resizing(&$to, block, old, new) }
                .map_err(|_| $crate::traits::AllocError)
        })*
    };
}

/// Names for the expansion of [`impl_allocator!`](crate::impl_allocator). Not public API.
#[doc(hidden)]
pub mod __reexport {
    pub use core::alloc::Layout;
    pub use core::ptr::NonNull;

    // The features and cfgs of this package select the macros below. Those of the package that
    // invokes `impl_allocator!` have no effect.

    #[cfg(feature = "allocator-api2-04")]
    pub use crate::__impl_allocator_one as impl_api04;
    #[cfg(not(feature = "allocator-api2-04"))]
    pub use crate::__impl_no_allocator as impl_api04;

    #[cfg(all(ephemera_std_allocator, not(feature = "nightly")))]
    pub use crate::__impl_allocator_one as impl_standard;
    // The standard trait needs a gate, its implementation is switched off, or allocator-api2 0.2
    // re-exports it.
    #[cfg(not(all(ephemera_std_allocator, not(feature = "nightly"))))]
    pub use crate::__impl_no_allocator as impl_standard;

    /// Gives every type methods of the same six names, so that a missing inherent method is a
    /// compile error.
    ///
    /// The trait method being implemented is a candidate inside its own body, so it would call
    /// itself if the inherent method were missing. This trait makes the name ambiguous instead. An
    /// inherent method takes precedence over both trait methods.
    pub trait InherentMethodMissing {
        fn allocate(_: MissingMethod) {}
        fn allocate_zeroed(_: MissingMethod) {}
        fn deallocate(_: MissingMethod) {}
        fn grow(_: MissingMethod) {}
        fn grow_zeroed(_: MissingMethod) {}
        fn shrink(_: MissingMethod) {}
    }

    impl<T: ?Sized> InherentMethodMissing for T {}

    /// A type that appears in the compiler's message when a method is missing.
    #[derive(Debug)]
    pub enum MissingMethod {}

    /// Defines a module with the names of one trait. An error of any of the three traits carries no
    /// data.
    macro_rules! api {
        ($(#[$meta:meta])* $name:ident = $($path:ident)::+) => {
            $(#[$meta])*
            pub mod $name {
                pub use $($path)::+::{AllocError, Allocator};

                pub type ApiResult = Result<super::NonNull<[u8]>, AllocError>;
            }
        };
    }

    api!(api02 = allocator_api2::alloc);
    api!(
        #[cfg(feature = "allocator-api2-04")]
        api04 = allocator_api2_04::alloc
    );
    api!(
        #[cfg(all(ephemera_std_allocator, not(feature = "nightly")))]
        #[expect(
            clippy::incompatible_msrv,
            reason = "compiled only where the build script saw the trait compile"
        )]
        standard = core::alloc
    );
}
