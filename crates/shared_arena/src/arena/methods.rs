//! The methods that arenas have in common: they differ in their core, their box and in who may use them.

/// Methods that make boxes and `ArenaRc`, and those that look at the arena; and its common traits.
macro_rules! arena_methods {
    ($name:ident, $boxed:ident) => {
        impl<T> $name<T> {
            /// Creates an arena without slots. Its first value gets it a page.
            ///
            /// # Panics
            /// When the heap has no room for its state: by way of `handle_alloc_error`.
            #[must_use]
            pub fn new() -> Self {
                Self::builder().build()
            }

            /// An arena with slots for `slots` values, rounded up to whole pages.
            ///
            /// # Panics
            /// When the heap has no room for them: by way of `handle_alloc_error`.
            #[must_use]
            pub fn with_capacity(slots: usize) -> Self {
                Self::builder().capacity(slots).build()
            }

            /// Settings for an arena of this type.
            pub const fn builder() -> Builder<Self> {
                Builder::new()
            }

            /// Puts a value into a slot.
            ///
            /// # Panics
            /// Where
            #[doc = concat!("[`", stringify!($name), "::try_alloc`]")]
            /// fails: by way of `handle_alloc_error`.
            #[inline]
            pub fn alloc(&self, value: T) -> $boxed<T> {
                match self.core.claim() {
                    // SAFETY: a slot of this arena with a value in it.
                    Ok(slot) => unsafe { $boxed::adopt(slot.write(value)) },
                    Err(refused) => refused.give_up(),
                }
            }

            /// Has `init` put a value into a slot, for values that are too large to be moved there. `slot.write(value)` does it.
            ///
            /// `init` may use this arena. If it unwinds, the slot is free again and nothing was dropped in it.
            ///
            /// # Panics
            /// If `init` returns a reference to something else than what it was given; the slot is then free again, and nothing was
            /// dropped in it. And as
            #[doc = concat!("[`", stringify!($name), "::alloc`].")]
            #[inline]
            #[track_caller]
            pub fn alloc_with<F>(&self, init: F) -> $boxed<T>
            where
                F: FnOnce(&mut MaybeUninit<T>) -> &T,
            {
                match self.core.claim() {
                    // SAFETY: a slot of this arena; `init` returns a reference to it as to a value.
                    Ok(slot) => unsafe { $boxed::adopt(slot.init(init)) },
                    Err(refused) => refused.give_up(),
                }
            }

            /// Puts a value into a slot and pins it there.
            ///
            /// # Panics
            /// As
            #[doc = concat!("[`", stringify!($name), "::alloc`].")]
            #[inline]
            pub fn alloc_pin(&self, value: T) -> Pin<$boxed<T>> {
                $boxed::into_pin(self.alloc(value))
            }

            /// Puts a value into a slot, if there is one.
            ///
            /// # Errors
            /// The value, when the limit would be exceeded or the heap refuses.
            #[inline]
            pub fn try_alloc(&self, value: T) -> Result<$boxed<T>, TryAllocError<T>> {
                match self.core.claim() {
                    // SAFETY: a slot of this arena with a value in it.
                    Ok(slot) => Ok(unsafe { $boxed::adopt(slot.write(value)) }),
                    Err(refused) => Err(TryAllocError::new(value, refused)),
                }
            }

            /// Has `init` put a value into a slot, if there is one.
            ///
            /// # Errors
            /// `init`, not called, when the limit would be exceeded or the heap refuses.
            ///
            /// # Panics
            /// If `init` returns a reference to something else than what it was given.
            #[inline]
            #[track_caller]
            pub fn try_alloc_with<F>(&self, init: F) -> Result<$boxed<T>, TryAllocError<F>>
            where
                F: FnOnce(&mut MaybeUninit<T>) -> &T,
            {
                match self.core.claim() {
                    // SAFETY: a slot of this arena; `init` returns a reference to it as to a value.
                    Ok(slot) => Ok(unsafe { $boxed::adopt(slot.init(init)) }),
                    Err(refused) => Err(TryAllocError::new(init, refused)),
                }
            }

            counted_methods!(
                $name,
                ArenaRc,
                "on one thread",
                alloc_rc,
                alloc_rc_with,
                alloc_rc_pin,
                try_alloc_rc,
                try_alloc_rc_with
            );

            /// Slots with a value, and slots without one. Goes through all pages; exact when no other thread is using the arena.
            ///
            /// `(0, 0)` where the pages could not be read, since another thread stood in the way for long:
            #[doc = concat!("[`", stringify!($name), "::statistics`]")]
            /// tells that apart, by [`Statistics::unread`].
            #[must_use]
            pub fn stats(&self) -> (usize, usize) {
                let statistics = self.statistics();
                (statistics.used, statistics.free())
            }

            /// What the arena holds and what of it is used. Goes through all pages; exact when no other thread is using the arena.
            #[must_use]
            pub fn statistics(&self) -> Statistics {
                Statistics::of(self.core.store(), size_of::<T>())
            }
        }

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let (used, free) = self.stats();
                f.debug_struct(stringify!($name)).field("used", &used).field("free", &free).finish()
            }
        }

        impl<T> Sealed for $name<T> {}

        impl<T> AllocRc<T> for $name<T> {
            fn new_rc(&self, value: T) -> ArenaRc<T> {
                self.alloc_rc(value)
            }
        }

        impl<T> Build for $name<T> {
            fn from_builder(builder: Builder<Self>) -> Result<Self, Refused> {
                let this = Self::from_core(Core::create(builder.settings)?);
                this.core.store().reserve(builder.capacity)?;
                Ok(this)
            }
        }
    };
}

/// Methods that make counted handles.
macro_rules! counted_methods {
    ($name:ident, $handle:ident, $who:literal, $plain:ident, $with:ident, $pin:ident, $try:ident, $try_with:ident) => {
        /// Puts a value into a slot, for handles to share
        #[doc = concat!($who, ".")]
        ///
        /// # Panics
        /// As
        #[doc = concat!("[`", stringify!($name), "::alloc`].")]
        #[inline]
        pub fn $plain(&self, value: T) -> $handle<T> {
            match self.core.claim_counted() {
                // SAFETY: a slot of this arena with a value in it, whose counts were started with one handle.
                Ok(slot) => unsafe { $handle::adopt(slot.write(value)) },
                Err(refused) => refused.give_up(),
            }
        }

        /// Has `init` put a value into a slot, for handles to share
        #[doc = concat!($who, ".")]
        ///
        /// # Panics
        /// As
        #[doc = concat!("[`", stringify!($name), "::alloc_with`].")]
        #[inline]
        #[track_caller]
        pub fn $with<F>(&self, init: F) -> $handle<T>
        where
            F: FnOnce(&mut MaybeUninit<T>) -> &T,
        {
            match self.core.claim_counted() {
                // SAFETY: a slot of this arena whose counts were started with one handle; `init` returns a reference to it as to a value.
                Ok(slot) => unsafe { $handle::adopt(slot.init(init)) },
                Err(refused) => refused.give_up(),
            }
        }

        /// Puts a value into a slot and pins it there, for handles to share
        #[doc = concat!($who, ".")]
        ///
        /// # Panics
        /// As
        #[doc = concat!("[`", stringify!($name), "::alloc`].")]
        #[inline]
        pub fn $pin(&self, value: T) -> Pin<$handle<T>> {
            $handle::pin_new(self.$plain(value))
        }

        /// Puts a value into a slot, if there is one, for handles to share
        #[doc = concat!($who, ".")]
        ///
        /// # Errors
        /// The value, when the limit would be exceeded or the heap refuses.
        #[inline]
        pub fn $try(&self, value: T) -> Result<$handle<T>, TryAllocError<T>> {
            match self.core.claim_counted() {
                // SAFETY: a slot of this arena with a value in it, whose counts were started with one handle.
                Ok(slot) => Ok(unsafe { $handle::adopt(slot.write(value)) }),
                Err(refused) => Err(TryAllocError::new(value, refused)),
            }
        }

        /// Has `init` put a value into a slot, if there is one, for handles to share
        #[doc = concat!($who, ".")]
        ///
        /// # Errors
        /// `init`, not called, when the limit would be exceeded or the heap refuses.
        ///
        /// # Panics
        /// If `init` returns a reference to something else than what it was given.
        #[inline]
        #[track_caller]
        pub fn $try_with<F>(&self, init: F) -> Result<$handle<T>, TryAllocError<F>>
        where
            F: FnOnce(&mut MaybeUninit<T>) -> &T,
        {
            match self.core.claim_counted() {
                // SAFETY: a slot of this arena whose counts were started with one handle; `init` returns a reference to it as to a value.
                Ok(slot) => Ok(unsafe { $handle::adopt(slot.init(init)) }),
                Err(refused) => Err(TryAllocError::new(init, refused)),
            }
        }
    };
}

/// What the two arenas whose handles may go to other threads have beyond that.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
macro_rules! sendable_methods {
    ($name:ident) => {
        impl<T> $name<T> {
            counted_methods!(
                $name,
                ArenaArc,
                "on any threads",
                alloc_arc,
                alloc_arc_with,
                alloc_arc_pin,
                try_alloc_arc,
                try_alloc_arc_with
            );

            /// Gives groups of pages without a value back to the heap: this thread's, those of threads that ended, and those that no thread has
            /// used. Other threads are asked to do the same with theirs when they next need a page. Returns whether this call gave anything
            /// back.
            ///
            /// Goes once through the pages that it can reach, in time proportional to their number.
            pub fn shrink_to_fit(&self) -> bool {
                thread::shrink(self.core.store())
            }
        }

        impl<T> AllocArc<T> for $name<T> {
            fn new_arc(&self, value: T) -> ArenaArc<T> {
                self.alloc_arc(value)
            }
        }
    };
}
