//! Groups of arenas that were dropped while slots of theirs are out: each goes when its last slot comes home.
//!
//! A group counts its slots down (`GroupPtr::count_down`), and whoever counts the last one has it freed. But a free that was in the midst
//! of it when the arena was dropped counts nothing: it only sets its bit, and no free can afford to look whether somebody dropped the
//! arena meanwhile. So the groups stand in a queue, and each creation and each drop of an arena looks at some of them and counts
//! what it finds.
//!
//! ```text
//!   drop of the arena --> arrivals --.                            .--> looked at: bits that nobody counted are counted
//!                                    |--> queue: new ... old -----|
//!   last slot counted --> home ------'  (one thread at a time)    '--> wholly home: freed, and with the last group the store
//! ```
//!
//! Nobody waits: who finds another thread at it leaves what he has on one of the two lists, and that one goes through once more.

use core::ptr::{self, NonNull};

use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering};
use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use crate::close;
use crate::group::{Group, GroupPtr};
use crate::store::Store;

/// Groups that a creation or a drop of an arena looks at, besides those that came since the last one.
pub(crate) const LOOKS: usize = 8;

/// What a group counts beyond its slots until it is in the queue.
const SHARE: usize = if cfg!(ephemera_weaken = "arena_park_without_share") { 0 } else { 1 };

// ORDERING: Release. Pairs with the Acquire in `take`. Publishes: what was pushed, and the link in it.
const PUSH: Ordering =
    if cfg!(ephemera_weaken = "arena_push_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `push`.
const TAKE: Ordering =
    if cfg!(ephemera_weaken = "arena_take_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

// ORDERING: AcqRel. Pairs with itself, in `Parked::take_turn`. Publishes: to the next one what was done in a turn; to the one who
// has it what those left who came meanwhile.
const TURN: Ordering =
    if cfg!(ephemera_weaken = "arena_turn_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };

/// The groups whose arenas were dropped.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Stores whose groups are not in the queue yet.
    arrivals: AtomicPtr<Store>,
    /// Groups of the queue of which the last slot was counted, linked by their `record`.
    home: AtomicPtr<Group>,
    /// Threads that wanted a turn since one has it.
    turn: AtomicUsize,
    /// How many groups they want looked at.
    wanted: AtomicUsize,
    /// The queue, linked by `next` and `prev`. Theirs who have the turn, as all that follows.
    first: OwnerPtr<Group>,
    last: OwnerPtr<Group>,
    length: OwnerUsize,
    /// How many were put in front since somebody last looked at some: they are due for their second look. Those that went meanwhile
    /// count on, so that as many more are looked at.
    due: OwnerUsize,
    /// Stores that are here.
    stores: AtomicUsize,
    /// How often a group was looked at.
    #[cfg(test)]
    looks: OwnerUsize,
}

impl Parked {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                home: AtomicPtr::new(ptr::null_mut()),
                turn: AtomicUsize::new(0),
                wanted: AtomicUsize::new(0),
                first: OwnerPtr::null(),
                last: OwnerPtr::null(),
                length: OwnerUsize::new(0),
                due: OwnerUsize::new(0),
                stores: AtomicUsize::new(0),
                #[cfg(test)]
                looks: OwnerUsize::new(0),
            }
        }
    }

    /// How many stores are here.
    pub(crate) fn stores(&self) -> usize {
        self.stores.load(Ordering::Relaxed)
    }

    /// Tells the handles of a store that their arena is gone, and has its groups counted from here.
    ///
    /// # Safety
    /// The store is alive, was gathered, and its arena is being dropped by the caller.
    pub(crate) unsafe fn park(&self, store: NonNull<Store>) {
        self.stores.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's; no group goes before it is in the queue.
        unsafe { close::disown(store, SHARE) };
        // SAFETY: alive, as a group of it is; a reference to the word alone.
        let link = unsafe { &(*store.as_ptr()).link };
        push(&self.arrivals, store.as_ptr(), |next| link.set(next));
        self.wanted.fetch_max(LOOKS, Ordering::Relaxed);
        self.take_turn();
    }

    /// Has a group freed whose last slot was counted.
    ///
    /// # Safety
    /// The caller counted it. It does not touch the group from here.
    pub(crate) unsafe fn came_home(&self, group: GroupPtr) {
        push(&self.home, group.as_ptr(), |next| group.record().set(next.cast()));
        self.take_turn();
    }

    /// Looks at the groups that came since the last look, and at so many others. Returns how many stores were freed: none if another
    /// thread is at it, which then does it, or if this is a look within a look (a heap that drops an arena).
    pub(crate) fn look(&self, others: usize) -> usize {
        if self.stores() == 0 {
            return 0;
        }
        self.wanted.fetch_max(others, Ordering::Relaxed);
        self.take_turn()
    }

    /// Does what there is to do, unless another thread is at it: that one then goes through once more.
    fn take_turn(&self) -> usize {
        // ORDERING: `TURN`. Pairs with `Parked::take_turn`.
        if self.turn.fetch_add(1, TURN) != 0 {
            return 0;
        }
        let (mut freed, mut served) = (0, 1);
        loop {
            freed += self.free_home();
            let wanted = self.wanted.swap(0, Ordering::Relaxed);
            if wanted != 0 {
                freed += self.look_at_some(wanted.saturating_add(self.due.get()));
            }
            freed += self.admit();
            // ORDERING: `TURN`. Pairs with `Parked::take_turn`.
            let came = self.turn.fetch_sub(served, TURN);
            if came == served {
                return freed;
            }
            served = came - served;
        }
    }

    /// Frees the groups of which the last slot was counted.
    fn free_home(&self) -> usize {
        let mut freed = 0;
        let mut rest = take(&self.home);
        // SAFETY: G1: they are freed here and nowhere else.
        while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
            rest = group.record().get().cast();
            freed += self.finish(group);
        }
        freed
    }

    /// Looks at so many groups from the front of the queue, which go to its end.
    fn look_at_some(&self, most: usize) -> usize {
        let mut freed = 0;
        self.due.set(0);
        for _ in 0..most.min(self.length.get()) {
            // SAFETY: G1: groups in the queue are freed by who has the turn alone.
            let Some(group) = (unsafe { GroupPtr::from_raw(self.first.get()) }) else { break };
            self.unlink(group);
            self.link_last(group);
            freed += self.look_at(group);
        }
        freed
    }

    /// Counts what came home uncounted, in a group and in the inbox of its shard.
    fn look_at(&self, group: GroupPtr) -> usize {
        #[cfg(test)]
        self.looks.add(1);
        group.touch();
        // SAFETY: the store lives: it has this group.
        let store = unsafe { &*group.store() };
        // SAFETY: slots of it were out, so it is bound.
        let shard = unsafe { group.shard_of() };
        let (mut freed, mut here) = (0, 0);
        // The group itself stays until it was gone through.
        let came = |other: GroupPtr, slots| {
            if other == group {
                here += slots;
            } else {
                freed += self.count(other, slots);
            }
        };
        // SAFETY: the store's arena is gone, and this thread has the turn.
        unsafe { close::take_inbox(store, shard, came) };
        // SAFETY: as above.
        here += unsafe { close::note_home(store.geometry(), shard, group) };
        if cfg!(ephemera_weaken = "arena_look_in_vain") {
            return freed;
        }
        freed + self.count(group, here)
    }

    /// Counts slots that came home uncounted.
    fn count(&self, group: GroupPtr, slots: usize) -> usize {
        if slots != 0 && group.count_down(slots) { self.finish(group) } else { 0 }
    }

    /// Puts the groups of the stores that arrived at the front of the queue, and looks at them.
    fn admit(&self) -> usize {
        let mut freed = 0;
        let mut rest = take(&self.arrivals);
        while let Some(store) = NonNull::new(rest) {
            // SAFETY: alive, as its groups are: each has a count for this queue beyond those of its slots.
            let this = unsafe { store.as_ref() };
            rest = this.link.get();
            let mut came: usize = 0;
            for shard in this.shards() {
                let mut list = shard.groups().get();
                // SAFETY: G1, as above.
                while let Some(group) = unsafe { GroupPtr::from_raw(list) } {
                    list = group.next().get();
                    self.link_first(group);
                    came += 1;
                }
            }
            self.due.add(came);
            let mut next = self.first.get();
            for _ in 0..came {
                // SAFETY: G1: it was linked above, and no look at those before it frees it, as it still has its share (E1).
                let Some(group) = (unsafe { GroupPtr::from_raw(next) }) else { break };
                next = group.next().get();
                freed += self.look_at(group) + self.count(group, SHARE);
            }
        }
        freed
    }

    /// Frees a group of which no slot is out. Returns how many stores.
    fn finish(&self, group: GroupPtr) -> usize {
        self.unlink(group);
        // SAFETY: whoever counted the last slot gave the group up, and it is in no list; this thread has the turn.
        let last = unsafe { close::release(group) };
        if last {
            self.stores.fetch_sub(1, Ordering::Relaxed);
        }
        usize::from(last)
    }

    fn link_first(&self, group: GroupPtr) {
        let next = self.first.get();
        self.link(group, ptr::null_mut(), next);
    }

    fn link_last(&self, group: GroupPtr) {
        let prev = self.last.get();
        self.link(group, prev, ptr::null_mut());
    }

    fn link(&self, group: GroupPtr, prev: *mut Group, next: *mut Group) {
        group.prev().set(prev);
        group.next().set(next);
        self.join(prev, group.as_ptr());
        self.join(group.as_ptr(), next);
        self.length.add(1);
    }

    fn unlink(&self, group: GroupPtr) {
        self.join(group.prev().get(), group.next().get());
        self.length.sub(1);
    }

    /// Makes two groups neighbours; null is the end of the queue.
    fn join(&self, prev: *mut Group, next: *mut Group) {
        // SAFETY: G1: groups in the queue are freed by who has the turn alone.
        match unsafe { GroupPtr::from_raw(prev) } {
            Some(prev) => prev.next().set(next),
            None => self.first.set(next),
        }
        // SAFETY: as above.
        match unsafe { GroupPtr::from_raw(next) } {
            Some(next) => next.prev().set(prev),
            None => self.last.set(prev),
        }
    }
}

fn is_empty<T>(list: &AtomicPtr<T>) -> bool {
    list.load(Ordering::Relaxed).is_null()
}

/// Pushes an item; `link` writes what is behind it into it.
fn push<T>(list: &AtomicPtr<T>, item: *mut T, link: impl Fn(*mut T)) {
    // Blind under loom, which reverses an operation only with the last one on the same atomic.
    let mut head = if cfg!(ephemera_loom) { ptr::null_mut() } else { list.load(Ordering::Relaxed) };
    loop {
        link(head);
        // ORDERING: `PUSH`. Pairs with `take`.
        match list.compare_exchange_weak(head, item, PUSH, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Takes the whole list.
fn take<T>(list: &AtomicPtr<T>) -> *mut T {
    if is_empty(list) {
        return ptr::null_mut();
    }
    // ORDERING: `TAKE`. Pairs with `push`.
    list.swap(ptr::null_mut(), TAKE)
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests;
