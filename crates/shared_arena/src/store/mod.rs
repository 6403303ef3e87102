//! Defines the store of an arena: its shards, the groups that no shard has, and the count of its
//! parts.
//!
//! ```text
//!   arena --> store --> segments 0, 1, 2, … --> shards, by the seat of their record --> groups
//!                   --> groups that no shard has
//! ```
//!
//! The parts of a store are its groups, its shards in a bag, and the thread that drops the arena.
//! The store, its segments and its shards live until the last part is taken off (E3).

mod capacity;
mod segments;

pub(crate) use segments::Seat;

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;

use crossbeam_utils::Backoff;
use ephemera_prim::epoch::Epoch;
use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicUsize, Ordering};
use ephemera_prim::word::OwnerPtr;

use crate::account::StoreAccount;
use crate::error::{RefusalCause, Refused};
use crate::geometry::ArenaGeometry;
use crate::group::{self, ALIVE, PageGroup, PageGroupPtr};
use crate::shard::{Shard, ShardPtr};
use segments::Segments;

/// The maximum number of times that [`enter_patiently`] calls [`Gate::enter`]. After each failed
/// call, the thread spins or lets other threads run.
const PATIENCE: usize = if cfg!(ephemera_loom) {
    1
} else if cfg!(miri) {
    8
} else {
    1 << 12
};

/// The settings of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArenaSettings {
    /// The maximum number of bytes that the store may hold.
    pub(crate) limit: usize,
    /// Whether slow paths free idle groups without a request.
    pub(crate) trims: bool,
}

/// The state that an arena and its handles share.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ArenaStore {
    segments: Segments,
    pub(crate) geometry: ArenaGeometry,
    pub(crate) account: StoreAccount,
    /// A pointer to this store that may access and free the whole store.
    this: NonNull<ArenaStore>,
    /// Empty groups that no shard has. The gate protects the list.
    pub(crate) unbound: OwnerPtr<PageGroup>,
    /// The lock that a thread holds while it changes `unbound`, takes groups off another list, or
    /// walks along the lists.
    pub(crate) gate: Gate,
    /// The trim epoch, which each request to trim raises.
    pub(crate) epoch: Epoch,
    /// Whether slow paths free idle groups without a request.
    pub(crate) trims: bool,
    /// Whether the store belongs to a pool, so that only one thread uses the store.
    pub(crate) single: bool,
    /// The address that identifies the copy of this crate that made the store.
    copy: *const (),
    /// The count of the store's parts. Until the closing thread takes its part off, the count is
    /// [`ALIVE`] minus the parts that were taken off. After that, it is the number of groups, and
    /// of shards in a bag, that are left.
    left: AtomicUsize,
}

/// Passes a gate like [`Gate::enter`], but waits longer before it returns `None`.
pub(crate) fn enter_patiently(gate: &Gate) -> Option<Pass<'_>> {
    let backoff = Backoff::new();
    for _ in 0..PATIENCE {
        if let Some(pass) = gate.enter() {
            return Some(pass);
        }
        backoff.snooze();
    }
    None
}

/// Returns an address that differs between the copies of this crate in a process. A plugin may be
/// linked with its own copy.
fn this_copy() -> *const () {
    // This static is never written. Its type is an atomic so that the compiler does not merge it
    // with other constants.
    static COPY: AtomicU8 = AtomicU8::new(0);
    (&raw const COPY).cast()
}

impl ArenaStore {
    /// Allocates a store without groups.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit or the global allocator refuses the memory for the store.
    pub(crate) fn create(
        geometry: ArenaGeometry,
        settings: ArenaSettings,
        single: bool,
    ) -> Result<NonNull<Self>, Refused> {
        let account = StoreAccount::new(settings.limit);
        let place = account.acquire(Layout::new::<Self>())?.cast::<Self>();
        let store = Self {
            segments: Segments::none(),
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
        // SAFETY: the fresh memory has the layout of a store.
        unsafe { place.write(store) };
        Ok(place)
    }

    /// Returns whether this copy of the crate made the store. Another copy assigns seats
    /// independently, so two threads of one process could have the same seat in this store.
    pub(crate) fn is_ours(&self) -> bool {
        ptr::eq(self.copy, this_copy())
    }

    /// Makes the store look as if another copy of the crate had made it.
    ///
    /// # Safety
    /// The store is live, and no other thread uses it.
    #[cfg(all(test, feature = "std", not(ephemera_loom)))]
    pub(crate) unsafe fn disown(store: NonNull<Self>) {
        // SAFETY: the store is live, and only the caller uses it.
        unsafe { (*store.as_ptr()).copy = ptr::null() };
    }

    /// Allocates a group of `pages` pages. The group is not bound to a shard.
    pub(crate) fn make_group(&self, pages: usize) -> Result<PageGroupPtr, Refused> {
        let layout = group::layout(&self.geometry, pages)
            .ok_or_else(|| self.account.refused(usize::MAX, RefusalCause::AddressSpace))?;
        let memory = self.account.acquire(layout)?;
        // SAFETY: the fresh memory has this layout.
        Ok(unsafe { PageGroupPtr::create(memory, &self.geometry, pages) })
    }

    /// Frees `group`. No other thread may touch the group after this call begins.
    ///
    /// # Safety
    /// No slot of the group is in use, no list contains it, and this store made it.
    pub(crate) unsafe fn release_group(&self, group: PageGroupPtr) {
        // SAFETY: the caller guarantees that no slot is in use and that no list contains the group.
        // `make_group` acquired the group from this account.
        unsafe { group.release(&self.account, &self.geometry) };
    }

    /// Returns the shard in this seat, if there is one. Only the thread that has the seat may call
    /// this.
    #[inline]
    pub(crate) fn shard(&self, seat: Seat) -> Option<ShardPtr> {
        self.segments.shard(seat)
    }

    /// Returns the shard in this seat. If there is none, makes one for `record`.
    ///
    /// # Errors
    /// Returns [`Refused`] if no shard can have this seat, or if the limit or the global allocator
    /// refuses the memory for the shard.
    ///
    /// # Safety
    /// The caller has the seat: it holds the record, or it is the pool's only thread.
    pub(crate) unsafe fn make_shard(&self, seat: Seat, record: *const ()) -> Result<ShardPtr, Refused> {
        if let Some(shard) = self.shard(seat) {
            return Ok(shard);
        }
        let cell = self.segments.make_cell(&self.account, seat)?;
        let layout = Layout::new::<Shard>();
        let shard = self.account.acquire(layout)?.cast::<Shard>();
        // The global allocator can itself use this arena, so the call above may have made the
        // shard.
        if let Some(there) = self.shard(seat) {
            // SAFETY: the memory was just acquired with this layout, and no other code has seen it.
            unsafe { self.account.release(shard.cast(), layout) };
            return Ok(there);
        }
        // SAFETY: the fresh memory has this layout.
        unsafe { shard.write(Shard::new(record, self.this.as_ptr().cast())) };
        cell.shard.publish(shard.as_ptr());
        // SAFETY: shards live as long as the store (S1).
        Ok(unsafe { ShardPtr::new(shard) })
    }

    /// Returns all shards that this thread sees.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardPtr> {
        self.segments.shards()
    }

    /// Returns the store to which a shard belongs.
    #[inline]
    pub(crate) fn of(shard: ShardPtr) -> NonNull<Self> {
        // SAFETY: a shard is made with the pointer to its live store, which is not null.
        unsafe { NonNull::new_unchecked(shard.store().cast_mut().cast()) }
    }

    /// Adds an empty group to the list of groups that no shard has. The caller must be inside the
    /// gate.
    pub(crate) fn push_unbound(&self, group: PageGroupPtr) {
        group.next().set(self.unbound.get());
        self.unbound.set(group.as_ptr());
    }

    /// Passes the gate with `enter`, takes a group off the list of groups that no shard has, and
    /// returns the result of `bind`, which gets the group before the gate opens again. Returns
    /// `None` if the gate stays shut or the list is empty.
    pub(crate) fn pop_unbound<R>(
        &self,
        enter: fn(&Gate) -> Option<Pass<'_>>,
        bind: impl FnOnce(PageGroupPtr) -> R,
    ) -> Option<R> {
        let weak = weakened!("arena_bind_beside_another");
        let pass = if weak { None } else { enter(&self.gate) };
        if pass.is_none() && !weak {
            return None;
        }
        // SAFETY: groups on the list are live while this thread is inside the gate (G1).
        let group = unsafe { PageGroupPtr::from_raw(self.unbound.get()) }?;
        self.unbound.set(group.next().get());
        Some(bind(group))
    }

    /// Frees the groups that no shard has, and returns their number. Does nothing and returns 0 if
    /// the gate stays shut.
    pub(crate) fn release_unbound(&self) -> usize {
        let Some(pass) = enter_patiently(&self.gate) else { return 0 };
        let list = self.unbound.get();
        self.unbound.set(ptr::null_mut());
        drop(pass);
        // SAFETY: these groups of the store are empty and off the list, so no other thread has a
        // pointer to them.
        unsafe { self.release_list(list) }
    }

    /// Frees one group that no shard has. Returns `false` if there is none or the gate stays shut.
    pub(crate) fn release_one_unbound(&self) -> bool {
        let Some(group) = self.pop_unbound(enter_patiently, |group| group) else { return false };
        // SAFETY: this group of the store is empty and off the list, so no other thread has a
        // pointer to it.
        unsafe { self.release_group(group) };
        true
    }

    /// Frees all groups of a list, and returns their number.
    ///
    /// # Safety
    /// This store made the groups, they are empty, and no other thread has a pointer to them.
    pub(crate) unsafe fn release_list(&self, list: *mut PageGroup) -> usize {
        let mut count = 0;
        // SAFETY: the caller guarantees that no other thread has a pointer to these groups, so only
        // this thread frees them (G1).
        for group in unsafe { PageGroupPtr::list(list) } {
            // SAFETY: the caller guarantees that this store made the group, and that the group is
            // empty and unreachable.
            unsafe { self.release_group(group) };
            count += 1;
        }
        count
    }

    /// Calls `visit` with each group and its shard, which is `None` if no shard has the group. The
    /// caller must be inside the gate, or must be the only user of the store.
    pub(crate) fn walk(&self, mut visit: impl FnMut(Option<ShardPtr>, PageGroupPtr)) {
        let lists = self.shards().map(|shard| (Some(shard), shard.groups().observe()));
        for (shard, list) in lists.chain(core::iter::once((None, self.unbound.get()))) {
            // SAFETY: no group leaves its list while the caller is inside the gate (G1).
            for group in unsafe { PageGroupPtr::list(list) } {
                group.touch();
                visit(shard, group);
            }
        }
    }

    /// Subtracts `parts` from the count of parts of a dropped arena's store, and frees the store if
    /// no part is left. Returns whether it freed the store.
    ///
    /// # Safety
    /// The parts are the caller's to take off: groups that it freed, a shard that it took out of a
    /// bag, or the closing thread's part. The caller uses the store afterwards only if one of the
    /// remaining parts is its own.
    pub(crate) unsafe fn take_off_parts(store: NonNull<Self>, parts: usize) -> bool {
        // SAFETY: the store is live while the caller's parts are not taken off. The reference
        // covers only this field.
        let left = unsafe { &(*store.as_ptr()).left };
        // ORDERING: AcqRel. Pairs with itself, in `take_off_parts`. Publishes: all accesses to the
        // store, to the thread that frees the store.
        ordering!(part_order = AcqRel, Relaxed if "arena_left_relaxed");
        // ORDERING: `part_order`. Pairs with the subtractions of other threads in `take_off_parts`.
        let last = left.fetch_sub(parts, part_order()) == parts;
        if last {
            // SAFETY: no group and no shard in a bag is left, and this thread sees all accesses to
            // the store by the threads that took off the other parts.
            unsafe { Self::dissolve(store) };
        }
        last
    }

    /// Returns the number of parts that are left after the arena's drop.
    #[cfg(all(test, feature = "std", not(ephemera_loom)))]
    pub(crate) fn parts(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Frees the shards, the segments and the store itself.
    ///
    /// # Safety
    /// The store is live, no group is left, and no code uses the store after this call begins.
    pub(crate) unsafe fn dissolve(store: NonNull<Self>) {
        // SAFETY: the store is live, and the caller is its only user.
        let this = unsafe { store.as_ref() };
        // SAFETY: the caller is the only user, and no group is left.
        unsafe { this.segments.release(&this.account) };
        let layout = Layout::new::<Self>();
        ephemera_prim::invariant!(this.account.bytes.held() == layout.size(), "a store leaves memory behind");
        // SAFETY: `create` acquired the store with this layout, and `this` is not used again.
        unsafe { ephemera_prim::raw::release(&allocator_api2::alloc::Global, store.cast(), layout) };
    }
}
