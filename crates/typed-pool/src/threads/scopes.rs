//! The heaps of scopes, and how a thread enters and leaves them.
//!
//! ```text
//!   ScopeHeaps --> ledger                       one for each scope that is alive
//!        '-------> record --> record --> ...    one for each thread that is in the scope
//! ```
//!
//! A thread that enters a scope leases one of its records and stores that record's table in the
//! thread-local of `PooledAllocator`. When it leaves, it restores the former table and releases the
//! lease. So the fast path does not change, and a block of a scope is an ordinary block.
//!
//! Heaps of scopes are never freed. When a scope ends, its heaps go to a pool with the units that
//! escaped blocks keep, and the next scope allocates from the free slots of those units. The pool
//! has a place for each thread, so a thread usually gets the heaps that it used last.

use core::alloc::Layout;
use core::ptr;

use crossbeam_utils::CachePadded;
use ephemera_prim::gate::Gate;
use ephemera_prim::pages;
use ephemera_prim::record::{Lease, Record};
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, push};

use super::Family;
use super::ends;
use super::ledger::{Ledger, NO_LIMIT};
use super::scope_ref::ScopeRef;
use super::table::{Heaps, PoolRecord};
use crate::alloc::pooled_family;

/// The heaps of one scope.
///
/// # Invariant
/// **S1** It and its records are permanent memory. Its ledger is the ledger of its records.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ScopeHeaps {
    ledger: Ledger,
    records: AtomicPtr<ScopeRecord>,
    /// The number of `ScopeRef`s.
    pub(super) users: AtomicUsize,
    /// The next of all heaps of scopes.
    later: AtomicPtr<ScopeHeaps>,
    /// The next ones in the pool.
    below: AtomicPtr<ScopeHeaps>,
}

/// A record of a scope. It is in no registry, so no thread takes it for its own.
#[derive(Debug)]
#[repr(C)]
struct ScopeRecord {
    record: Record<PoolRecord>,
    later: AtomicPtr<ScopeRecord>,
}

/// All heaps of scopes.
static ALL: AtomicPtr<ScopeHeaps> = AtomicPtr::new(ptr::null_mut());

/// The number of places for heaps that a thread used last.
const PLACES: usize = 64;

/// The heaps that threads used last, by a hash of the thread.
static PLACE: [CachePadded<AtomicPtr<ScopeHeaps>>; PLACES] =
    [const { CachePadded::new(AtomicPtr::new(ptr::null_mut())) }; PLACES];

/// Other heaps that no scope uses.
struct Idle {
    /// Heaps of ended scopes. All threads push to it. Only the holder of the gate takes from it.
    returned: AtomicPtr<ScopeHeaps>,
    /// Heaps of counting scopes that a thread took from `returned`. A search moves through all of
    /// them before it sees one again. Only the holder of the gate uses it.
    taken: AtomicPtr<ScopeHeaps>,
    gate: Gate,
}

impl Idle {
    const fn new() -> Self {
        Self {
            returned: AtomicPtr::new(ptr::null_mut()),
            taken: AtomicPtr::new(ptr::null_mut()),
            gate: Gate::new(),
        }
    }
}

/// The heaps of ordinary scopes, and those of counting scopes.
static IDLE: [Idle; 2] = [Idle::new(), Idle::new()];

/// The number of idle heaps that a new counting scope looks at. It needs heaps without units.
const LOOKS: usize = 8;

/// The number of times that a thread waits for a record before it makes a further one. Each try
/// costs little beside the table that the further record needs.
const WAITS: usize = if cfg!(miri) { 2 } else { 50 };

// ORDERING: Release. Pairs with the Acquire in `follow` and `take_all`. Publishes: the item that is
// pushed, and all that was written to it.
const PUSH: Ordering = Ordering::Release;

/// Returns the item at an end or a link of a list of permanent items.
fn follow<T>(link: &AtomicPtr<T>) -> Option<&'static T> {
    // ORDERING: Acquire. Pairs with the Release in `add_to`: sees the item complete.
    let item = link.load(Ordering::Acquire);
    // SAFETY: S1: lists have permanent items only.
    unsafe { item.as_ref() }
}

/// Pushes a permanent item to a list.
fn add_to<T>(head: &AtomicPtr<T>, item: &'static T, link: &AtomicPtr<T>) {
    let set = |below| link.store(below, Ordering::Relaxed);
    // ORDERING: `PUSH`. Pairs with the Acquire in `follow` and in `take_all`. Publishes: the item.
    push(head, ptr::from_ref(item).cast_mut(), None, PUSH, set);
}

/// Takes all items of a list.
fn take_all<T>(head: &AtomicPtr<T>) -> *mut T {
    // ORDERING: Acquire. Pairs with the Release in `add_to`: sees the items complete.
    head.swap(ptr::null_mut(), Ordering::Acquire)
}

/// Puts a value into permanent memory. Returns `None` if there is no memory.
fn permanent<T>(value: T) -> Option<&'static T> {
    let place = pages::permanent(Layout::new::<T>()).ok()?.cast::<T>();
    // SAFETY: the memory is unused and has this layout.
    unsafe { place.write(value) };
    // SAFETY: the value was just written and is never freed.
    Some(unsafe { place.as_ref() })
}

/// Returns the records of all scopes, for the family that scopes have heaps of.
pub(super) fn records_of(family: &Family) -> impl Iterator<Item = &'static Record<PoolRecord>> + use<> {
    let mut at = if ptr::eq(family, pooled_family()) { follow(&ALL) } else { None };
    core::iter::from_fn(move || {
        let heaps = at?;
        at = follow(&heaps.later);
        Some(heaps)
    })
    .flat_map(ScopeHeaps::records)
}

/// Returns the place of the calling thread.
fn place() -> &'static AtomicPtr<ScopeHeaps> {
    let key = (pooled_family().cell)();
    let thread = key.try_with(|cell| ptr::from_ref(cell).addr()).unwrap_or(0) as u64;
    let hash = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    &PLACE[hash as usize % PLACES]
}

impl ScopeHeaps {
    /// Returns heaps that no scope uses, or new ones. Those of a counting scope have no units.
    /// Returns `None` if there is no memory.
    pub(crate) fn start(limit: usize, counting: bool) -> Option<ScopeRef> {
        let heaps = Self::idle(counting).or_else(|| Self::make(counting))?;
        heaps.ledger.begin(limit);
        Some(ScopeRef::new(heaps))
    }

    fn idle(counting: bool) -> Option<&'static Self> {
        let in_place = if counting { ptr::null_mut() } else { take_all(place()) };
        // SAFETY: S1: a place has permanent heaps, or none.
        if let Some(heaps) = unsafe { in_place.as_ref() } {
            return Some(heaps);
        }
        if counting {
            return Self::idle_without_units(&IDLE[1]);
        }
        if let Some(heaps) = Self::last_returned() {
            return Some(heaps);
        }
        // The threads of other places may have ended.
        // SAFETY: S1: a place has permanent heaps, or none.
        PLACE
            .iter()
            .filter(|place| !place.load(Ordering::Relaxed).is_null())
            .find_map(|place| unsafe { take_all(place).as_ref() })
    }

    /// Looks at some heaps, each once, and returns one without units.
    fn idle_without_units(idle: &'static Idle) -> Option<&'static Self> {
        let mut others = [None; LOOKS];
        let mut found = None;
        for other in &mut others {
            let Some(heaps) = Self::pop(idle) else { break };
            if heaps.ledger.counted_units() == 0 {
                found = Some(heaps);
                break;
            }
            *other = Some(heaps);
        }
        // They are pushed after the search, which would find them again.
        others.into_iter().flatten().for_each(|heaps| add_to(&idle.returned, heaps, &heaps.below));
        found
    }

    /// Returns the heaps of the ordinary scope that ended last. So most heaps of a burst of scopes
    /// stay unused after it.
    fn last_returned() -> Option<&'static Self> {
        let idle = &IDLE[0];
        let _pass = idle.gate.enter()?;
        while let Some(heaps) = follow(&idle.returned) {
            let below = heaps.below.load(Ordering::Relaxed);
            // Only this thread takes heaps, so the first ones stay on the list and keep their link
            // until the exchange. It fails if another thread has pushed. Relaxed: `follow` saw the
            // heaps, and the exchange continues the release sequence of the pushes.
            let first = ptr::from_ref(heaps).cast_mut();
            let taken = idle.returned.compare_exchange(first, below, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(heaps);
            }
        }
        None
    }

    fn pop(idle: &'static Idle) -> Option<&'static Self> {
        let _pass = idle.gate.enter()?;
        if idle.taken.load(Ordering::Relaxed).is_null() {
            idle.taken.store(take_all(&idle.returned), Ordering::Relaxed);
        }
        // SAFETY: S1: the list has permanent heaps only.
        let heaps = unsafe { idle.taken.load(Ordering::Relaxed).as_ref() }?;
        idle.taken.store(heaps.below.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(heaps)
    }

    #[cold]
    pub(super) fn make(counting: bool) -> Option<&'static Self> {
        // A forked child must distinguish its memory from that of its parent's threads.
        let _ = ephemera_prim::fork::generation();
        let heaps = permanent(Self {
            ledger: Ledger::new(counting),
            records: AtomicPtr::new(ptr::null_mut()),
            users: AtomicUsize::new(0),
            later: AtomicPtr::new(ptr::null_mut()),
            below: AtomicPtr::new(ptr::null_mut()),
        })?;
        add_to(&ALL, heaps, &heaps.later);
        Some(heaps)
    }

    pub(super) fn records(&'static self) -> impl Iterator<Item = &'static Record<PoolRecord>> {
        let mut at = follow(&self.records);
        core::iter::from_fn(move || {
            let record = at?;
            at = follow(&record.later);
            Some(&record.record)
        })
    }

    /// Leases a record that no thread is in. If all are held, this waits for a moment and then
    /// makes a further record, which is never freed.
    pub(super) fn lease(&'static self) -> Option<Lease<'static, PoolRecord>> {
        self.lease_or_wait(core::hint::spin_loop)
    }

    /// As [`lease`](Self::lease), with `wait` between two tries. Threads hold a record only for a
    /// moment while they drain it or read its statistics.
    pub(super) fn lease_or_wait(&'static self, mut wait: impl FnMut()) -> Option<Lease<'static, PoolRecord>> {
        let mut first = self.records().find_map(Record::try_lease);
        if follow(&self.records).is_some() {
            for _ in 0..WAITS {
                if first.is_some() {
                    break;
                }
                wait();
                first = self.records().find_map(Record::try_lease);
            }
        }
        first.or_else(|| self.add())
    }

    #[cold]
    fn add(&'static self) -> Option<Lease<'static, PoolRecord>> {
        // SAFETY: S1: the ledger is permanent.
        let data = unsafe { PoolRecord::of_scope(&raw const self.ledger) };
        let record = Record::new(data);
        let new = permanent(ScopeRecord { record, later: AtomicPtr::new(ptr::null_mut()) })?;
        let lease = new.record.try_lease();
        // The first record stays the first, so that a thread prefers the one with most units.
        let list = follow(&self.records).map_or(&self.records, |first| &first.later);
        add_to(list, new, &new.later);
        lease
    }

    /// Leases a record of the scope and its table, and makes them if needed.
    pub(super) fn lease_table(&'static self) -> Option<(Lease<'static, PoolRecord>, Heaps<'static>)> {
        let lease = self.lease()?;
        // SAFETY: this thread holds the record; records and families are never freed.
        match unsafe { Heaps::find_or_make(lease.record(), pooled_family()) } {
            Some(heaps) => Some((lease, heaps)),
            None => {
                ends::release(lease);
                None
            }
        }
    }

    /// Ends the scope. Its heaps go to the pool.
    pub(super) fn end(&'static self) {
        self.records().for_each(ends::end_scope);
        let counting = self.ledger.is_counting();
        // ORDERING: Release. Pairs with the Acquire in `take_all`. Publishes: the heaps.
        let kept = !counting
            && place()
                .compare_exchange(
                    ptr::null_mut(),
                    ptr::from_ref(self).cast_mut(),
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok();
        if !kept {
            add_to(&IDLE[usize::from(counting)].returned, self, &self.below);
        }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// The limit of a scope without a limit.
pub(crate) const UNLIMITED: usize = NO_LIMIT;
