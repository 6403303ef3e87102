//! The macro that gives a type its pool.

/// Gives a type a pool on each thread, for [`PooledBox`](crate::PooledBox): what in C++ is an `operator new` of the class.
///
/// | | |
/// |---|---|
/// | `pooled!(Node);` | a pool for a concrete type of your own, named by `OfType<Node>`, which is `PooledBox`'s default |
/// | `pooled!(Node, chunk_len = 32);` | the same; it takes that many slots at a time from the global heap |
/// | `pooled!(pub struct Names: String);` | a tag for a pool of any concrete type, for `PooledBox<String, Names>` |
/// | `pooled!(pub struct Names: String, chunk_len = 32);` | the same |
///
/// Without `chunk_len` a pool begins with 64 slots, and takes twice as many with each unit that it holds, up to a whole unit (32 KiB for
/// values to 512 bytes, up to 256 KiB for larger ones). With it, it takes that many each time, as [`Builder::chunk_len`](crate::Builder::chunk_len)
/// says.
///
/// Generic types have no pool of their own: `Box<Generic<T>, PooledAllocator>` takes its memory by size class.
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
/// A pool has one concrete type:
///
/// ```compile_fail
/// struct Pair<T>(T, T);
/// typed_pool::pooled!(Pair<T>);
/// ```
///
/// and a type of somebody else takes a tag:
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

        impl $tag {
            /// What these pools hold, on all threads, and what of it is alive.
            #[must_use]
            #[expect(clippy::allow_attributes, reason = "whether this is used is up to whoever declares a pool")]
            #[allow(dead_code, reason = "nobody may ask for statistics")]
            pub fn stats(&self) -> $crate::Stats {
                $crate::__private::stats(<Self as $crate::PoolOf<$type>>::__family())
            }

            /// Sets the most bytes that these pools may hold from the global heap, on all threads together, from now on.
            #[expect(clippy::allow_attributes, reason = "whether this is used is up to whoever declares a pool")]
            #[allow(dead_code, reason = "a pool may have no limit")]
            pub fn set_limit(&self, bytes: usize) {
                $crate::__private::set_limit(<Self as $crate::PoolOf<$type>>::__family(), bytes);
            }

            /// Gives this thread's units in which nothing is alive back to the global heap.
            #[expect(clippy::allow_attributes, reason = "whether this is used is up to whoever declares a pool")]
            #[allow(dead_code, reason = "a pool may never be trimmed")]
            pub fn trim(&self) {
                $crate::__private::trim(<Self as $crate::PoolOf<$type>>::__family());
            }

            /// As `trim`, also for what ended threads left behind; and asks the threads that run to do the same.
            #[expect(clippy::allow_attributes, reason = "whether this is used is up to whoever declares a pool")]
            #[allow(dead_code, reason = "a pool may never be trimmed")]
            pub fn trim_all(&self) {
                $crate::__private::trim_all(<Self as $crate::PoolOf<$type>>::__family());
            }
        }

        // SAFETY: those of `typed`.
        unsafe impl $crate::Pool for $tag {
            #[inline]
            unsafe fn __give(
                slot: $crate::__private::NonNull<u8>,
                layout: $crate::__private::Layout,
            ) {
                // SAFETY: the caller's.
                unsafe { $crate::__private::typed::give::<$type, Self>(slot, layout) };
            }

            #[inline]
            unsafe fn __erase(layout: $crate::__private::Layout) {
                // SAFETY: the caller's.
                unsafe { $crate::__private::typed::erase::<$type, Self>(layout) };
            }
        }

        $crate::__pooled_impl!([$crate::PoolOf<__Value>] [$tag] $type, [$($len)?]);
    };
    ($type:ty $(, chunk_len = $len:expr)? $(,)?) => {
        $crate::__pooled_impl!([$crate::Pooled] [__Value] $type, [$($len)?]);
    };
}

/// The thread-local and the family of one pool.
///
/// The type and the length are named where nothing of ours is in scope that they could mean by mistake: a length of an array in
/// the type may be any name, and the statics below have names too.
#[doc(hidden)]
#[macro_export]
macro_rules! __pooled_impl {
    ([$($of:tt)*] [$for:ident] $type:ty, $len:expr) => {
        const _: () = {
            type __Value = $type;
            const __LEN: &[usize] = &$len;

            // SAFETY: a thread-local and a family of this pool's own.
            unsafe impl $($of)* for $for {
                #[inline]
                fn __here() -> &'static $crate::__private::LocalKey<$crate::__private::Here> {
                    $crate::__private::thread_local! {
                        static HERE: $crate::__private::Here = const { $crate::__private::Here::nowhere() };
                    }
                    &HERE
                }

                #[inline]
                fn __family() -> &'static $crate::__private::Family {
                    static FAMILY: $crate::__private::Family =
                        // SAFETY: the thread-local of this pool alone.
                        unsafe { $crate::__private::Family::of_type::<__Value>(__LEN, <$for as $($of)*>::__here) };
                    &FAMILY
                }
            }
        };
    };
}
