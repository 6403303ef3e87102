//! Connects `OneRingAlloc` to the threads of this process: the static registry of records, and
//! [`This`], the heap of the calling thread's record.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::{Limit, SharedAccount};
use ephemera_prim::local::{self, Held, Tenant};
use ephemera_prim::pages::Pages;
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::record::{Realm, RecordOwner, RingRecord, RingWorld, release};
use crate::chunk::front::FrontPtr;
use crate::chunk::{BumpCursor, ChunkPtr};
use crate::geometry::{ChunkClass, Standard};
use crate::heap::{self, ChunkHeap, Evictions, RingEnv};
use crate::live::LiveCount;

type Own = RingRecord<Standard>;

pub(super) static WORLD: RingWorld<Standard> =
    RingWorld::new(Registry::new([const { Record::new(Own::new()) }; FIRST], Own::new));

impl Tenant for Own {
    /// A copy of the front of small blocks (H7). The front of NOWHERE is the full chunk.
    type Near = *mut BumpCursor;

    fn near(record: &'static Record<Self>) -> *mut BumpCursor {
        owner(record).heap().front(ChunkClass::Small).as_ptr()
    }

    ephemera_prim::tenant_statics!(
        Own,
        registry: &WORLD.registry,
        nowhere: Own::nowhere(),
        near: heap::full_chunk(),
    );

    fn enter(&self) {
        Self::enter(self);
    }

    fn leave(record: &'static Record<Self>) {
        heap::trim(owner(record));
    }

    fn release(lease: Lease<'static, Self>) {
        release(ProcessRealm, lease);
    }
}

/// Gives access to [`WORLD`], the state that all threads of this process share.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessRealm;

impl Realm for ProcessRealm {
    type Geometry = Standard;

    #[inline]
    fn world(&self) -> &RingWorld<Standard> {
        &WORLD
    }

    fn front_changed() {
        local::renew::<Own>();
    }
}

/// The calling thread as the owner of its record's heap. Methods read the record at each call,
/// because the thread can become bound to a record in the middle of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct This;

impl This {
    #[inline]
    fn owner(self) -> RecordOwner<'static, ProcessRealm> {
        owner(local::current::<Own>())
    }
}

// SAFETY: the heap is that of this thread's record, or of NOWHERE or GONE (H6). `front` returns a
// copy of that heap's front (H7). `refill` uses the `RecordOwner` of a held record. `backing` and
// `account` are the same for all records, and the other methods forward to the `RecordOwner` of the
// thread's record.
unsafe impl RingEnv for This {
    type Geometry = Standard;
    type Backing = Pages;
    type Account = SharedAccount;
    const HANDS_OVER: bool = true;

    #[inline]
    fn heap(&self) -> &ChunkHeap {
        &self.owner().record.data().heap
    }

    #[inline]
    fn front(&self, class: ChunkClass) -> FrontPtr {
        if class != ChunkClass::Small {
            return self.heap().front(class);
        }
        let front = near();
        ephemera_prim::invariant!(
            front == self.heap().front(class),
            "H7: the thread-local names another front than the heap"
        );
        front
    }

    /// Allocates from the heap of this thread's record. The first call on a thread binds a record
    /// to the thread. After the exit guard has run, each call leases a record for the operation,
    /// allocates from that record and frees its empty chunks.
    #[cold]
    #[inline(never)]
    fn refill(self, layout: Layout, class: ChunkClass, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        let held = local::hold::<Own>().ok_or(AllocError)?;
        refill_held(held, layout, class, limit)
    }

    fn front_changed(&self) {
        self.owner().front_changed();
    }

    fn backing(&self) -> &Pages {
        &Pages
    }

    fn account(&self) -> &SharedAccount {
        &WORLD.account
    }

    #[inline]
    fn identity(&self) -> *const () {
        self.owner().identity()
    }

    #[inline]
    fn evictions(&self) -> Option<&Evictions> {
        Some(&self.owner().record.data().evictions)
    }

    fn may_rest(&self) -> bool {
        self.owner().may_rest()
    }

    fn book_mail(&self) {
        self.owner().book_mail();
    }

    fn last_resort(&self) {
        self.owner().last_resort();
    }

    #[inline]
    unsafe fn free_remotely(self, chunk: ChunkPtr, given: LiveCount) {
        // SAFETY: the caller frees the block or bytes that `given` counts. `owns` returned `false`,
        // so the chunk does not belong to this record.
        unsafe { self.owner().free_remotely(chunk, given) };
    }
}

/// Returns the front of small blocks of this thread's record.
#[inline]
fn near() -> FrontPtr {
    // SAFETY: the copy is a front (H7), so it is not null (H2).
    let front = unsafe { NonNull::new_unchecked(local::near::<Own>()) };
    // SAFETY: the copy is the front (H7). A chunk is not freed while it is the front, only this
    // thread changes its front, and the full chunk is a static (C1).
    unsafe { FrontPtr::new(front) }
}

#[inline]
fn owner(record: &'static Record<Own>) -> RecordOwner<'static, ProcessRealm> {
    RecordOwner { record, realm: ProcessRealm }
}

/// Allocates from the heap of a held record. If this thread leased the record for this operation,
/// also frees the record's empty chunks and releases the record.
fn refill_held(
    held: Held<Own>,
    layout: Layout,
    class: ChunkClass,
    limit: Limit,
) -> Result<NonNull<u8>, AllocError> {
    let owner = owner(held.record());
    let block = owner.refill(layout, class, limit);
    // Booking may have emptied chunks of an exited thread, which `refill` keeps for a later
    // allocation. After the release, the record may have no holder, so these chunks could stay.
    if matches!(held, Held::Leased(_)) && !weakened!("lease_keeps_empty_chunks") {
        heap::slow::free_empties(owner);
    }
    held.release();
    block
}

/// Returns the owner of the record that this thread is bound to, or `None` if there is none.
pub(super) fn bound() -> Option<RecordOwner<'static, ProcessRealm>> {
    local::bound::<Own>().map(owner)
}

#[cfg(test)]
mod tests {
    use core::alloc::Layout;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use allocator_api2::boxed::Box;
    use ephemera_prim::account::Account;
    // This function serialises the tests, because each of them assumes that threads of other tests
    // do not hold records.
    use ephemera_testkit::suite::take_turn;

    use super::{
        ChunkClass, Held, Limit, ProcessRealm, Record, RingEnv, Standard, This, WORLD, bound, heap, near,
        refill_held, release,
    };
    use crate::OneRingAlloc;
    use crate::one::record::DRAINS;

    /// Returns whether the copy of the front is right (H7), and whether a thread without a record
    /// has the full chunk as its front. No code of this crate may be running.
    fn front_follows() -> bool {
        let front = This.heap().front(ChunkClass::Small);
        near() == front && (bound().is_some() || front.as_ptr() == heap::full_chunk())
    }

    #[test]
    fn conc_free_during_a_momentary_lease_frees_the_chunk() {
        take_turn();
        let chunks = || OneRingAlloc.stats().chunks();
        let value = std::thread::spawn(|| Box::new_in(7, OneRingAlloc)).join().expect("no panic");
        // No other thread in this process has a record, so the first record belonged to the exited
        // thread.
        let lease = WORLD.registry.records().next().and_then(Record::try_lease).expect("its thread ended");
        assert_eq!((*value, chunks()), (7, 1));
        drop(value);
        assert_eq!(chunks(), 1, "the holder has not looked at the inbox yet");
        release(ProcessRealm, lease);
        assert_eq!(chunks(), 0);
    }

    #[test]
    fn conc_allocation_by_a_momentary_lease_frees_the_chunks_that_it_finds_empty() {
        take_turn();
        let held = || WORLD.account.now().held;
        let value = std::thread::spawn(|| Box::new_in(7, OneRingAlloc)).join().expect("no panic");
        // No other thread in this process has a record, so the first record belonged to the exited
        // thread.
        let lease = WORLD.registry.records().next().and_then(Record::try_lease).expect("its thread ended");
        drop(value);
        assert_ne!(held(), 0, "the record is held, so the free leaves the chunk to the holder");
        let (layout, class) = (Layout::new::<[u8; 4_000]>(), ChunkClass::Medium);
        let block = refill_held(Held::Leased(lease), layout, class, Limit::Applies).expect("no limit");
        // Read the account, because a call to `stats` would trim the record.
        assert_eq!(held(), class.chunk_layout::<Standard>().size(), "the empty small chunk was freed");
        // SAFETY: the block was allocated above with this layout.
        unsafe { OneRingAlloc.deallocate(block, layout) };
        assert_eq!(held(), 0);
    }

    #[test]
    fn frees_after_thread_exit_drain_the_record_twice_per_chunk() {
        const BLOCKS: usize = if cfg!(miri) { 60 } else { 10_000 };
        take_turn();
        let all = || {
            (0..BLOCKS)
                .map(|_| Box::new_in([7_u8; 400], OneRingAlloc))
                .collect::<allocator_api2::vec::Vec<_>>()
        };
        let blocks = std::thread::spawn(all).join().expect("no panic");
        let (chunks, before) = (OneRingAlloc.stats().chunks(), DRAINS.load(Ordering::Relaxed));
        drop(blocks);
        let drains = DRAINS.load(Ordering::Relaxed) - before;
        assert!(drains <= 2 * chunks, "{drains} drains for {BLOCKS} blocks in {chunks} chunks");
        assert_eq!(OneRingAlloc.stats().bytes_held, 0);
    }

    #[test]
    fn conc_front_copy_follows_the_record() {
        take_turn();
        static UNBOUND: AtomicUsize = AtomicUsize::new(0);
        static WRONG: AtomicUsize = AtomicUsize::new(0);
        struct LateDrop;
        impl Drop for LateDrop {
            fn drop(&mut self) {
                UNBOUND.fetch_add(usize::from(bound().is_none()), Ordering::Relaxed);
                WRONG.fetch_add(usize::from(!front_follows()), Ordering::Relaxed);
                // If the exit guard has run, this allocation leases a record for a moment. The
                // thread's `near` must not follow the front of that record.
                drop(Box::new_in(7, OneRingAlloc));
                WRONG.fetch_add(usize::from(!front_follows()), Ordering::Relaxed);
            }
        }
        std::thread_local! {
            static FIRST: LateDrop = const { LateDrop };
            static LAST: LateDrop = const { LateDrop };
        }
        let life = || {
            FIRST.with(|_| ());
            assert!(front_follows(), "without a record");
            let value = Box::new_in(7, OneRingAlloc);
            assert!(front_follows(), "bound");
            LAST.with(|_| ());
            drop(Box::new_in([0_u8; 2000], OneRingAlloc));
            let many: [_; 40] = core::array::from_fn(|_| Box::new_in([0_u8; 2000], OneRingAlloc));
            assert!(front_follows(), "after three chunks");
            drop(many);
            OneRingAlloc.clean_local();
            assert!(front_follows(), "after a trim");
            (value, Box::new_in([0_u8; 2000], OneRingAlloc))
        };
        // The second thread continues with the front that the first thread left.
        let left = [(); 2].map(|()| std::thread::spawn(life).join().expect("no panic"));
        assert_ne!(UNBOUND.load(Ordering::Relaxed), 0, "no destructor ran after the exit guard");
        assert_eq!(WRONG.load(Ordering::Relaxed), 0);
        drop(left);
        assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
    }
}
