//! Purges the units of an idle owner that have no live slot after remote frees.
//!
//! Groups with remotely freed slots wait in the heap's inbox. `ephemera_prim::idle` decides which
//! thread *looks* at them, and when. The looking thread borrows the groups from the inbox, purges
//! the slots of units without a live slot, and puts the groups back.
//!
//! To the owner, a purged unit looks like a unit with unbooked remote frees. The header of the unit
//! is not purged, so the OS page with the header stays resident. `ephemera_prim::claim` has the
//! protocol between the purging thread and an owner that wakes up.

use ephemera_prim::barrier;
use ephemera_prim::idle::{IdleBy, Purged};
use ephemera_prim::pages;

use super::lease_end;
use super::state::ThreadHeap;
use crate::slot_group::SlotGroupPtr;

/// The maximum number of groups that one call to [`purge_units`] looks at. In tests, the number is
/// smaller, so that one call does not see all groups.
const GROUPS: usize = if cfg!(miri) {
    2
} else if cfg!(test) {
    16
} else {
    512
};
/// The maximum number of units that one call to [`purge_units`] claims.
const UNITS: usize = if cfg!(any(miri, ephemera_loom)) { 2 } else { 32 };

/// Purges units of this heap that have no live slot but have unbooked remote frees: at most
/// [`UNITS`] of them. Returns the number of purged units, whether the next call probably finds
/// more, and whether this call looked at all groups. Only one thread at a time may call this for a
/// heap.
pub(super) fn purge_units(heap: &ThreadHeap, by: IdleBy) -> Purged {
    let mut lent = heap.mail.lend();
    if by == IdleBy::Bytes {
        lent.put_newest_back();
    }
    let mut claimed = [const { None }; UNITS];
    let (mut units, mut groups) = (0, 0);
    while units < UNITS && groups < GROUPS {
        let Some(group) = lent.look() else { break };
        groups += 1;
        // SAFETY: U1: the group is lent, so its unit is not freed. The inbox holds only groups of
        // this heap, by pointers from `as_non_null`.
        let unit = unsafe { SlotGroupPtr::new(group, heap.heap.spec().unit) }.unit();
        // This look at the bits is only a hint. Builds that weaken the look after the claim skip
        // this one, which would hide the weakening.
        let seems_free = || weakened!("bits_before_live" | "observe_word_relaxed") || unit.all_free();
        if unit.claim().is_kept() && seems_free() && unit.claim().claim() {
            claimed[units] = Some(unit);
            units += 1;
        }
    }
    // The owner may need the groups that this thread did not look at, so they go back now. At least
    // one group of each claimed unit stays lent, so the unit is not freed.
    lent.put_rest_back();
    // C3: the fence comes after the claims and before the checks that decide.
    let fenced = units != 0 && barrier::heavy();
    let mut purged = 0;
    for unit in claimed.into_iter().flatten() {
        let purges = fenced && unit.all_free();
        if purges {
            // The unit counts as purged even if the system refuses, because the system may have
            // taken some of the pages.
            unit.note_purge();
            let (start, len) = unit.slot_bytes(heap.heap.spec());
            // SAFETY: this thread has claimed the unit, which has no live slot and is not the
            // front. After its fence, this thread did not see the owner use the slots (C3), so the
            // owner sees the claim before it uses them (C2). The slots are the last part of a live
            // block of `Pages`.
            unsafe { pages::purge_tail(start, len) };
            purged += 1;
        }
        unit.claim().end(purges);
    }
    lent.put_back();
    lease_end::drain_free_record(heap);
    let ended = units < UNITS && groups < GROUPS;
    Purged { units: purged, more: purged != 0 && !ended, ended }
}
