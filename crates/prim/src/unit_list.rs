//! The list of all units of one owner, which other threads may read while the owner changes it.
//!
//! The owner adds and removes units without a lock and without waiting. A *walker* is a thread that
//! reads the list, for example for statistics. The walker protects two units with hazard pointers:
//! the unit that it visits and the unit that it came from. The owner first unlinks a unit and then
//! checks the hazard pointers. If a hazard pointer names the unit, the owner links the unit again
//! and keeps it.
//!
//! ```text
//!   head --> unit C <--> unit B <--> unit A           newest first
//!              ^           ^
//!              |           '---- hazards[1]: the walker visits B
//!              '---------------- hazards[0]: it came from C, whose link it follows
//! ```
//!
//! A walker protects only two units at a time, so even a walk that never ends keeps only two units
//! from being freed. In a forked child without the walker's thread, the walker's hazard pointers
//! have no effect, because the gate counts as open there.
//!
//! Another thread may *evict* units while the owner removes none and follows no link
//! ([`UnitList::evict`]). A [`BiasedLock`](crate::biased::BiasedLock) can ensure this. The owner
//! may still add units: it then writes only the head, and the back link of the newest unit, which
//! is never evicted.
//!
//! # Invariants
//!
//! * **W1** Only the owner writes the head and the links, except for the links of evicted units'
//!   neighbours.
//! * **W2** A unit is not freed while a hazard pointer names it, if the unit was on the list after
//!   the hazard pointer was stored.
//! * **W3** Only the thread inside the gate writes the hazard pointers.

use core::ptr::{self, NonNull};

use crate::gate::{Gate, Pass};
use crate::sync::{AtomicPtr, Ordering, fence, try_briefly};
use crate::word::OwnerPtr;

/// The maximum number of retries of a walk. A walk retries a link that the owner changed while the
/// walk followed it, and gives up after the last retry.
const RETRIES: usize = if cfg!(ephemera_loom) { 2 } else { 1_000 };

/// The number of tries of [`try_patiently`] after the tries of [`try_briefly`]. The thread sleeps
/// for [`NAP`] before each of them, because the thread that it waits for may itself be waiting for
/// a processor.
#[cfg(feature = "std")]
const NAPS: usize = if cfg!(ephemera_loom) { 0 } else { 200 };

/// The length of the sleep before each of the [`NAPS`] tries.
#[cfg(feature = "std")]
const NAP: core::time::Duration = core::time::Duration::from_micros(100);

// ORDERING: Release. Pairs with the Acquire in `UnitList::remove`. Publishes: the walker's last
// access to the unit.
ordering!(move_on_order = Release, Relaxed if "walk_relaxed");
// ORDERING: Acquire. Pairs with the Release in `UnitList::walk` and `Hazards::drop`: this thread
// sees the walker's last access to the unit.
ordering!(look_order = Acquire, Relaxed if "remove_relaxed");

/// A unit of memory that can be on a [`UnitList`].
///
/// # Safety
/// `NEXT` and `PREV` are the offsets of two `OwnerPtr<Self>` in the unit. Only the list uses them.
pub unsafe trait Listed: Sized {
    /// The offset of the link to the unit that was added before this one, in bytes.
    const NEXT: usize;
    /// The offset of the link to the unit that was added after this one, in bytes.
    const PREV: usize;
}

/// The list of all units of one owner.
#[derive(Debug)]
pub struct UnitList<U> {
    head: OwnerPtr<U>,
    hazards: [AtomicPtr<U>; 2],
    /// The gate that a walker must enter, so that there is one walker at a time. A thread that
    /// evicts units also enters it.
    gate: Gate,
}

impl<U> UnitList<U> {
    crate::const_unless_loom! {
        /// Creates an empty list.
        pub fn new() -> Self {
            Self {
                head: OwnerPtr::null(),
                hazards: [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())],
                gate: Gate::new(),
            }
        }
    }
}

impl<U: Listed> UnitList<U> {
    /// Adds a unit at the head, where the next walk finds it.
    ///
    /// # Safety
    /// The caller owns the list. `unit` is live and on no list, and stays live until
    /// [`UnitList::remove`] returns `true` for it.
    pub unsafe fn add(&self, unit: NonNull<U>) {
        let next = self.head.get();
        // SAFETY: the caller's unit is live. Only the owner writes its links (W1), and the caller
        // is the owner.
        unsafe { link_of(unit, U::NEXT) }.set(next);
        // SAFETY: the unit is live, and the caller owns the list.
        unsafe { link_of(unit, U::PREV) }.set(ptr::null_mut());
        if let Some(next) = NonNull::new(next) {
            // SAFETY: units on the list are live.
            unsafe { link_of(next, U::PREV) }.set(unit.as_ptr());
        }
        self.head.publish(unit.as_ptr());
    }

    /// Removes a unit that is about to be freed, and returns `true`. If a walker protects the unit,
    /// leaves the unit on the list and returns `false`. Never waits.
    ///
    /// # Safety
    /// The caller owns the list, no thread evicts units, and `unit` is on the list.
    pub unsafe fn remove(&self, unit: NonNull<U>) -> bool {
        // SAFETY: units on the list are live.
        let next = unsafe { link_of(unit, U::NEXT) }.get();
        // SAFETY: units on the list are live.
        let prev = unsafe { link_of(unit, U::PREV) }.get();
        // SAFETY: the neighbours are on the list, so they are live, and the caller owns the list.
        unsafe { self.join(prev, next, next, prev) };
        if !weakened!("remove_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the one in `UnitList::walk`: either this thread
            // sees the hazard pointer, or the walker sees that the unit was unlinked.
            fence(Ordering::SeqCst);
        }
        // ORDERING: `look_order`. Pairs with `UnitList::walk`.
        let walked = self.hazards.iter().any(|hazard| hazard.load(look_order()) == unit.as_ptr());
        // A running walker holds the gate. In a forked child, hazard pointers that another thread
        // of the parent left behind have no effect.
        let walked = walked && self.gate.is_shut();
        if walked && !weakened!("remove_beside_a_walk") {
            // SAFETY: the caller owns the list and no thread evicts units, so nothing has freed the
            // unit or its neighbours.
            unsafe { self.join(prev, unit.as_ptr(), next, unit.as_ptr()) };
            return false;
        }
        true
    }

    /// Removes a unit like [`UnitList::remove`], but waits a bounded time for a walker to move on:
    /// about 20 ms, or a thousand spin hints without the feature `std`. Returns `false`, with the
    /// unit on the list, if the walker does not move on in this time. This is for a thread that is
    /// about to refuse a request or to exit. A walker moves on after a few loads, so the wait is
    /// long only if the walker was preempted.
    ///
    /// # Safety
    /// The caller owns the list, no thread evicts units, and `unit` is on the list.
    pub unsafe fn remove_patiently(&self, unit: NonNull<U>) -> bool {
        // SAFETY: the caller owns the list, and a unit that was not removed is still on it.
        try_patiently(|| unsafe { self.remove(unit) })
    }

    /// Stores `after` in the link of `prev` (in the head if `prev` is null), and `before` in the
    /// back link of `next`.
    ///
    /// # Safety
    /// The caller owns the list. `prev` and `next` are null or live.
    unsafe fn join(&self, prev: *mut U, after: *mut U, next: *mut U, before: *mut U) {
        match NonNull::new(prev) {
            // SAFETY: the caller's `prev` is live.
            Some(prev) => unsafe { link_of(prev, U::NEXT) }.set(after),
            // Publish `after` again, for a walker that never saw the unit above `after` and follows
            // the head to `after`.
            None => self.head.publish(after),
        }
        if let Some(next) = NonNull::new(next) {
            // SAFETY: the caller's `next` is live.
            unsafe { link_of(next, U::PREV) }.set(before);
        }
    }

    /// Calls `visit` for every unit. Any thread may call this. The walk is exact while the owner
    /// does not change the list.
    ///
    /// Returns `false` if the walk did not visit all units. In this case, another walker or a
    /// thread that evicts units held the gate for too long, or the owner changed the list faster
    /// than this thread could follow.
    pub fn walk(&self, mut visit: impl FnMut(NonNull<U>)) -> bool {
        let Some(_pass) = self.gate.enter() else { return false };
        let hazards = Hazards(&self.hazards);
        let (mut from, mut slot, mut retries) = (None, 0, 0);
        loop {
            let via = match from {
                None => &self.head,
                // SAFETY: the other hazard pointer names the unit, so it is not freed (W2).
                Some(unit) => unsafe { link_of(unit, U::NEXT) },
            };
            let at = via.observe();
            if at.is_null() {
                return true;
            }
            // ORDERING: `move_on_order`. Pairs with `UnitList::remove`.
            hazards.0[slot].store(at, move_on_order());
            if !weakened!("walk_without_fence") {
                // ORDERING: SeqCst fence. Pairs with the one in `UnitList::remove`.
                fence(Ordering::SeqCst);
            }
            // Follow the link again, and use the pointer that this second load returns. The owner
            // may have freed the first unit and added another one at the same address. Only the
            // second load makes that unit's header visible.
            let weak = weakened!("walk_follows_once");
            let now = if weak { via.get() } else { via.observe() };
            let Some(unit) = NonNull::new(now).filter(|_| now == at) else {
                retries += 1;
                if retries > RETRIES {
                    return false;
                }
                continue;
            };
            visit(unit);
            (from, slot) = (Some(unit), 1 - slot);
        }
    }

    /// Prepares to evict units. Returns `None` if a thread walks the list.
    ///
    /// # Safety
    /// Until the result is dropped, the owner removes no unit and follows no link: of the methods
    /// for the owner, it calls only [`UnitList::add`] and [`UnitList::newest`]. No other thread
    /// calls this method in this time.
    pub unsafe fn evict(&self) -> Option<Evictor<'_, U>> {
        let pass = self.gate.try_enter();
        let unguarded = weakened!("evict_beside_a_walk");
        (pass.is_some() || unguarded).then_some(Evictor { list: self, _pass: pass })
    }

    /// Calls `visit` for every unit. `visit` must not remove any unit.
    ///
    /// # Safety
    /// The caller owns the list, and no thread evicts units.
    pub unsafe fn for_each(&self, mut visit: impl FnMut(NonNull<U>)) {
        let mut at = self.newest();
        while let Some(unit) = at {
            // SAFETY: the caller owns the list, and the unit is on it.
            at = unsafe { self.after(unit) };
            visit(unit);
        }
    }

    /// Restores all back links in a walk over the list, and returns the number of units. A forked
    /// child needs this: if another thread was evicting a unit at the fork, the links may skip the
    /// unit while a back link still points to it.
    ///
    /// # Safety
    /// The caller owns the list, and no thread evicts units.
    pub unsafe fn restore(&self) -> usize {
        let (mut prev, mut len) = (ptr::null_mut(), 0);
        let restore = |unit: NonNull<U>| {
            // SAFETY: units on the list are live.
            unsafe { link_of(unit, U::PREV) }.set(prev);
            (prev, len) = (unit.as_ptr(), len + 1);
        };
        // SAFETY: the caller owns the list. A link changes by one store, and a unit is freed after
        // that, so the links lead from live unit to live unit.
        unsafe { self.for_each(restore) };
        len
    }

    /// Returns the newest unit, at which [`UnitList::for_each`] starts. Only the owner may call
    /// this.
    pub fn newest(&self) -> Option<NonNull<U>> {
        NonNull::new(self.head.get())
    }

    /// Returns the unit that [`UnitList::for_each`] visits after `unit`.
    ///
    /// # Safety
    /// Either the caller owns the list and no thread evicts units, or the caller itself evicts
    /// units. `unit` is on the list.
    pub unsafe fn after(&self, unit: NonNull<U>) -> Option<NonNull<U>> {
        // SAFETY: units on the list are live.
        NonNull::new(unsafe { link_of(unit, U::NEXT) }.get())
    }
}

/// The right of a thread that is not the owner to remove units.
#[derive(Debug)]
pub struct Evictor<'l, U> {
    list: &'l UnitList<U>,
    /// Keeps walkers out, because [`Evictor::remove`] does not check their hazard pointers.
    _pass: Option<Pass<'l>>,
}

impl<U: Listed> Evictor<'_, U> {
    /// Removes a unit that is about to be freed, and returns `true`. If the unit is the newest one,
    /// leaves it on the list and returns `false`.
    ///
    /// # Safety
    /// `unit` is on the list. The owner published a store after it had added `unit`, and this
    /// thread has observed that store.
    pub unsafe fn remove(&self, unit: NonNull<U>) -> bool {
        // The owner may add a unit at the same time, and then writes the back link of the newest
        // one. `observe` makes the back link of any other unit visible.
        let newest = self.list.head.observe();
        if newest == unit.as_ptr() && !weakened!("newest_unit_is_evicted") {
            return false;
        }
        // SAFETY: units on the list are live.
        let next = unsafe { link_of(unit, U::NEXT) }.get();
        // SAFETY: units on the list are live.
        let prev = unsafe { link_of(unit, U::PREV) }.get();
        // SAFETY: the neighbours are on the list, so they are live. No other thread writes these
        // links: the caller of `UnitList::evict` keeps the owner from all but `add`.
        unsafe { self.list.join(prev, next, next, prev) };
        true
    }
}

/// Calls `remove` until it returns `true`, for about 20 ms at most, or for a thousand spin hints
/// without the feature `std`. Returns `false` if every call returned `false`.
pub fn try_patiently(mut remove: impl FnMut() -> bool) -> bool {
    if try_briefly(|| remove().then_some(())).is_some() {
        return true;
    }
    #[cfg(feature = "std")]
    for _ in 0..NAPS {
        std::thread::sleep(NAP);
        if remove() {
            return true;
        }
    }
    false
}

/// Returns the link of a unit at `offset`.
///
/// # Safety
/// `unit` is live while the reference is used. `offset` is [`Listed::NEXT`] or [`Listed::PREV`].
unsafe fn link_of<'u, U: Listed>(unit: NonNull<U>, offset: usize) -> &'u OwnerPtr<U> {
    // SAFETY: the caller's unit is live, and has a link at this offset.
    let link = unsafe { unit.byte_add(offset) }.cast();
    // SAFETY: the link is part of the live unit. The reference covers only the atomic.
    unsafe { link.as_ref() }
}

/// The hazard pointers of a walk. Dropping this value clears them, even if `visit` panics.
struct Hazards<'l, U>(&'l [AtomicPtr<U>; 2]);

impl<U> Drop for Hazards<'_, U> {
    fn drop(&mut self) {
        for hazard in self.0 {
            // ORDERING: `move_on_order`. Pairs with `UnitList::remove`.
            hazard.store(ptr::null_mut(), move_on_order());
        }
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
