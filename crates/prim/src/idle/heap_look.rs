//! Looks at one heap whose owner is idle by bytes.
//!
//! Only one thread at a time looks at a heap. A thread that finds the heap's gate shut counts a
//! *missed look*, and the thread inside the gate does the work of that look.

use super::{IdleBy, IdleHeaps, IdleQueue, Mail, Purged};
use crate::barrier;
use crate::foreign::ForeignHeader;
use crate::gate::Pass;
use crate::pages;
use crate::sync::{Ordering, fence};

/// After this number of looks by bytes at a heap, the next one first puts the seen units back into
/// the inbox. A look is *by bytes* if the looking thread found the owner idle by bytes. Missed
/// looks count too, unless the seen units are already due to be put back. Looks that did not
/// examine the whole inbox do not count.
const SEEN_EVERY: usize = if cfg!(miri) { 2 } else { 16 };

/// The largest number of further rounds in which a look at a heap does the work of missed looks.
/// Each round leaves the gate and enters it again.
const CATCH_UP: usize = if cfg!(ephemera_loom) { 1 } else { 64 };

impl<H> IdleQueue<H> {
    /// Adds `bytes`, which threads pushed to a heap, to the count of the heap's owner, if there is
    /// one. Looks at the heap if the owner is idle by bytes and no other thread looks at the heap.
    /// Returns whether this call looked at the heap.
    #[cold]
    pub(super) fn note_bytes<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H, bytes: usize) -> bool {
        heaps.mail(heap).bytes.store(0, Ordering::Relaxed);
        let never = weakened!("idle_by_time_alone" | "idle_owners_keep_pages");
        if never || !heaps.is_held(heap) {
            return false;
        }
        let (pushed, visits, now) = (heaps.pushed(heap), heaps.visits(heap), pages::now_ms());
        if !pushed.add(bytes, visits, now) {
            return false;
        }
        barrier::prepare();
        let Some(purged) = self.look_at(heaps, heap) else { return false };
        pushed.note_purge(purged.units, visits, now);
        true
    }

    /// Purges units of a heap whose owner is idle by bytes. Returns `None`, without a look at the
    /// heap, if another thread looks at it. That thread then does the work of this look, or leaves
    /// it to the next look at the heap.
    pub(crate) fn look_at<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H) -> Option<Purged> {
        let mail = heaps.mail(heap);
        let pass = mail.gate.try_enter().or_else(|| {
            mail.missed.fetch_add(1, Ordering::Relaxed);
            if weakened!("missed_look_tries_once") {
                return None;
            }
            // ORDERING: SeqCst fence. Pairs with the one in `IdleQueue::enter_again`: either this
            // thread finds the gate open now, or the thread inside sees the count afterwards.
            fence(Ordering::SeqCst);
            mail.gate.try_enter()
        })?;
        Some(self.look_inside(heaps, heap, pass))
    }

    /// Purges units of a heap whose owner is idle by bytes, and does the work of missed looks. The
    /// threads that missed them may never free or look again. After [`CATCH_UP`] further rounds,
    /// the rest of that work is left to the next look at the heap. `pass` is the pass of the heap's
    /// gate.
    pub(super) fn look_inside<'h, E>(&self, heaps: &E, heap: &'h H, mut pass: Pass<'h>) -> Purged
    where
        E: IdleHeaps<Heap = H>,
    {
        let mail = heaps.mail(heap);
        let (mut purged, mut looks) = (Purged::default(), 1);
        for further in (0..=CATCH_UP).rev() {
            let missed = mail.missed.swap(0, Ordering::Relaxed);
            if mail.looks.get() < SEEN_EVERY {
                looks += if weakened!("missed_looks_do_not_count") { 0 } else { missed };
            } else {
                // Other threads may still have been freeing the blocks of a unit when a look
                // examined it. `put_seen_back` follows the links of all units in the inbox.
                mail.looks.set(0);
                if !weakened!("seen_units_wait_for_a_pause") {
                    mail.put_seen_back();
                }
            }
            let round = heaps.purge_units(heap, IdleBy::Bytes);
            purged = Purged { units: purged.units + round.units, ..round };
            if round.ended {
                mail.looks.set(mail.looks.get() + looks);
                looks = 0;
            }
            let is_due = mail.looks.get() >= SEEN_EVERY;
            let is_behind = (missed != 0 || mail.is_behind.get() != 0) && (round.more || is_due);
            mail.is_behind.set(usize::from(is_behind));
            // While the units are lent, the heap seems to have no mail. A thread that pushed to the
            // heap or looked at the queue during that time may therefore have left the heap out of
            // the queue. ORDERING: after the SeqCst fence of `LentUnits::put_back`. Pairs with the
            // fence in `IdleQueue::put_back`: either this thread sees that the heap is not in the
            // queue, or the thread that removes it sees the units.
            let is_lost = !mail.queued.load(Ordering::Relaxed) && mail.is_some();
            if is_lost && !weakened!("lent_heap_is_not_queued") {
                self.add(heaps, heap, true);
            }
            drop(pass);
            if further == 0 {
                break;
            }
            let Some(again) = Self::enter_again(mail, is_behind) else { break };
            pass = again;
        }
        purged
    }

    /// Enters again the gate of a heap that this thread has just opened, if `is_behind` is true or
    /// if looks were missed since the start of this thread's last round. If another thread is
    /// inside, leaves the work to that thread.
    pub(super) fn enter_again<U: ForeignHeader>(mail: &Mail<U, H>, is_behind: bool) -> Option<Pass<'_>> {
        if !weakened!("missed_look_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the one in `IdleQueue::look_at`: either this
            // thread sees the count, or the other thread finds the gate open at its second try.
            fence(Ordering::SeqCst);
        }
        if is_behind || mail.missed.load(Ordering::Relaxed) != 0 { mail.gate.try_enter() } else { None }
    }
}
