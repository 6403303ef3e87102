//! The one world of the process, and which record this thread stands for in it.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::AllocError;
use ephemera_prim::local::{self, Held, Here, Tenant};
use ephemera_prim::record::{FIRST, Record, Registry};

use super::shard::{Owner, Realm, Shard, World, give_up};
use crate::geometry::{Class, Standard};
use crate::heap;

type Own = Shard<Standard>;

pub(super) static WORLD: World<Standard> =
    World::new(Registry::new([const { Record::new(Own::new()) }; FIRST], Own::new));

/// Threads that did not allocate yet.
static NOWHERE: Record<Own> = Record::new(Own::nowhere());
/// Threads whose exit guard is gone.
static GONE: Record<Own> = Record::new(Own::nowhere());

std::thread_local! {
    static HERE: Here<Own> = const {
        // SAFETY: a static.
        unsafe { Here::new(&raw const NOWHERE) }
    };
}

impl Tenant for Own {
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

    /// Finds a block in the heap of this thread's record, which it gets here at its first allocation, or in that of a
    /// record leased for this one operation, when its guard is gone.
    #[cold]
    #[inline(never)]
    fn refill(_: Owner<'_, Self>, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
        let held = local::hold::<Own>().ok_or(AllocError)?;
        let block = heap::refill(owner(held.record()), layout, class);
        if let Held::Leased(lease) = held {
            give_up(Process, lease);
        }
        block
    }
}

#[inline]
fn owner(record: &'static Record<Own>) -> Owner<'static, Process> {
    Owner { record, realm: Process }
}

/// This thread, as the owner of what hangs on its record.
#[inline]
pub(super) fn this() -> Owner<'static, Process> {
    owner(local::current::<Own>())
}

/// The owner of this thread's record, if it has one already.
pub(super) fn bound() -> Option<Owner<'static, Process>> {
    local::bound::<Own>().map(owner)
}

#[cfg(test)]
mod tests {
    use allocator_api2::boxed::Box;

    use super::{Process, Record, WORLD, give_up};
    use crate::OneRingAlloc;

    #[test]
    fn conc_what_came_while_a_record_was_looked_at_is_not_left_there() {
        let chunks = || OneRingAlloc.stats().chunks();
        let value = std::thread::spawn(|| Box::new_in(7, OneRingAlloc)).join().expect("no panic");
        // Nobody else in this process has one.
        let lease = WORLD.registry.records().next().and_then(Record::try_lease).expect("its thread ended");
        assert_eq!((*value, chunks()), (7, 1));
        drop(value);
        assert_eq!(chunks(), 1, "whoever has the record looks after it");
        give_up(Process, lease);
        assert_eq!(chunks(), 0);
    }
}
