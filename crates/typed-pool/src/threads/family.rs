//! Families: the pools of one type, or the size classes of one allocator, on all threads.

use core::alloc::Layout;

use crossbeam_utils::CachePadded;
use ephemera_prim::account::SharedAccount;
use ephemera_prim::epoch::Epoch;
#[cfg(ephemera_loom)]
use ephemera_prim::record::Registry;

#[cfg(ephemera_loom)]
use super::state::PoolRecord;
#[cfg(not(ephemera_loom))]
use super::state::ThisCell;
use super::state::{Family, FamilyKind};
use crate::class::{self, CLASSES};
use crate::geometry::UnitSpec;
use crate::heap::ChunkLen;

#[cfg(not(ephemera_loom))]
impl Family {
    /// Creates the family of one type. `chunk_len` contains the number of slots in a request, or is
    /// empty if that number grows.
    ///
    /// # Safety
    /// The thread-local that `cell` reads belongs to this family alone.
    #[must_use]
    pub const unsafe fn of_type<T>(chunk_len: &[usize], cell: fn() -> ThisCell) -> Self {
        let chunk_len = match *chunk_len {
            [] => ChunkLen::Grows,
            [len, ..] => ChunkLen::Fixed(len),
        };
        Self::new(FamilyKind::Type(Layout::new::<T>()), chunk_len, cell)
    }

    /// Creates the family of an allocator with size classes.
    ///
    /// # Safety
    /// The thread-local that `cell` reads belongs to this family alone.
    #[must_use]
    pub const unsafe fn of_classes(cell: fn() -> ThisCell) -> Self {
        Self::new(FamilyKind::Classes, ChunkLen::Grows, cell)
    }

    const fn new(kind: FamilyKind, chunk_len: ChunkLen, cell: fn() -> ThisCell) -> Self {
        Self {
            kind,
            chunk_len,
            account: CachePadded::new(SharedAccount::new()),
            epoch: Epoch::new(),
            #[cfg(test)]
            looks: core::sync::atomic::AtomicUsize::new(0),
            cell,
        }
    }
}

#[cfg(all(test, ephemera_loom))]
impl Family {
    /// Creates the family of a model. The registry must outlive the family.
    pub(super) fn of_model(layout: Layout, slots: usize, registry: *const Registry<PoolRecord>) -> Self {
        let (kind, chunk_len) = (FamilyKind::Type(layout), ChunkLen::Fixed(slots));
        Self {
            kind,
            chunk_len,
            account: CachePadded::new(SharedAccount::new()),
            epoch: Epoch::new(),
            registry,
        }
    }
}

impl Family {
    /// Returns the number of heaps that a record has for this family.
    pub(super) const fn heaps(&self) -> usize {
        match self.kind {
            FamilyKind::Type(_) => 1,
            FamilyKind::Classes => CLASSES,
        }
    }

    /// Returns the layout of the units of the heap with this index, or [`UnitSpec::NONE`] if values
    /// of that heap have no units.
    pub(super) fn spec(&self, heap: usize) -> UnitSpec {
        let layout = match self.kind {
            FamilyKind::Type(layout) => layout,
            FamilyKind::Classes => class::layout(heap),
        };
        UnitSpec::of(layout).unwrap_or(UnitSpec::NONE)
    }

    pub(crate) fn account(&self) -> &SharedAccount {
        &self.account
    }
}
