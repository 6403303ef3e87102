//! The one world of the process, and which record this thread stands for in it.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::{AllocError, Global};
use ephemera_prim::local::{self, Here, Tenant};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::shard::{Owner, Realm, Shard, World, release};
use crate::account::{Limit, SharedAccount};
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::{Class, Standard};
use crate::heap::{self, Env, Heap};
use crate::live::Live;

type Own = Shard<Standard>;

pub(super) static WORLD: World<Standard> =
    World::new(Registry::new([const { Record::new(Own::new()) }; FIRST], Own::new));

/// Threads that did not allocate yet.
static NOWHERE: Record<Own> = Record::new(Own::nowhere());
/// Threads whose exit guard is gone.
static GONE: Record<Own> = Record::new(Own::nowhere());

std::thread_local! {
    static HERE: Here<Own> = const {
        // SAFETY: a static. The full chunk is the front of its heap (H7).
        unsafe { Here::new(&raw const NOWHERE, heap::full_chunk()) }
    };
}

impl Tenant for Own {
    /// The front of small blocks (H7).
    type Near = *mut Chunk;

    fn near(record: &'static Record<Self>) -> *mut Chunk {
        owner(record).heap().front(Class::Small).as_ptr()
    }

    fn registry() -> &'static Registry<Self> {
        &WORLD.registry
    }

    #[inline]
    fn here() -> &'static LocalKey<Here<Self>> {
        &HERE
    }

    #[inline]
    fn nowhere() -> &'static Record<Self> {
        &NOWHERE
    }

    #[inline]
    fn gone() -> &'static Record<Self> {
        &GONE
    }

    fn enter(&self) {
        Self::enter(self);
    }

    fn leave(record: &'static Record<Self>) {
        heap::trim(owner(record));
    }

    fn release(lease: Lease<'static, Self>) {
        release(Process, lease);
    }
}

/// The world of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process;

impl Realm for Process {
    type Geometry = Standard;

    #[inline]
    fn world(&self) -> &World<Standard> {
        &WORLD
    }

    fn front_changed() {
        local::renew::<Own>();
    }
}

/// The calling thread, as the owner of the heap on its record: whichever that is, each time it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct This;

impl This {
    #[inline]
    fn owner(self) -> Owner<'static, Process> {
        owner(local::current::<Own>())
    }
}

// SAFETY: the heap is that of the record that this thread holds, or of NOWHERE or GONE (H6), `front` is the copy of its
// front (H7), `refill` goes on with the `Owner` of a record that is held, and all else is what the record's `Owner` says.
unsafe impl Env for This {
    type Geometry = Standard;
    type Backing = Global;
    type Account = SharedAccount;

    #[inline]
    fn heap(&self) -> &Heap {
        &self.owner().record.shard().heap
    }

    #[inline]
    fn front(&self, class: Class) -> ChunkPtr {
        if class != Class::Small {
            return self.heap().front(class);
        }
        let front = near();
        ephemera_prim::invariant!(
            front == self.heap().front(class),
            "H7: a front that the thread-local does not know"
        );
        front
    }

    /// Finds a block in the heap of this thread's record, which it gets here at its first allocation, or in that of a
    /// record leased for this one operation, when its guard is gone.
    #[cold]
    #[inline(never)]
    fn refill(self, layout: Layout, class: Class, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        let held = local::hold::<Own>().ok_or(AllocError)?;
        let block = heap::refill(owner(held.record()), layout, class, limit);
        held.release();
        block
    }

    fn front_changed(&self) {
        self.owner().front_changed();
    }

    fn backing(&self) -> &Global {
        &Global
    }

    fn account(&self) -> &SharedAccount {
        &WORLD.account
    }

    #[inline]
    fn identity(&self) -> *const () {
        self.owner().identity()
    }

    #[inline]
    fn owns(&self, chunk: ChunkPtr) -> bool {
        self.owner().owns(chunk)
    }

    fn retain(&self) -> usize {
        self.owner().retain()
    }

    fn settle(&self) {
        self.owner().settle();
    }

    fn trim_asked(&self) -> bool {
        self.owner().trim_asked()
    }

    fn last_resort(&self) {
        self.owner().last_resort();
    }

    #[inline]
    unsafe fn give_back(self, chunk: ChunkPtr, given: Live) {
        // SAFETY: the caller gives up what `given` counts, and this record, which is the one that `owns` asked, does not own the chunk.
        unsafe { self.owner().give_back(chunk, given) };
    }
}

/// The front of small blocks of the record that this thread stands for.
#[inline]
fn near() -> ChunkPtr {
    // SAFETY: H7: a front, so that it is not null (H2).
    let front = unsafe { NonNull::new_unchecked(local::near::<Own>()) };
    // SAFETY: C1 by H7: a front is not freed before it stops being the front, this thread alone changes it, and the full chunk is a static.
    unsafe { ChunkPtr::new(front) }
}

#[inline]
fn owner(record: &'static Record<Own>) -> Owner<'static, Process> {
    Owner { record, realm: Process }
}

/// The owner of this thread's record, if it has one already.
pub(super) fn bound() -> Option<Owner<'static, Process>> {
    local::bound::<Own>().map(owner)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;

    use allocator_api2::boxed::Box;

    use super::{Class, Env, Process, Record, This, WORLD, bound, heap, near, release};
    use crate::OneRingAlloc;
    use crate::one::shard::DRAINS;

    /// Each test counts on the records for itself.
    static TURN: Mutex<()> = Mutex::new(());

    /// H7, as it is while none of this crate's code runs.
    fn front_follows() -> bool {
        let front = This.heap().front(Class::Small);
        near() == front && (bound().is_some() || front.as_ptr() == heap::full_chunk())
    }

    #[test]
    fn conc_a_free_during_a_momentary_lease_is_not_left_behind() {
        let _turn = TURN.lock();
        let chunks = || OneRingAlloc.stats().chunks();
        let value = std::thread::spawn(|| Box::new_in(7, OneRingAlloc)).join().expect("no panic");
        // Nobody else in this process has one.
        let lease = WORLD.registry.records().next().and_then(Record::try_lease).expect("its thread ended");
        assert_eq!((*value, chunks()), (7, 1));
        drop(value);
        assert_eq!(chunks(), 1, "whoever has the record looks after it");
        release(Process, lease);
        assert_eq!(chunks(), 0);
    }

    #[test]
    fn frees_after_the_end_of_a_thread_drain_its_record_twice_a_chunk() {
        const BLOCKS: usize = if cfg!(miri) { 60 } else { 10_000 };
        let _turn = TURN.lock();
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
    fn conc_the_front_follows_the_record() {
        let _turn = TURN.lock();
        static BEHIND: AtomicUsize = AtomicUsize::new(0);
        static WRONG: AtomicUsize = AtomicUsize::new(0);
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                BEHIND.fetch_add(usize::from(bound().is_none()), Ordering::Relaxed);
                WRONG.fetch_add(usize::from(!front_follows()), Ordering::Relaxed);
                // Behind the guard this leases a record, whose front is not this thread's.
                drop(Box::new_in(7, OneRingAlloc));
                WRONG.fetch_add(usize::from(!front_follows()), Ordering::Relaxed);
            }
        }
        std::thread_local! {
            static FIRST: Late = const { Late };
            static LAST: Late = const { Late };
        }
        let life = || {
            FIRST.with(|_| ());
            assert!(front_follows(), "no record yet");
            let value = Box::new_in(7, OneRingAlloc);
            assert!(front_follows(), "bound");
            LAST.with(|_| ());
            drop(Box::new_in([0_u8; 2000], OneRingAlloc));
            let many: [_; 40] = core::array::from_fn(|_| Box::new_in([0_u8; 2000], OneRingAlloc));
            assert!(front_follows(), "through three chunks");
            drop(many);
            OneRingAlloc.clean_local();
            assert!(front_follows(), "cleaned");
            (value, Box::new_in([0_u8; 2000], OneRingAlloc))
        };
        // The second thread goes on in the front that the first one left.
        let left = [(); 2].map(|()| std::thread::spawn(life).join().expect("no panic"));
        assert_ne!(BEHIND.load(Ordering::Relaxed), 0, "a destructor ran behind the guard");
        assert_eq!(WRONG.load(Ordering::Relaxed), 0);
        drop(left);
        assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
    }
}
