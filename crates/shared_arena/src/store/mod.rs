//! The store behind an arena: its shards, the groups that no shard has, and its end.
//!
//! ```text
//!   arena --> store --> segments 0, 1, 2, … --> shards, by the place of their record --> groups
//!                   --> groups that nobody has
//! ```
//!
//! Store, segments and shards live until the last group is gone, whether the arena still lives or not.

mod segments;

pub(crate) use segments::Seat;

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;

use ephemera_prim::epoch::Epoch;
use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicUsize, Ordering};
use ephemera_prim::word::OwnerPtr;

use crate::account::Account;
use crate::error::Refused;
use crate::geometry::Geometry;
use crate::group::{self, ALIVE, Group, GroupPtr};
use crate::owner::bytes_of;
use crate::shard::ShardPtr;
use segments::Segments;

/// How often a caller who may wait looks for the gate, letting other threads run in between.
const PATIENCE: usize = if cfg!(ephemera_loom) {
    1
} else if cfg!(miri) {
    8
} else {
    1 << 12
};

/// Bytes for which the heap is asked once, before they are taken group by group: so much it may well not have.
const ENORMOUS: usize = match 1_usize.checked_shl(40) {
    Some(bytes) => bytes,
    None => usize::MAX,
};

/// What a store is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The most bytes it may hold.
    pub(crate) limit: usize,
    /// Whether idle groups go by themselves.
    pub(crate) trims: bool,
}

/// What an arena, and after it its handles, share.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Store {
    segments: Segments,
    geometry: Geometry,
    account: Account,
    /// The pointer to this store that may access and free all of it.
    this: NonNull<Store>,
    /// Groups that no shard has: all their slots are free. Behind the gate.
    unbound: OwnerPtr<Group>,
    /// Closed while groups leave a list, or while somebody walks along them.
    gate: Gate,
    epoch: Epoch,
    trims: bool,
    /// Whether one thread has all of it: a pool.
    single: bool,
    /// The copy of this crate that made it.
    copy: *const (),
    /// `ALIVE`, less what has gone since the end of the arena began. After that: groups, and shards in a bag, that are left.
    left: AtomicUsize,
}

/// What tells this copy of the crate from others in the process: a plugin has its own.
fn this_copy() -> *const () {
    // Written to by nobody, but not the same as other constants.
    static COPY: AtomicU8 = AtomicU8::new(0);
    (&raw const COPY).cast()
}

impl Store {
    /// A store without groups.
    pub(crate) fn create(
        geometry: Geometry,
        settings: Settings,
        single: bool,
    ) -> Result<NonNull<Self>, Refused> {
        let account = Account::new(settings.limit);
        let place = account.acquire(Layout::new::<Self>())?.cast::<Self>();
        let store = Self {
            segments: segments::none(),
            geometry,
            account,
            this: place,
            unbound: OwnerPtr::null(),
            gate: Gate::new(),
            epoch: Epoch::new(),
            trims: settings.trims,
            single,
            copy: this_copy(),
            left: AtomicUsize::new(ALIVE),
        };
        // SAFETY: fresh memory of this layout.
        unsafe { place.write(store) };
        Ok(place)
    }

    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Whether idle groups go by themselves.
    pub(crate) fn trims(&self) -> bool {
        self.trims
    }

    /// Whether one thread has all of it.
    pub(crate) fn single(&self) -> bool {
        self.single
    }

    /// Whether this copy of the crate made the store. Threads of another copy have other seats.
    #[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
    pub(crate) fn is_ours(&self) -> bool {
        ptr::eq(self.copy, this_copy())
    }

    /// Has the store look as if another copy of the crate had made it.
    ///
    /// # Safety
    /// The store is alive, and no other thread uses it.
    #[cfg(all(test, feature = "std", not(ephemera_loom)))]
    pub(crate) unsafe fn disown(store: NonNull<Self>) {
        // SAFETY: the caller's.
        unsafe { (*store.as_ptr()).copy = ptr::null() };
    }

    /// Goes behind the gate, unless somebody stands there for long.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        self.gate.enter()
    }

    /// The same for callers who may wait longer.
    pub(crate) fn enter_patiently(&self) -> Option<Pass<'_>> {
        for _ in 0..PATIENCE {
            if let Some(pass) = self.gate.enter() {
                return Some(pass);
            }
            #[cfg(all(feature = "std", not(ephemera_loom)))]
            std::thread::yield_now();
        }
        None
    }

    /// A group from the heap, bound to nobody.
    pub(crate) fn make_group(&self, pages: usize) -> Result<GroupPtr, Refused> {
        let Some(layout) = group::layout(&self.geometry, pages) else {
            return Err(self.account.refused(bytes_of(&self.geometry, pages)));
        };
        let memory = self.account.acquire(layout)?;
        // SAFETY: fresh memory of this layout.
        Ok(unsafe { GroupPtr::create(memory, &self.geometry, pages, self.this.as_ptr()) })
    }

    /// Adds groups with free slots for `slots` values, for whoever comes first.
    pub(crate) fn reserve(&self, slots: usize) -> Result<(), Refused> {
        let mut pages = self.geometry.pages_for(slots);
        // What cannot be is refused before anything is taken.
        let bytes = self.geometry.bytes_in_groups(pages).unwrap_or(usize::MAX);
        match Layout::from_size_align(bytes, 1) {
            Ok(layout) if self.account.allows(bytes) => {
                if bytes > ENORMOUS {
                    let block = self.account.acquire(layout)?;
                    // SAFETY: from above, and nobody has seen it.
                    unsafe { self.account.release(block, layout) };
                }
            }
            _ => return Err(self.account.refused(bytes)),
        }
        while pages != 0 {
            let some = pages.min(self.geometry.pages);
            let group = self.make_group(some)?;
            match self.enter_patiently() {
                Some(_pass) => self.push_unbound(group),
                // SAFETY: just made, and seen by nobody. Only a child of a fork finds the gate shut for so long.
                None => unsafe { group.release(self) },
            }
            pages -= some;
        }
        Ok(())
    }

    /// Keeps a group whose slots are all free for any shard. Behind the gate.
    pub(crate) fn push_unbound(&self, group: GroupPtr) {
        group.next().set(self.unbound.get());
        self.unbound.set(group.as_ptr());
    }

    /// Whether there are groups that no shard has, as far as can be seen from outside the gate.
    pub(crate) fn has_unbound(&self) -> bool {
        !self.unbound.get().is_null()
    }

    /// Goes behind the gate, takes a group that no shard has, and has it bound before anybody walks along.
    pub(crate) fn pop_unbound(
        &self,
        enter: fn(&Self) -> Option<Pass<'_>>,
        bind: impl FnOnce(GroupPtr),
    ) -> Option<()> {
        let weak = cfg!(ephemera_weaken = "arena_bind_beside_another");
        let pass = if weak { None } else { enter(self) };
        if pass.is_none() && !weak {
            return None;
        }
        // SAFETY: G1: groups on the list are alive while this thread is behind the gate.
        let group = unsafe { GroupPtr::from_raw(self.unbound.get()) }?;
        self.unbound.set(group.next().get());
        bind(group);
        Some(())
    }

    /// Gives the groups that no shard has back to the heap, and returns how many. None if the gate stays shut.
    pub(crate) fn release_unbound(&self) -> usize {
        let Some(pass) = self.enter_patiently() else { return 0 };
        let list = self.unbound.get();
        self.unbound.set(ptr::null_mut());
        drop(pass);
        // SAFETY: taken off the list.
        unsafe { self.release_list(list) }
    }

    /// The same when the arena is gone, and the caller alone goes through the store.
    pub(crate) fn release_unbound_at_end(&self) {
        let list = self.unbound.get();
        self.unbound.set(ptr::null_mut());
        // SAFETY: taken off the list.
        unsafe { self.release_list(list) };
    }

    /// Frees all groups of a list, and returns how many.
    ///
    /// # Safety
    /// They are wholly free, and nobody else has a pointer to them.
    pub(crate) unsafe fn release_list(&self, mut list: *mut Group) -> usize {
        let mut count = 0;
        // SAFETY: G1: nobody else frees them.
        while let Some(group) = unsafe { GroupPtr::from_raw(list) } {
            list = group.next().get();
            // SAFETY: the caller's.
            unsafe { group.release(self) };
            count += 1;
        }
        count
    }

    /// Calls `visit` for every group and the shard that has it. The caller is behind the gate, or has the store for itself.
    pub(crate) fn walk(&self, mut visit: impl FnMut(Option<ShardPtr>, GroupPtr)) {
        let lists = self.shards().map(|shard| (Some(shard), shard.groups().follow()));
        for (shard, mut at) in lists.chain(core::iter::once((None, self.unbound.get()))) {
            // SAFETY: G1: no group leaves its list while the caller is behind the gate.
            while let Some(group) = unsafe { GroupPtr::from_raw(at) } {
                group.touch();
                at = group.next().get();
                visit(shard, group);
            }
        }
    }

    /// Takes `parts` off what is left of a dropped arena, and frees the store with the last of them. Returns whether it did.
    ///
    /// # Safety
    /// The caller counted in these parts, or freed these groups, and uses the store no more unless it has a part of its own.
    pub(crate) unsafe fn part(store: NonNull<Self>, parts: usize) -> bool {
        // SAFETY: alive, as the caller's parts are left; a reference to the atomic alone.
        let last = take_off(unsafe { &(*store.as_ptr()).left }, parts);
        if last {
            // SAFETY: no group is left, and no bag has a shard of it. Each user was a part, and saw the others end.
            unsafe { Self::dissolve(store) };
        }
        last
    }

    /// What is left of a dropped arena.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(crate) fn parts(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Frees shards, segments and the store itself.
    ///
    /// # Safety
    /// No group is left, and nobody else uses the store any more.
    pub(crate) unsafe fn dissolve(store: NonNull<Self>) {
        // SAFETY: alive, and the caller's alone. What is needed of it is copied or moved out before it is freed.
        let this = unsafe { store.as_ref() };
        // SAFETY: the caller's.
        unsafe { this.release_shards() };
        let layout = Layout::new::<Self>();
        ephemera_prim::invariant!(this.account.held() == layout.size(), "a store leaves memory behind");
        // SAFETY: acquired in `create` with this layout; `this` is not used any more.
        unsafe { ephemera_prim::raw::release(&allocator_api2::alloc::Global, store.cast(), layout) };
    }
}

/// Takes `parts` off, and returns whether nothing is left.
#[cfg(target_has_atomic = "ptr")]
fn take_off(left: &AtomicUsize, parts: usize) -> bool {
    // ORDERING: AcqRel. Pairs with itself, in `take_off`. Publishes: the end of use of the store, to the thread that frees it.
    const PART: Ordering =
        if cfg!(ephemera_weaken = "arena_left_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
    // ORDERING: `PART`. Pairs with `take_off`.
    left.fetch_sub(parts, PART) == parts
}

/// Without compare-and-swap there are only types for one thread.
#[cfg(not(target_has_atomic = "ptr"))]
fn take_off(left: &AtomicUsize, parts: usize) -> bool {
    let rest = left.load(Ordering::Relaxed) - parts;
    left.store(rest, Ordering::Relaxed);
    rest == 0
}
