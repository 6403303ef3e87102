//! Defines the methods that arenas have in common. The arenas differ in their core, in their box
//! type, and in the threads that may use them.

/// Implements the constructors, the methods that make boxes and `ArenaRc` handles, the methods that
/// report on the arena, and the common traits.
macro_rules! arena_methods {
    ($name:ident, $boxed:ident) => {
        impl<T> $name<T> {
            /// Creates an arena without slots. The arena allocates its first page with its first
            /// value.
            ///
            /// # Aborts
            /// Calls `handle_alloc_error` if the global allocator refuses the memory for the
            /// arena's state.
            #[must_use]
            pub fn new() -> Self {
                Self::builder().build()
            }

            /// Creates an arena with slots for `slots` values, rounded up to whole pages.
            ///
            /// # Aborts
            /// Calls `handle_alloc_error` if [`Builder::try_build`] would fail.
            #[must_use]
            pub fn with_capacity(slots: usize) -> Self {
                Self::builder().capacity(slots).build()
            }

            /// Returns a builder with the default settings of an arena of this type.
            pub const fn builder() -> Builder<Self> {
                Builder::new()
            }

            slot_methods!(
                $name,
                $boxed by claim and into_pin,
                "",
                alloc,
                alloc_with,
                alloc_pin,
                try_alloc,
                try_alloc_with
            );

            slot_methods!(
                $name,
                ArenaRc by claim_counted and pin_new,
                ", for handles that share the value on one thread",
                alloc_rc,
                alloc_rc_with,
                alloc_rc_pin,
                try_alloc_rc,
                try_alloc_rc_with
            );

            /// Returns the number of live slots and the number of free slots, as shared_arena 0.8
            /// does. A slot is live while it has a value or a weak handle. Walks all pages. The
            /// result is exact while no other thread uses the arena.
            ///
            /// The result is `(0, 0)` if the call could not read the pages, because another thread
            /// held the arena's internal lock for too long. To distinguish this case from an arena
            /// without slots, call
            #[doc = concat!("[`", stringify!($name), "::statistics`]")]
            /// and read [`Stats::unread`].
            #[must_use]
            pub fn stats(&self) -> (usize, usize) {
                let statistics = self.statistics();
                (statistics.slots_live, statistics.free())
            }

            /// Returns the memory that the arena holds, and how much of it is in use. Walks all
            /// pages. The result is exact while no other thread uses the arena.
            ///
            /// The other crates of this workspace call this method `stats`. In shared_arena 0.8,
            /// `stats` returns the pair of slot counts.
            #[must_use]
            pub fn statistics(&self) -> Stats {
                Stats::of(self.core.store(), size_of::<T>())
            }
        }

        impl<T> Default for $name<T> {
            /// Creates an arena without slots, like `new`.
            ///
            /// # Aborts
            /// Calls `handle_alloc_error` if there is no memory for the arena's state.
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
                let this = Self::create(builder.settings)?;
                this.core.reserve(builder.capacity)?;
                Ok(this)
            }
        }
    };
}

/// Implements the methods that allocate a slot and return a box or a counted handle.
macro_rules! slot_methods {
    (
        $name:ident, $handle:ident by $claim:ident and $into_pin:ident, $purpose:literal,
        $alloc:ident, $with:ident, $pin:ident, $try:ident, $try_with:ident
    ) => {
        #[doc = concat!("Allocates a slot and moves `value` into it", $purpose, ".")]
        ///
        /// # Aborts
        /// Calls `handle_alloc_error` if
        #[doc = concat!("[`", stringify!($name), "::", stringify!($try), "`]")]
        /// would fail.
        #[inline]
        pub fn $alloc(&self, value: T) -> $handle<T> {
            match self.core.$claim() {
                // SAFETY: `slot` belongs to this arena, and its counts, if it has any, include one
                // handle. The slot has a value after `write`.
                Ok(slot) => unsafe { $handle::adopt(slot.write(value)) },
                Err(refused) => refused.give_up(),
            }
        }

        #[doc = concat!("Allocates a slot and initialises it in place with `init`", $purpose, ".")]
        /// Use this method for values that are too large to move. The simplest `init` is
        /// `|slot| slot.write(value)`.
        ///
        /// `init` may use this arena. If `init` panics, this function frees the slot without
        /// dropping a value in it.
        ///
        /// # Panics
        /// Panics if `init` returns a reference to a place other than its slot. The slot is then
        /// freed without dropping a value in it.
        ///
        /// # Aborts
        /// Calls `handle_alloc_error` in the same cases as
        #[doc = concat!("[`", stringify!($name), "::", stringify!($alloc), "`].")]
        #[inline]
        #[track_caller]
        pub fn $with<F>(&self, init: F) -> $handle<T>
        where
            F: FnOnce(&mut MaybeUninit<T>) -> &T,
        {
            match self.core.$claim() {
                // SAFETY: `slot` belongs to this arena, and its counts, if it has any, include one
                // handle. `slot.init` returns only if the closure returned a reference to a value
                // in the slot.
                Ok(slot) => unsafe { $handle::adopt(slot.init(init)) },
                Err(refused) => refused.give_up(),
            }
        }

        #[doc = concat!("Allocates a slot, moves `value` into it and pins it there", $purpose, ".")]
        ///
        /// # Aborts
        /// Calls `handle_alloc_error` in the same cases as
        #[doc = concat!("[`", stringify!($name), "::", stringify!($alloc), "`].")]
        #[inline]
        pub fn $pin(&self, value: T) -> Pin<$handle<T>> {
            $handle::$into_pin(self.$alloc(value))
        }

        #[doc = concat!("Tries to allocate a slot and move `value` into it", $purpose, ".")]
        ///
        /// # Errors
        /// Returns `value` in the error if the arena refuses the request.
        /// [`TryAllocError::refused`] gives the reason.
        #[inline]
        pub fn $try(&self, value: T) -> Result<$handle<T>, TryAllocError<T>> {
            match self.core.$claim() {
                // SAFETY: `slot` belongs to this arena, and its counts, if it has any, include one
                // handle. The slot has a value after `write`.
                Ok(slot) => Ok(unsafe { $handle::adopt(slot.write(value)) }),
                Err(refused) => Err(TryAllocError::new(value, refused)),
            }
        }

        #[doc = concat!("Tries to allocate a slot and initialise it in place with `init`", $purpose, ".")]
        ///
        /// # Errors
        /// Returns `init` in the error, without calling it, if the arena refuses the request.
        /// [`TryAllocError::refused`] gives the reason.
        ///
        /// # Panics
        /// Panics if `init` returns a reference to a place other than its slot. The slot is then
        /// freed without dropping a value in it.
        #[inline]
        #[track_caller]
        pub fn $try_with<F>(&self, init: F) -> Result<$handle<T>, TryAllocError<F>>
        where
            F: FnOnce(&mut MaybeUninit<T>) -> &T,
        {
            match self.core.$claim() {
                // SAFETY: `slot` belongs to this arena, and its counts, if it has any, include one
                // handle. `slot.init` returns only if the closure returned a reference to a value
                // in the slot.
                Ok(slot) => Ok(unsafe { $handle::adopt(slot.init(init)) }),
                Err(refused) => Err(TryAllocError::new(init, refused)),
            }
        }
    };
}

/// Implements the methods of the two arenas whose handles may be sent to other threads.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
macro_rules! sendable_methods {
    ($name:ident) => {
        impl<T> $name<T> {
            slot_methods!(
                $name,
                ArenaArc by claim_counted and pin_new,
                ", for handles that share the value on any threads",
                alloc_arc,
                alloc_arc_with,
                alloc_arc_pin,
                try_alloc_arc,
                try_alloc_arc_with
            );

            /// Frees groups of pages without a live slot: groups of this thread, groups of exited
            /// threads, and groups that no thread owns. Asks the other threads to free their empty
            /// groups when they next run out of the slots at hand. Returns whether this call freed
            /// a group. Empty groups can stay if another thread holds the arena's internal lock for
            /// too long.
            ///
            /// The call visits each page of this thread and of exited threads, and each page that
            /// no thread owns. It also visits pages with live slots, so it takes time linear in the
            /// number of all these pages.
            pub fn trim(&self) -> bool {
                thread::shrink(self.core.store())
            }

            /// Alias of
            #[doc = concat!("[`", stringify!($name), "::trim`],")]
            /// under its name in shared_arena 0.8.
            pub fn shrink_to_fit(&self) -> bool {
                self.trim()
            }
        }

        impl<T> AllocArc<T> for $name<T> {
            fn new_arc(&self, value: T) -> ArenaArc<T> {
                self.alloc_arc(value)
            }
        }
    };
}
