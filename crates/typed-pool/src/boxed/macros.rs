//! `pooled!`: the macro that gives a type its pool.

/// Gives a type a pool on each thread, for [`PooledBox`](crate::PooledBox). A C++ class does the
/// same with its own `operator new`.
///
/// | | |
/// |---|---|
/// | `pooled!(Node);` | a pool for your own concrete type, named `OfType<Node>`, which is `PooledBox`'s default |
/// | `pooled!(Node, chunk_len = 32);` | the same, with 32 slots for each request |
/// | `pooled!(pub struct Names: String);` | a tag for a pool of any concrete type, for `PooledBox<String, Names>` |
/// | `pooled!(pub struct Names: String, chunk_len = 32);` | the same, with 32 slots for each request |
///
/// Without `chunk_len`, a pool requests 64 slots first and doubles the number with each unit that
/// it holds, up to a whole unit. A whole unit has 32 KiB for values of up to 512 bytes, and up to
/// 256 KiB for larger values. With `chunk_len`, each request is for that number of slots, as with
/// [`Builder::chunk_len`](crate::Builder::chunk_len).
///
/// A generic type cannot have a pool. A `Box<Generic<T>, PooledAllocator>` gets its memory from a
/// size class instead.
///
/// # Examples
///
/// ```
/// use typed_pool::{PooledBox, pooled};
///
/// #[derive(Debug)]
/// struct Token(u8);
///
/// pooled!(Token, chunk_len = 32);
/// pooled!(struct Names: String);
///
/// let token = PooledBox::new(Token(3));
/// let name: PooledBox<String, Names> = PooledBox::new_in("Ada".to_string(), Names);
/// assert_eq!((token.0, name.len()), (3, 3));
/// assert_eq!(PooledBox::<Token>::stats().slots, 32);
/// ```
///
/// A pool is for one concrete type:
///
/// ```compile_fail
/// struct Pair<T>(T, T);
/// typed_pool::pooled!(Pair<T>);
/// ```
///
/// A type of another crate needs a tag:
///
/// ```compile_fail,E0117
/// typed_pool::pooled!(String);
/// ```
#[macro_export]
macro_rules! pooled {
    ($(#[$attribute:meta])* $vis:vis struct $tag:ident : $type:ty $(, chunk_len = $len:expr)? $(,)?) => {
        $(#[$attribute])*
        #[derive(
            $crate::__private::core::fmt::Debug,
            $crate::__private::core::clone::Clone,
            $crate::__private::core::marker::Copy,
            $crate::__private::core::default::Default,
        )]
        $vis struct $tag;

        $crate::__family_methods!($tag, <Self as $crate::PoolOf<$type>>::__family());

        // SAFETY: a macro of this crate implements the trait, and the methods call `give_typed` and
        // `erase_typed`.
        unsafe impl $crate::BoxPool for $tag {
            #[inline]
            unsafe fn __give(slot: $crate::__private::NonNull<u8>, _: $crate::__private::Layout) {
                // SAFETY: this method has the same contract as `give_typed`.
                unsafe { $crate::__private::give_typed::<$type, Self>(slot) };
            }

            #[inline]
            unsafe fn __erase(layout: $crate::__private::Layout) {
                // SAFETY: this method has the same contract as `erase_typed`.
                unsafe { $crate::__private::erase_typed::<$type, Self>(layout) };
            }
        }

        $crate::__pooled_impl!([$crate::PoolOf<__Value>] [$tag] $type, [$($len)?]);
    };
    ($type:ty $(, chunk_len = $len:expr)? $(,)?) => {
        $crate::__pooled_impl!([$crate::Pooled] [__Value] $type, [$($len)?]);
    };
}

/// Defines the thread-local and the family of one pool.
///
/// The expansion first gives names to the value's type and the chunk length, outside the scope of
/// the statics below. Otherwise, a name in the type, such as a constant that gives an array's
/// length, could resolve to one of these statics.
#[doc(hidden)]
#[macro_export]
macro_rules! __pooled_impl {
    ([$($of:tt)*] [$for:ident] $type:ty, $len:expr) => {
        const _: () = {
            type __Value = $type;
            const __LEN: &[usize] = &$len;

            // SAFETY: the thread-local and the family belong to this pool alone.
            unsafe impl $($of)* for $for {
                #[inline]
                fn __cell() -> $crate::__private::ThisCell {
                    $crate::__private::thread_local! {
                        static CELL: $crate::__private::FamilyCell = const { $crate::__private::FamilyCell::nowhere() };
                    }
                    $crate::__private::ThisCell::of(&CELL)
                }

                #[inline]
                fn __family() -> &'static $crate::__private::Family {
                    static FAMILY: $crate::__private::Family =
                        // SAFETY: the thread-local belongs to this pool alone.
                        unsafe { $crate::__private::Family::of_type::<__Value>(__LEN, <$for as $($of)*>::__cell) };
                    &FAMILY
                }
            }
        };
    };
}
