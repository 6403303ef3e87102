//! `UnitPtr`: the pointer to a unit, which is an aligned block of slots with a header.
//!
//! ```text
//!  base (aligned to `UnitSpec::unit`)
//!  | line 1: free list, until,  | line 2: slots, claim, | more   | slot | slot | never used
//!  |   cursor, links, owner      |   links, group of bits | groups |             ^cursor
//!    only the owner writes here    other threads write to the groups
//! ```
//!
//! A slot has no header. A linked free slot starts with the pointer to the next free slot.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use ephemera_prim::claim::ContentsClaim;
use ephemera_prim::poison::poison;
use ephemera_prim::raw;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::geometry::{UnitSpec, inverse_of};
use crate::local_frees::LocalFrees;
pub(crate) use crate::unit_header::Unit;
use crate::unit_header::{SlotGroup, UnitRemote};

/// The bit of a unit's owner word that marks an abandoned unit. Even the heap's owner then frees
/// the unit's slots through the foreign word, because a countdown counts only the frees through
/// that word.
const ABANDONED: usize = 1;
/// The bit of a unit's owner word that marks a unit of a counting scope. Every free of one of the
/// unit's slots takes the path of remote frees, which counts the free.
const COUNTED: usize = 2;

/// Returns the owner word for the units of a counting scope's heap.
pub(crate) fn counted(heap: *const ()) -> *const () {
    heap.map_addr(|addr| addr | COUNTED)
}

/// The number of low bits of the state word that hold the state. The bits above them hold the
/// birth.
const STATE_BITS: u32 = 8;

/// The role of a unit in its heap: the front, an item of one of the owner's lists, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitState {
    /// The unit is the front. The heap links the unit's free slots, unless the front is set aside.
    /// The owner also stores this state in any other unit before it uses the slots of that unit. A
    /// thread that then claims these slots reads this state and gives up
    /// (`UnitHeap::may_use_slots`).
    Front = 0,
    /// The unit is on the list of full units. It had no free slot when it stopped being the front,
    /// and too few of its slots have been freed since then to queue it.
    Full = 1,
    /// A scrape took the unit off the list of full units and found no free slot in it. The unit is
    /// on none of the owner's lists, and the next free of one of its slots queues it.
    ///
    /// A unit of an earlier scope, from which the heap must not allocate, also has this state. When
    /// the unit's last live slot is freed, the heap keeps the unit among the empties or frees it.
    Visited = 2,
    /// The unit is in the queue of the next fronts. If it is abandoned, some of its groups may
    /// count down.
    Partial = 3,
    /// None of the unit's slots is live. The unit is on the stack of empties, or is about to be
    /// kept, installed or freed.
    Empty = 4,
}

/// A pointer to a unit.
///
/// # Invariant
/// **U1** The pointer points to the header of a unit that is not freed while the pointer is used,
/// and may access the whole unit. The code that creates a `UnitPtr` ensures this, and all methods
/// rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitPtr(NonNull<Unit>);

impl UnitPtr {
    // The unit is not freed while the pointer is used (U1).
    words! {
        /// Returns the list of linked free slots. It is null while the unit is the front and not
        /// set aside, because the heap then has the list.
        pub(crate) fn free() -> &Cell<*mut u8> = local.free;
        /// Returns the cursor: the first slot that was never used. The cursor is not valid while
        /// the unit is the front and not set aside.
        pub(crate) fn cursor() -> &Cell<*mut u8> = cursor;
        /// Returns the number of frees after which the slow path looks at this unit. The number is
        /// not valid while the unit is the front.
        pub(crate) fn until() -> &OwnerUsize = local.until;
        /// Returns the words that a local free of a slot writes while the unit is not the front.
        pub(crate) fn local() -> &LocalFrees = local;
        /// Returns the number by which the live slots exceed `until`. The number is zero except in
        /// units that became full.
        pub(crate) fn further() -> &OwnerUsize = further;
        /// Returns the next unit on the owner's list that this unit is on: full units, queue, or
        /// empties.
        pub(crate) fn after() -> &Cell<*mut Unit> = after;
        /// Returns the unit before this one on the list of full units or in the queue.
        pub(crate) fn before() -> &Cell<*mut Unit> = before;
        pub(crate) fn owner_word() -> &OwnerPtr<()> = owner;
        /// Returns the word with which another thread claims the slots.
        pub(crate) fn claim() -> &ContentsClaim = remote.claim;
        fn state_word() -> &OwnerU64 = state;
    }

    /// Creates the pointer.
    ///
    /// # Safety
    /// U1 holds for `unit`.
    #[inline]
    pub(crate) unsafe fn new(unit: NonNull<Unit>) -> Self {
        Self(unit)
    }

    /// Creates the pointer, or returns `None` for a null pointer.
    ///
    /// # Safety
    /// U1 holds for `unit`, unless it is null.
    #[inline]
    pub(crate) unsafe fn from_raw(unit: *mut Unit) -> Option<Self> {
        NonNull::new(unit).map(Self)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Unit {
        self.0.as_ptr()
    }

    /// Creates an empty unit of `slots` slots in fresh memory, with this owner word and this birth.
    ///
    /// # Safety
    /// `memory` was acquired with the layout of `spec` for `slots` slots, and the caller has
    /// exclusive access to it.
    pub(crate) unsafe fn create(
        memory: NonNull<u8>,
        spec: UnitSpec,
        slots: usize,
        (owner, birth): (*const (), u64),
    ) -> Self {
        let unit = memory.cast::<Unit>();
        raw::expose(unit.as_ptr());
        let header = Unit {
            local: LocalFrees::new(),
            further: OwnerUsize::new(0),
            state: OwnerU64::new(birth << STATE_BITS | UnitState::Empty as u64),
            cursor: Cell::new(ptr::null_mut()),
            after: Cell::new(ptr::null_mut()),
            before: Cell::new(ptr::null_mut()),
            owner: OwnerPtr::new(owner.cast_mut()),
            remote: UnitRemote {
                next: OwnerPtr::null(),
                slots: slots as u32,
                claim: ContentsClaim::new(),
                prev: OwnerPtr::null(),
                first: spec.first(slots) as u32,
                groups: spec.groups(slots) as u32,
                stride: spec.stride as u32,
                inverse: inverse_of(spec.stride),
                group: SlotGroup::new(),
            },
        };
        // SAFETY: the caller has exclusive access to the memory, which is aligned to a unit and has
        // room for a header.
        unsafe { unit.write(header) };
        let this = Self(unit);
        // The header has the first group.
        for group in this.groups().skip(1) {
            // SAFETY: a unit has room for all groups before its first slot, and no other thread
            // knows this unit yet.
            unsafe { group.as_non_null().write(SlotGroup::new()) };
        }
        this.rewind(spec);
        this
    }

    /// Returns the pointer that [`UnitList`](ephemera_prim::unit_list::UnitList) takes.
    pub(crate) fn as_non_null(self) -> NonNull<Unit> {
        self.0
    }

    /// Returns whether the unit belongs to the heap at this address and is neither abandoned nor
    /// counted. Only then may a local free write the unit's words.
    #[inline]
    pub(crate) fn is_owned_by(self, heap: *const ()) -> bool {
        let ignored = if weakened!("abandoned_units_are_owned") { ABANDONED } else { 0 };
        self.owner_word().get().map_addr(|addr| addr & !ignored).cast_const() == heap
    }

    /// Returns the address of the unit's heap.
    #[inline]
    pub(crate) fn owner(self) -> *const () {
        self.owner_word().get().map_addr(|addr| addr & !(ABANDONED | COUNTED))
    }

    /// Returns whether the unit belongs to a counting scope.
    #[inline]
    pub(crate) fn is_counted(self) -> bool {
        self.owner_word().get().addr() & COUNTED != 0
    }

    /// Returns whether the unit is abandoned: its former owner has ended or has left its scope.
    #[inline]
    pub(crate) fn is_abandoned(self) -> bool {
        self.owner_word().get().addr() & ABANDONED != 0
    }

    pub(crate) fn set_abandoned(self, abandoned: bool) {
        let tag = if abandoned { ABANDONED } else { 0 };
        self.owner_word().set(self.owner_word().get().map_addr(|addr| addr & !ABANDONED | tag));
    }

    #[inline]
    pub(crate) fn slots(self) -> usize {
        // SAFETY: U1: the header is live, and `slots` never changes.
        unsafe { (*self.as_ptr()).remote.slots as usize }
    }

    pub(crate) fn state(self) -> UnitState {
        Self::state_of(self.state_word().get())
    }

    /// Returns the state, on a thread that is not the owner. That thread then sees everything that
    /// the owner wrote before it stored this state.
    pub(crate) fn observe_state(self) -> UnitState {
        Self::state_of(self.state_word().observe())
    }

    fn state_of(word: u64) -> UnitState {
        match word & ((1 << STATE_BITS) - 1) {
            0 => UnitState::Front,
            1 => UnitState::Full,
            2 => UnitState::Visited,
            3 => UnitState::Partial,
            _ => UnitState::Empty,
        }
    }

    pub(crate) fn set_state(self, state: UnitState) {
        self.state_word().publish(self.birth() << STATE_BITS | state as u64);
    }

    /// Returns the number of the scope that the unit counts for, or 0 if it counts for none. In a
    /// counting scope, this number changes only while no slot is live. A thread that frees a slot
    /// of such a unit therefore reads the number of the scope that allocated the slot.
    pub(crate) fn birth(self) -> u64 {
        self.state_word().get() >> STATE_BITS
    }

    /// Sets the number of the scope that the unit counts for.
    pub(crate) fn set_birth(self, birth: u64) {
        self.state_word().publish(birth << STATE_BITS | self.state() as u64);
    }

    /// Returns the number of live slots. Slots with an unbooked remote free count as live, and so
    /// does a guest. The number is not valid while the unit is the front.
    pub(crate) fn live(self) -> usize {
        self.until().get() + self.further().get()
    }

    /// Sets `until` and `further` of a unit with `live` live slots. The slow path looks at the unit
    /// after `until` frees. Unless the unit is a front, the caller must not lower `until` and raise
    /// `further`, because [`Self::observe_live`] could then see too small a sum.
    pub(crate) fn set_live(self, live: usize, until: usize) {
        // `observe_live` must not see a sum that is too small, so store `until`, the part that
        // grows, first.
        self.until().publish(until);
        self.further().publish(live - until);
    }

    /// Makes the slow path look at the unit after the next free of one of its `live` live slots.
    pub(crate) fn look_after_next_free(self, live: usize) {
        // Here `further` is the part that grows, so store it first (see `set_live`).
        self.further().publish(live - 1);
        self.until().publish(1);
    }

    /// Returns an upper bound on the number of live slots, or `None` if the owner changes `further`
    /// during the call. Threads other than the owner may call this method.
    pub(crate) fn observe_live(self) -> Option<usize> {
        let further = self.further().observe();
        let until = self.until().observe();
        // The owner stores the part that grows first. Until the unit is a front again, `further`
        // takes up to three values: first most of the slots, then all but one (`scrape`), then none
        // (`enqueue`). It therefore never returns to an earlier value.
        (self.further().get() == further).then_some(further + until)
    }

    /// Returns a pointer to the byte at `offset` in the unit. The pointer may access the whole
    /// unit.
    #[inline]
    pub(crate) fn at(self, offset: usize) -> *mut u8 {
        self.as_ptr().cast::<u8>().wrapping_add(offset)
    }

    /// Resets a unit without live slots: every slot counts as never used.
    pub(crate) fn rewind(self, spec: UnitSpec) {
        self.free().set(ptr::null_mut());
        self.forget_home();
        self.claim().renew();
        let (start, len) = self.slot_bytes(spec);
        self.cursor().set(start.as_ptr());
        self.set_live(0, 0);
        self.set_state(UnitState::Empty);
        // SAFETY: the slots follow the header, and none of them is live.
        unsafe { poison(start, len) };
    }

    /// Ends the unit and returns its memory, which the caller frees. Nothing may use the unit after
    /// this call.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        ephemera_prim::invariant!(self.state() == UnitState::Empty, "a unit with live slots is freed");
        self.end_groups();
        self.0.cast()
    }
}
