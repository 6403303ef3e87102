//! Defines a **bag**: a set of items. Many threads push items, and one thread at a time visits
//! them.
//!
//! ```text
//!   push --> news --> fresh --.
//!                             |--> visited --> seen --> old, when that is empty
//!                     old ----'
//! ```
//!
//! The visitor passes a gate, for which no thread waits. At every moment, an item is in at most one
//! list. A forked child therefore finds intact lists even if a thread of the parent was in the
//! middle of a visit. The child misses at most the items that this thread had taken out of a list.

use core::ptr::{self, NonNull};

use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, fence, push};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerPtr;

// ORDERING: Release. Pairs with the Acquire in `Visit::next_new`. Publishes: the item, and the link
// in it.
ordering!(push_order = Release, Relaxed if "arena_push_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Bag::push`.
ordering!(take_order = Acquire, Relaxed if "arena_take_relaxed");

/// A type whose values can be in a bag. A value is in at most one bag at a time.
pub(crate) trait Linked: Sized {
    /// Returns the item's link. The item and its link are live while a thread pushes the item,
    /// while it is in a bag, and while a visitor has it.
    fn link<'a>(item: NonNull<Self>) -> &'a BagLink<Self>
    where
        Self: 'a;
}

/// The link from an item to the next item in the same list. Only a thread that has taken the item
/// out, or is about to push it, writes the link.
#[derive(Debug)]
pub(crate) struct BagLink<T> {
    next: OwnerPtr<T>,
    /// Lets loom check that each reader of the link or of the item sees the last write to it.
    witness: Witness,
}

impl<T> BagLink<T> {
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

/// A set of items that wait for a visit.
#[derive(Debug)]
pub(crate) struct Bag<T> {
    /// Items that no visitor has taken since they were pushed.
    news: AtomicPtr<T>,
    gate: Gate,
    /// Requests of threads that found the gate shut, as bits.
    requests: AtomicUsize,
    /// Items taken from `news` that no thread has visited yet. This list, `old` and `seen` belong
    /// to the visitor.
    fresh: OwnerPtr<T>,
    /// Items to visit again.
    old: OwnerPtr<T>,
    /// Items that were visited since a visitor last moved this list to `old`.
    seen: OwnerPtr<T>,
}

impl<T> Bag<T> {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                news: AtomicPtr::new(ptr::null_mut()),
                gate: Gate::new(),
                requests: AtomicUsize::new(0),
                fresh: OwnerPtr::null(),
                old: OwnerPtr::null(),
                seen: OwnerPtr::null(),
            }
        }
    }

    /// Returns whether this thread sees pushed items that no visitor has taken.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.load(Ordering::Relaxed).is_null()
    }

    /// Takes the requests of threads that found the gate shut. Returns them as bits, or 0 if there
    /// are none. The caller must have opened the gate and then issued a `SeqCst` fence, so that it
    /// sees the requests of all threads that it kept from a visit.
    pub(crate) fn take_requests(&self) -> usize {
        if self.requests.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // ORDERING: AcqRel. Pairs with `Bag::visit_or_request`. Publishes: the earlier writes of
        // the requesting threads.
        self.requests.swap(0, Ordering::AcqRel)
    }

    /// Returns whether this thread sees no item in the bag. Items that a visitor has taken out are
    /// not in the bag.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let lists = [&self.fresh, &self.old, &self.seen];
        !self.has_news() && lists.iter().all(|list| list.get().is_null())
    }
}

impl<T: Linked> Bag<T> {
    /// Adds an item.
    pub(crate) fn push(&self, item: NonNull<T>) {
        // ORDERING: `push_order`. Pairs with `Visit::next_new`.
        push(&self.news, item.as_ptr(), None, push_order(), |below| T::link(item).set(below));
    }

    /// Starts a visit. Returns `None` if another thread is visiting.
    pub(crate) fn visit(&self) -> Option<Visit<'_, T>> {
        let pass = self.gate.try_enter()?;
        Some(Visit { bag: self, kept: ptr::null_mut(), _pass: pass })
    }

    /// Starts a visit. If another thread is visiting and `request` is 0, returns `None`. If
    /// `request` is not 0, leaves it for the visitor and tries again. If the second try fails too,
    /// returns `None`, and this visitor or a later one finds the request after it has opened the
    /// gate.
    pub(crate) fn visit_or_request(&self, request: usize) -> Option<Visit<'_, T>> {
        let visit = self.visit();
        if visit.is_some() || request == 0 {
            return visit;
        }
        // ORDERING: AcqRel. Pairs with `Bag::take_requests`. Publishes: the earlier writes of this
        // thread.
        self.requests.fetch_or(request, Ordering::AcqRel);
        // ORDERING: SeqCst. Pairs with `parked::visit`. Publishes: the request. Either this thread
        // finds the gate open, or the visitor finds the request.
        fence(Ordering::SeqCst);
        self.visit()
    }
}

/// One thread's visit to a bag. Dropping it returns the kept items to the bag.
pub(crate) struct Visit<'b, T: Linked> {
    bag: &'b Bag<T>,
    kept: *mut T,
    _pass: Pass<'b>,
}

impl<T: Linked> Visit<'_, T> {
    /// Takes out an item that no thread has visited yet. Returns `None` if there is none.
    pub(crate) fn next_new(&mut self) -> Option<NonNull<T>> {
        if self.bag.fresh.get().is_null() && self.bag.has_news() {
            // ORDERING: `take_order`. Pairs with `Bag::push`.
            self.bag.fresh.set(self.bag.news.swap(ptr::null_mut(), take_order()));
        }
        pop(&self.bag.fresh)
    }

    /// Takes out an item that an earlier visit kept. Returns `None` if there is none. Takes out
    /// each of these items once before it takes out any of them again.
    pub(crate) fn next_old(&mut self) -> Option<NonNull<T>> {
        if self.bag.old.get().is_null() {
            let seen = self.bag.seen.get();
            self.bag.seen.set(ptr::null_mut());
            self.bag.old.publish(seen);
        }
        pop(&self.bag.old)
    }

    /// Keeps an item for another visit.
    pub(crate) fn keep(&mut self, item: NonNull<T>) {
        T::link(item).set(self.kept);
        self.kept = item.as_ptr();
    }
}

impl<T: Linked> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        while let Some(item) = NonNull::new(self.kept) {
            self.kept = T::link(item).get();
            T::link(item).set(self.bag.seen.get());
            self.bag.seen.publish(item.as_ptr());
        }
    }
}

fn pop<T: Linked>(list: &OwnerPtr<T>) -> Option<NonNull<T>> {
    let first = NonNull::new(list.get())?;
    list.set(T::link(first).get());
    Some(first)
}
