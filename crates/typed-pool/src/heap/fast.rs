//! What every allocation and every free goes through.

use core::ptr::NonNull;

#[cfg(debug_assertions)]
use ephemera_prim::align::offset_in;
use ephemera_prim::header::{base_addr, header_of};
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::prefetch;

use super::{Env, Heap, slow};
use crate::geometry::LINK;
use crate::unit::{Reach, Unit, UnitPtr, link, link_of};

#[inline]
pub(super) fn take(heap: &Heap, size: usize) -> Option<NonNull<u8>> {
    let slot = heap.free.get();
    if !slot.is_null() {
        // SAFETY: H3: what the heap links is free.
        heap.free.set(unsafe { link_of(slot) });
        // SAFETY: not null, as was just seen.
        return Some(hand_out(unsafe { NonNull::new_unchecked(slot) }, size));
    }
    let fresh = heap.cursor.get();
    if fresh != heap.end.get() {
        let next = fresh.wrapping_add(heap.spec.stride);
        heap.cursor.set(next);
        prefetch::for_write(next);
        // SAFETY: a slot of a unit: the cursor is null only where it is the end too.
        return Some(hand_out(unsafe { NonNull::new_unchecked(fresh) }, size));
    }
    None
}

#[inline]
fn hand_out(slot: NonNull<u8>, size: usize) -> NonNull<u8> {
    // SAFETY: the slot is on no list any more and nobody has it.
    unsafe { unpoison(slot, if size < LINK { LINK } else { size }) };
    slot
}

/// Gives back a slot. `unit_size` is that of its unit and `size` that of the value it was for.
///
/// # Safety
/// `block` is a live slot of a heap of the same kind as `env`'s: of this unit size, for a value of this size; `reach` is true of it.
#[inline]
pub(crate) unsafe fn give<E: Env>(env: E, block: NonNull<u8>, unit_size: usize, size: usize, reach: Reach) {
    let heap = env.heap();
    let front = heap.front.get();
    // SAFETY: the slot is the caller's to give up; it is on no list yet, so nobody gets it before that.
    unsafe { mark_free(block, size) };
    if base_addr(block, unit_size) == front.addr() {
        #[cfg(debug_assertions)]
        check(heap, heap.front(), block, heap.free.get());
        // SAFETY: a slot of the front.
        heap.free.set(unsafe { link(block, size, reach, heap.free.get()) });
        return;
    }
    // SAFETY: units are aligned to their mask, start with a `Unit` and were exposed when they were made; that of a live slot is not
    // freed (H4).
    let header = unsafe { header_of::<Unit>(block, unit_size) };
    // SAFETY: U1, as above; the exposed pointer was that to the whole unit.
    let unit = unsafe { UnitPtr::new(header) };
    if !env.owns(unit) {
        // SAFETY: the slot was the caller's, in a unit of another owner.
        unsafe { env.give_back(unit, block) };
        return;
    }
    #[cfg(debug_assertions)]
    check(heap, Some(unit), block, unit.free().get());
    // SAFETY: a slot of that unit.
    unit.free().set(unsafe { link(block, size, reach, unit.free().get()) });
    if unit.until().sub(1) == 0 {
        slow::looked_at(env, unit);
    }
}

/// Marks a slot as not to be touched, but for its link.
///
/// # Safety
/// `block` is a slot for a value of `size` bytes, which the caller has and gives up.
#[inline]
pub(crate) unsafe fn mark_free(block: NonNull<u8>, size: usize) {
    if size > LINK {
        // SAFETY: inside the slot.
        let rest = unsafe { block.add(LINK) };
        // SAFETY: the caller's to give up, and what is needed of it, the link, is left out.
        unsafe { poison(rest, size - LINK) };
    }
}

/// A pointer that is no slot, or the one that was given back last (`freed`), is a mistake worth an end.
#[cfg(debug_assertions)]
fn check(heap: &Heap, unit: Option<UnitPtr>, block: NonNull<u8>, freed: *mut u8) {
    let (spec, slots) = (heap.spec, unit.map_or(0, UnitPtr::slots));
    let (offset, first) = (offset_in(block.addr().get(), spec.unit), spec.first(slots));
    ephemera_prim::invariant!(
        (first..spec.end(slots)).contains(&offset) && (offset - first) % spec.stride == 0,
        "what is given back is no slot of this kind"
    );
    ephemera_prim::invariant!(freed != block.as_ptr(), "a slot is given back twice");
}
