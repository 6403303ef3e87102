//! The lists and places that keep the heaps of ended scopes for later scopes, and the count of a
//! scope's users. An *item* is the heaps of one scope, in permanent memory. An item without a user
//! is *unused*. A *place* holds one item.
//!
//! ```text
//!               put                             take, at the gate
//!   UNLISTED ----------> LISTED, unused ------------------------------> UNLISTED, in use
//!   in use                |        ^                                       ^
//!             take,       v        | put                                   | unlist: in use
//!             no gate    LISTED, in use -----------------------------------'
//! ```
//!
//! The *gate* is a lock with a bounded wait. Only the thread at the gate removes items from the
//! list, so an item on the list keeps its link. If that thread removes an item in use, the item
//! stays with its user, and the thread tries the next one. If the thread at the gate is preempted,
//! other threads need not make new heaps: they take an unused item and leave it on the list.
//!
//! # Invariant
//! **S5** An item is permanent memory. It has at most one user at a time. The user is the thread
//! that made the item, changed the item's word from unused to in use, or took the item out of a
//! place. An item is pushed only while it is on no list and in no place.

use core::ptr;

use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, fence, push};

// ORDERING: Release. Pairs with the Acquire in `Listing::take_listed` and `Listing::unlist`.
// Publishes: the last user's work on the item.
ordering!(mark_unused_order = Release, Relaxed if "unused_put_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Listing::mark_unused`: this thread sees the last
// user's work.
ordering!(take_listed_order = Acquire, Relaxed if "unused_take_beside_gate_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Listing::mark_unused`: this thread sees the last
// user's work.
ordering!(unlist_order = Acquire, Relaxed if "unused_unlist_relaxed");
// ORDERING: Release. Pairs with the Acquire in `UnusedPlace::take`. Publishes: the last user's work
// on the item.
ordering!(put_order = Release, Relaxed if "unused_place_put_relaxed");
// ORDERING: Acquire. Pairs with the Release in `UnusedPlace::put`: this thread sees the last user's
// work.
ordering!(take_order = Acquire, Relaxed if "unused_place_take_relaxed");
// ORDERING: Release. Pairs with the Acquire in `Users::is_one`, and with the Acquire fence that the
// last user runs in `Users::remove`. Publishes: this user's work.
ordering!(remove_order = Release, Relaxed if "scope_users_relaxed");

/// The word of an item that is in use and not on the list.
const UNLISTED: usize = 0;
/// The word of an item that is unused and on the list.
const LISTED: usize = 1;
/// The word of an item that is in use and on the list.
const LISTED_IN_USE: usize = 2;

/// The maximum number of items that a thread looks at while the gate is shut.
const LOOKS: usize = if cfg!(ephemera_loom) { 2 } else { 64 };

/// Returns the permanent item that the head or a link of a list points to, or `None` at the end of
/// the list.
#[inline]
pub(super) fn follow<T>(link: &AtomicPtr<T>) -> Option<&'static T> {
    // ORDERING: Acquire. Pairs with the Release in `add_to`: this thread sees the complete item and
    // its link.
    let item = link.load(Ordering::Acquire);
    // SAFETY: the pointer is null or points to a complete item, which is never freed (S1, S5).
    unsafe { item.as_ref() }
}

/// Adds an item to the list with this head. `link` is the item's own link.
pub(super) fn add_to<T>(head: &AtomicPtr<T>, item: &'static T, link: &AtomicPtr<T>) {
    let set = |below| link.store(below, Ordering::Relaxed);
    // ORDERING: Release. Pairs with the Acquire in `follow`. Publishes: the item, and its link.
    push(head, ptr::from_ref(item).cast_mut(), None, Ordering::Release, set);
}

/// The words that a list uses in an item: the item's state and its link.
#[derive(Debug)]
pub(super) struct Listing<T> {
    word: AtomicUsize,
    below: AtomicPtr<T>,
}

/// An item of an [`UnusedList`].
pub(super) trait ListedItem: Sized {
    fn listing(&self) -> &Listing<Self>;
}

impl<T> Listing<T> {
    ephemera_prim::const_unless_loom! {
        /// Creates the listing of an item that is in use and not on a list.
        pub(super) fn new() -> Self {
            Self { word: AtomicUsize::new(UNLISTED), below: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Marks the item as unused. Returns `true` if the item is not on the list; the caller must
    /// then push it.
    fn mark_unused(&self) -> bool {
        // ORDERING: `mark_unused_order`. Pairs with `Listing::take_listed` and `Listing::unlist`.
        self.word.swap(LISTED, mark_unused_order()) == UNLISTED
    }

    /// Takes the item if it is unused, and leaves it on the list. Returns whether it was unused.
    fn take_listed(&self) -> bool {
        // ORDERING: `take_listed_order`. Pairs with `Listing::mark_unused`.
        self.word.compare_exchange(LISTED, LISTED_IN_USE, take_listed_order(), Ordering::Relaxed).is_ok()
    }

    /// Marks the item as not on the list, after the caller has removed it. Returns whether the item
    /// was unused. If so, the caller is its user from now on.
    fn unlist(&self) -> bool {
        // ORDERING: `unlist_order`. Pairs with `Listing::mark_unused`.
        self.word.swap(UNLISTED, unlist_order()) == LISTED
    }
}

/// A list from which threads take unused items, the newest first.
pub(super) struct UnusedList<T> {
    first: AtomicPtr<T>,
    pub(super) gate: Gate,
}

impl<T: ListedItem + 'static> UnusedList<T> {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self { first: AtomicPtr::new(ptr::null_mut()), gate: Gate::new() }
        }
    }

    /// Marks an item as unused on behalf of its user, and pushes it unless it is on the list.
    pub(super) fn put(&self, item: &'static T) {
        let listing = item.listing();
        if listing.mark_unused() {
            add_to(&self.first, item, &listing.below);
        }
    }

    /// Takes an unused item, usually the one that was pushed last. Returns `None` if it finds no
    /// unused item.
    pub(super) fn take(&self) -> Option<&'static T> {
        match self.gate.enter() {
            Some(pass) => self.take_at_gate(&pass),
            None => self.take_beside_gate(),
        }
    }

    /// Takes an item like [`take`](Self::take). The caller is at the gate.
    pub(super) fn take_at_gate(&self, _pass: &Pass<'_>) -> Option<&'static T> {
        loop {
            let item = follow(&self.first)?;
            if self.remove(item) && item.listing().unlist() {
                return Some(item);
            }
        }
    }

    /// Removes `first` from the list. Returns `false` if another thread has pushed an item since
    /// the caller read `first`. Only the thread at the gate may call this.
    fn remove(&self, first: &'static T) -> bool {
        // The item keeps its link, because it is on the list. Relaxed: the Acquire in `follow` also
        // sees the items below, because each exchange continues the release sequences of the
        // earlier pushes.
        let below = first.listing().below.load(Ordering::Relaxed);
        let item = ptr::from_ref(first).cast_mut();
        self.first.compare_exchange(item, below, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes one of the first [`LOOKS`] items without the gate, and leaves it on the list. Returns
    /// `None` if none of these items is unused. The thread at the gate may remove items from the
    /// list at the same time, so this function may follow old links. Each old link still points to
    /// an item, because items are never freed.
    #[cold]
    pub(super) fn take_beside_gate(&self) -> Option<&'static T> {
        if weakened!("shut_gate_hides_unused_heaps") {
            return None;
        }
        let mut at = follow(&self.first);
        for _ in 0..LOOKS {
            let item = at?;
            if item.listing().take_listed() {
                return Some(item);
            }
            let below = item.listing().below.load(Ordering::Relaxed);
            // SAFETY: the pointer is null or points to an item, and items are never freed (S5).
            at = unsafe { below.as_ref() };
        }
        None
    }
}

/// A place for one unused item.
pub(super) struct UnusedPlace<T>(AtomicPtr<T>);

impl<T: 'static> UnusedPlace<T> {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Puts an item into the place if the place is empty. Returns whether the place was empty.
    pub(super) fn put(&self, item: &'static T) -> bool {
        let item = ptr::from_ref(item).cast_mut();
        // ORDERING: `put_order`. Pairs with `UnusedPlace::take`.
        self.0.compare_exchange(ptr::null_mut(), item, put_order(), Ordering::Relaxed).is_ok()
    }

    /// Returns whether the place is empty. The answer may be out of date.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes the item, if there is one, out of the place.
    pub(super) fn take(&self) -> Option<&'static T> {
        // ORDERING: `take_order`. Pairs with `UnusedPlace::put`.
        let item = self.0.swap(ptr::null_mut(), take_order());
        // SAFETY: the pointer is null or points to an item, and items are never freed (S5).
        unsafe { item.as_ref() }
    }
}

/// The number of users of a scope.
#[derive(Debug)]
pub(super) struct Users(AtomicUsize);

impl Users {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// Sets the number of users. No other thread may change the number during the call.
    pub(super) fn set(&self, users: usize) {
        self.0.store(users, Ordering::Relaxed);
    }

    /// Returns whether the caller is the only user. If so, no other thread can become a user,
    /// because only a user can add one.
    pub(super) fn is_one(&self) -> bool {
        // ORDERING: Acquire. Pairs with the Release in `Users::remove`: this thread sees the work
        // of the former users.
        self.0.load(Ordering::Acquire) == 1
    }

    /// Adds a user. The calling thread must be a user already.
    ///
    /// # Aborts
    /// Aborts if there are already more than `isize::MAX` users. A program that forgets references
    /// could otherwise wrap the count, and the scope would end early.
    pub(super) fn add(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            ephemera_prim::invariant::broken("a scope has too many references");
        }
    }

    /// Removes a user. Returns whether it was the last one. The last user sees the work of all
    /// others.
    pub(super) fn remove(&self) -> bool {
        // ORDERING: `remove_order`. Pairs with the fence below, and with the Acquire in
        // `Users::is_one`.
        let last = self.0.fetch_sub(1, remove_order()) == 1;
        if last && !weakened!("last_user_without_fence") {
            // ORDERING: Acquire fence. Pairs with the Release in `Users::remove`.
            fence(Ordering::Acquire);
        }
        last
    }
}
