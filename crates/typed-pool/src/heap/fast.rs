//! The fast paths of allocations and frees. They are inlined into the program. `cargo xtask bench
//! --icount` counts their instructions.

use core::ptr::{self, NonNull};

use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::prefetch;
use ephemera_prim::raw::{base_addr, header_of};
use ephemera_prim::select::select;

use super::inspect::reclassify;
use super::shown_front::{HOSTING, is_hidden};
use super::{AllocEnv, UnitHeap};
use crate::local_frees::{Freed, LINK, LocalFrees, NEVER, Reach, link_of};
use crate::unit::{Unit, UnitPtr};

impl UnitHeap {
    /// Takes a free slot for a value of `size` bytes: the guest, or the slot of the front that was
    /// freed last. If neither exists, takes a slot of the front that was never used. Returns `None`
    /// if there is no such slot either. This function does not consider slots that the heap
    /// withholds or slots that were set aside.
    #[inline]
    pub(crate) fn take(&self, size: usize) -> Option<NonNull<u8>> {
        let slot = self.local.free.get();
        if !slot.is_null() {
            // SAFETY: H1: this thread owns the heap. H3: the slots that the heap links are free.
            self.local.free.set(unsafe { link_of(slot) });
            // SAFETY: `slot` is not null, by the check above.
            return Some(hand_out(unsafe { NonNull::new_unchecked(slot) }, size));
        }
        let fresh = self.cursor.get();
        if fresh != self.end.get() {
            let next = fresh.wrapping_add(self.spec.stride);
            self.cursor.set(next);
            prefetch::for_write(next);
            // SAFETY: the cursor differs from `end`, so it points at a slot and is not null.
            return Some(hand_out(unsafe { NonNull::new_unchecked(fresh) }, size));
        }
        None
    }
}

#[inline]
fn hand_out(slot: NonNull<u8>, size: usize) -> NonNull<u8> {
    // SAFETY: the slot has room for the value and for a link. It is on no list, and nothing else
    // uses it.
    unsafe { unpoison(slot, if size < LINK { LINK } else { size }) };
    slot
}

/// Frees a slot. `unit_size` is the alignment of the slot's unit, and `size` is the size of the
/// value.
///
/// # Safety
/// `block` is a live slot for a value of `size` bytes, in a unit of `env`'s pool or family that is
/// aligned to `unit_size`. `reach` describes the pointer `block`. Nothing uses the slot after this
/// call.
#[inline]
pub(crate) unsafe fn give<E: AllocEnv>(
    env: E,
    block: NonNull<u8>,
    unit_size: usize,
    size: usize,
    reach: Reach,
) {
    let heap = env.heap();
    // SAFETY: the caller frees the slot, which is on no list yet, so nothing else uses it.
    unsafe { mark_free(block, size) };
    let freed = Freed { block, size, reach };
    let shown = heap.shown.get();
    if base_addr(block, unit_size) == shown.addr() {
        check(heap, heap.front(), block);
        // SAFETY: H1: this thread owns the front. H3: the block is one of its slots and on no list.
        unsafe { heap.local.push(freed) };
        return;
    }
    // SAFETY: units are aligned to `unit_size`, start with a `Unit`, and were exposed when they
    // were created. A unit with a live slot is not freed (H4).
    let header = unsafe { header_of::<Unit>(block, unit_size) };
    // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
    let unit = unsafe { UnitPtr::new(header) };
    if !env.frees_to(unit) {
        // SAFETY: the unit counts the block as live, or is the front, so it is not freed (H2, H4).
        // `mark_free` has poisoned the block, which is on no list (H3).
        unsafe { env.give_back(unit, block, (size, reach)) };
        return;
    }
    let mut local = unit.local();
    if E::MAY_SELECT && is_hidden(shown) && !weakened!("selecting_frees_ignore_the_front") {
        local = select(heap.is_front(unit), &heap.local, local);
        // This is a branch, because whether there is room depends on the link that the last
        // allocation read. In a heap that does not host, the free must not wait for that link.
        if shown == HOSTING {
            local = select(heap.has_room(), &heap.local, local);
        }
    }
    // SAFETY: H1: this thread owns the unit, because `frees_to` is true. H3: the block is on no
    // list. H10: a free to a shown front has returned above. So if the unit is the front, the front
    // is hidden, and `local` is the list of the heap. For any other unit, `local` is the list of
    // the unit, or the list of the heap if the heap has room for a guest.
    unsafe { push_and_count(env, unit, local, freed) };
}

/// Pushes a freed slot of `unit` to `local`, and counts the free. Calls [`reclassify`] if this
/// lowers the `until` of `local` to zero.
///
/// # Safety
/// The calling thread owns the heap of `env`, and `unit` is a unit of that heap. `local` is the
/// list of the heap if the unit is the front. Otherwise, it is the list of the unit, or the list of
/// the heap if the heap has room for a guest. The contract of [`LocalFrees::push`] holds for
/// `freed`.
#[inline]
pub(super) unsafe fn push_and_count<E: AllocEnv>(env: E, unit: UnitPtr, local: &LocalFrees, freed: Freed) {
    check(env.heap(), Some(unit), freed.block);
    // SAFETY: this function has the same contract.
    unsafe { local.push(freed) };
    unit.claim().touch();
    let until = local.count();
    // Only a `TypedPool` counts live slots. Its front is never hidden, so `local` is the list of
    // `unit` here, and the slot was live outside the front.
    env.sub_live(1);
    if until == 0 {
        reclassify(env, unit);
    }
}

/// Frees a slot on its owner's thread without the size of the block. The caller found the unit in
/// the map of pages. Returns `false` without freeing the slot if this free would lower the `until`
/// of its list to zero. The caller must then free the slot by the ordinary path, which may look at
/// the unit. This function does not call `sub_live`, because families do not count live slots.
///
/// Here, the address of the unit comes from several loads, so a mispredicted branch would cost at
/// least the latency of these loads. This function therefore always selects between the words of
/// the heap and the words of the unit. In [`give`], the address comes from a mask, so a branch that
/// the processor predicts correctly is faster (`shown_front`).
///
/// # Safety
/// The calling thread owns `heap`, and `unit` belongs to `heap`. `block` is a live slot of `unit`
/// with room for a link, and nothing uses it after a call that returns `true`.
#[inline]
pub(crate) unsafe fn give_known(heap: &UnitHeap, unit: UnitPtr, block: NonNull<u8>) -> bool {
    let hosts = heap.shown.get() == HOSTING && !weakened!("known_slots_are_no_guests");
    let local = select(heap.is_front(unit) | (hosts & heap.has_room()), &heap.local, unit.local());
    if local.until.get() == 1 && !weakened!("known_units_are_never_looked_at") {
        // While the heap branches, only this function decrements the heap's `until`, because the
        // ordinary path does not count frees to a shown front. So this function also resets it.
        if heap.local.until.get() == 1 && !heap.hides_front() {
            heap.local.until.set(NEVER);
        }
        return false;
    }
    check(heap, Some(unit), block);
    // SAFETY: the caller frees the slot, which is on no list yet, so nothing else uses it.
    unsafe { mark_free(block, heap.spec.stride) };
    // SAFETY: H1: this thread owns the unit. H3: the block is one of its slots and on no list. If
    // `local` is the list of the heap, the unit is the front or the list has room for a guest.
    unsafe { local.push(Freed { block, size: LINK, reach: Reach::Block }) };
    unit.claim().touch();
    local.count();
    true
}

/// Poisons a freed slot, except for the bytes of its link.
///
/// # Safety
/// `block` is a slot for a value of `size` bytes, and nothing uses the value any more.
#[inline]
pub(crate) unsafe fn mark_free(block: NonNull<u8>, size: usize) {
    if size > LINK {
        // SAFETY: the slot has more bytes than a link.
        let rest = unsafe { block.add(LINK) };
        // SAFETY: these bytes of the value follow the link, and nothing uses them.
        unsafe { poison(rest, size - LINK) };
    }
}

/// Aborts if `block` is not a slot of `unit`, or if it is the slot of the unit or of the heap that
/// was freed last. Does nothing in release builds.
#[inline]
pub(super) fn check(heap: &UnitHeap, unit: Option<UnitPtr>, block: NonNull<u8>) {
    if !cfg!(debug_assertions) {
        return;
    }
    let freed = [heap.local.free.get(), unit.map_or(ptr::null_mut(), |unit| unit.free().get())];
    let (spec, slots) = (heap.spec, unit.map_or(0, UnitPtr::slots));
    let (offset, first) = (block.addr().get() % spec.unit, spec.first(slots));
    ephemera_prim::invariant!(
        (first..spec.end(slots)).contains(&offset) && (offset - first) % spec.stride == 0,
        "the freed pointer is not a slot of this pool"
    );
    ephemera_prim::invariant!(!freed.contains(&block.as_ptr()), "a slot is freed twice");
}
