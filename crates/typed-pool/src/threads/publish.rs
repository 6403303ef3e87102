//! Publishes remote frees, from a bundle or one by one, to the owner of their unit.

#[cfg(not(ephemera_loom))]
use core::ptr;
use core::ptr::NonNull;

#[cfg(not(ephemera_loom))]
use ephemera_prim::local::{self, Tenant};
#[cfg(not(ephemera_loom))]
use ephemera_prim::record::{Lease, Record};

use super::bundle::{self, Bundle};
#[cfg(not(ephemera_loom))]
use super::idle_queue;
use super::lease_end;
use super::state::ThreadHeap;
use crate::unit_header::SlotGroup;

/// Publishes the frees of these slots to the heap of their group.
///
/// # Safety
/// `bits` are one or more slots of `group`, a group of this heap. The program freed each of them
/// once, and no foreign word and no bundle has them, so they still pin their unit (F3).
pub(super) unsafe fn publish_bits(heap: &ThreadHeap, group: NonNull<SlotGroup>, bits: u64) {
    // SAFETY: `bits` are slots of a group of this heap, so bit 63 is not set. The slots pin their
    // unit until they are booked (F3), and no other free sets their bits.
    let pushed = unsafe { heap.mail.inbox.give_back_bits(group, bits) };
    if pushed {
        lease_end::drain_free_record(heap);
        #[cfg(not(ephemera_loom))]
        idle_queue::note_push(heap);
    }
}

/// Publishes the slots of a bundle, which must be that of the calling thread.
#[inline]
pub(super) fn publish_bundle(bundle: &Bundle) {
    if let Some((heap, group, bits)) = bundle.take() {
        // SAFETY: `open` stored a slot. The program freed all of these slots of the group, and no
        // foreign word has them (B1). The bundle is closed, so no other call publishes them.
        unsafe { publish_bits_cold(heap, group, bits) };
    }
}

/// Calls [`publish_bits`] out of line.
///
/// # Safety
/// The contract of [`publish_bits`] holds.
#[cold]
#[inline(never)]
unsafe fn publish_bits_cold(heap: &ThreadHeap, group: NonNull<SlotGroup>, bits: u64) {
    // SAFETY: this function has the same contract.
    unsafe { publish_bits(heap, group, bits) };
}

/// Publishes the remote frees that wait in this thread's bundle.
#[inline]
pub(super) fn publish_own() {
    if let Some(bundle) = bundle::current().filter(|_| !weakened!("slow_path_publishes_nothing")) {
        publish_bundle(bundle);
    }
}

/// Returns the bundle of this thread, and makes one if the thread has none. Returns `None` if the
/// thread's exit guard has run or refuses the hook, or if there is no memory.
pub(super) fn find_or_make_bundle() -> Option<&'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return local::bound::<Bundle>().or_else(make_bundle).map(Record::data);
    #[cfg(ephemera_loom)]
    bundle::current()
}

#[cfg(not(ephemera_loom))]
#[cold]
#[inline(never)]
fn make_bundle() -> Option<&'static Record<Bundle>> {
    if !ptr::eq(local::current::<Bundle>(), Bundle::statics().gone) {
        local::hold::<Bundle>()?.release();
    }
    local::bound()
}

#[cfg(not(ephemera_loom))]
impl Tenant for Bundle {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    ephemera_prim::tenant_statics!(Bundle, registry: &bundle::REGISTRY, nowhere: Bundle::new(), near: ());

    fn enter(&self) {}

    fn leave(record: &'static Record<Self>) {
        if !weakened!("ended_thread_keeps_its_bundle") {
            publish_bundle(record.data());
        }
    }

    /// Drops the lease and does nothing else, because a bundle has no inbox to drain.
    fn release(lease: Lease<'static, Self>) {
        drop(lease);
    }
}
