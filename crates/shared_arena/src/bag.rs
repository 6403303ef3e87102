//! A bag of things that are visited in turn: many threads put in, one at a time takes out.
//!
//! ```text
//!   push --> news --> fresh --.
//!                             |--> visited --> seen --> old, when that is empty
//!                     old ----'
//! ```
//!
//! The visitor stands behind a gate that is only tried, so nobody waits. At each moment every item is in one list at most. So a
//! child of a fork finds sound lists, wherever a visitor of the parent stood: it misses no more than what that visitor had in hand.

use core::fmt;
use core::ptr::{self, NonNull};

use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, fence};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerPtr;

// ORDERING: Release. Pairs with the Acquire in `Visit::next_new`. Publishes: the item, and the link in it.
const PUSH: Ordering =
    if cfg!(ephemera_weaken = "arena_push_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Bag::push`.
const TAKE: Ordering =
    if cfg!(ephemera_weaken = "arena_take_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// What can be in a bag: one at a time.
pub(crate) trait Linked: Sized {
    /// Where the item keeps its link. Both live as long as the item is in a bag, or in the hands of its visitor.
    fn link(item: NonNull<Self>) -> NonNull<Link<Self>>;
}

/// The link of an item: written by the thread that has the item in hand.
#[derive(Debug)]
pub(crate) struct Link<T> {
    next: OwnerPtr<T>,
    /// For loom: whoever reads the link, or the item, sees who wrote it.
    witness: Witness,
}

impl<T> Link<T> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self { next: OwnerPtr::null(), witness: Witness::new() }
        }
    }

    fn set(&self, next: *mut T) {
        self.witness.write();
        self.next.set(next);
    }

    fn get(&self) -> *mut T {
        self.witness.touch();
        self.next.get()
    }
}

/// Items that wait for a visit.
pub(crate) struct Bag<T> {
    /// Pushed since the last visit.
    news: AtomicPtr<T>,
    gate: Gate,
    /// What threads wish that found the gate shut, as bits.
    wishes: AtomicUsize,
    /// Not visited yet. This list and those below belong to the thread behind the gate.
    fresh: OwnerPtr<T>,
    /// To be visited again.
    old: OwnerPtr<T>,
    /// Visited since `old` was last empty.
    seen: OwnerPtr<T>,
}

impl<T> Bag<T> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                news: AtomicPtr::new(ptr::null_mut()),
                gate: Gate::new(),
                wishes: AtomicUsize::new(0),
                fresh: OwnerPtr::null(),
                old: OwnerPtr::null(),
                seen: OwnerPtr::null(),
            }
        }
    }

    /// Whether items were pushed since the last visit, as far as this thread has seen.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.load(Ordering::Relaxed).is_null()
    }

    /// Takes what threads wished that found the gate shut. Called behind a fence, after the gate was opened.
    pub(crate) fn wishes(&self) -> usize {
        if self.wishes.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // ORDERING: AcqRel. Pairs with `Bag::visit_or_wish`. Publishes: what those threads did before.
        self.wishes.swap(0, Ordering::AcqRel)
    }

    /// Whether nothing is in it, as far as this thread has seen.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let lists = [&self.fresh, &self.old, &self.seen];
        !self.has_news() && lists.iter().all(|list| list.get().is_null())
    }
}

impl<T: Linked> Bag<T> {
    /// Puts an item in.
    pub(crate) fn push(&self, item: NonNull<T>) {
        // Blind under loom, which reverses an operation only with the last one on the same atomic.
        let mut head = if cfg!(ephemera_loom) { ptr::null_mut() } else { self.news.load(Ordering::Relaxed) };
        loop {
            link(item).set(head);
            // ORDERING: `PUSH`. Pairs with `Visit::next_new`.
            match self.news.compare_exchange_weak(head, item.as_ptr(), PUSH, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Goes behind the gate, unless another thread is there.
    pub(crate) fn visit(&self) -> Option<Visit<'_, T>> {
        let pass = self.gate.try_enter()?;
        if self.old.get().is_null() {
            self.turn_over();
        }
        Some(Visit { bag: self, kept: ptr::null_mut(), _pass: pass })
    }

    /// The same; but where another thread is behind the gate, that one finds this `wish` when it has opened the gate.
    pub(crate) fn visit_or_wish(&self, wish: usize) -> Option<Visit<'_, T>> {
        let visit = self.visit();
        if visit.is_some() || wish == 0 {
            return visit;
        }
        // ORDERING: AcqRel. Pairs with `Bag::wishes`. Publishes: what this thread did before.
        self.wishes.fetch_or(wish, Ordering::AcqRel);
        // ORDERING: SeqCst. Pairs with `parked::visit`. Publishes: the wish. Either this thread finds the gate open, or the other
        // one finds the wish.
        fence(Ordering::SeqCst);
        self.visit()
    }

    fn turn_over(&self) {
        let seen = self.seen.get();
        self.seen.set(ptr::null_mut());
        self.old.publish(seen);
    }
}

/// A thread behind the gate of a bag. What it kept is back in the bag when this is dropped.
pub(crate) struct Visit<'b, T: Linked> {
    bag: &'b Bag<T>,
    kept: *mut T,
    _pass: Pass<'b>,
}

impl<T: Linked> Visit<'_, T> {
    /// Takes out an item that nobody has visited yet.
    pub(crate) fn next_new(&mut self) -> Option<NonNull<T>> {
        if self.bag.fresh.get().is_null() && self.bag.has_news() {
            // ORDERING: `TAKE`. Pairs with `Bag::push`.
            self.bag.fresh.set(self.bag.news.swap(ptr::null_mut(), TAKE));
        }
        pop(&self.bag.fresh)
    }

    /// Takes out the item that was visited longest ago, if this visit has not seen it.
    pub(crate) fn next_old(&mut self) -> Option<NonNull<T>> {
        pop(&self.bag.old).or_else(|| {
            self.bag.turn_over();
            pop(&self.bag.old)
        })
    }

    /// Keeps an item for another visit.
    pub(crate) fn keep(&mut self, item: NonNull<T>) {
        link(item).set(self.kept);
        self.kept = item.as_ptr();
    }
}

impl<T: Linked> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        while let Some(item) = NonNull::new(self.kept) {
            self.kept = link(item).get();
            link(item).set(self.bag.seen.get());
            self.bag.seen.publish(item.as_ptr());
        }
    }
}

/// The link of an item in a bag, or of one that the caller has in hand.
fn link<'a, T: Linked>(item: NonNull<T>) -> &'a Link<T> {
    // SAFETY: the link lives as long as its item is in a bag or in hand (`Linked`); nobody refers to more of the item.
    unsafe { T::link(item).as_ref() }
}

fn pop<T: Linked>(list: &OwnerPtr<T>) -> Option<NonNull<T>> {
    let first = NonNull::new(list.get())?;
    list.set(link(first).get());
    Some(first)
}

impl<T> fmt::Debug for Bag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bag").field("empty", &self.is_empty()).finish_non_exhaustive()
    }
}
