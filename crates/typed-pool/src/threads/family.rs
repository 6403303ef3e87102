//! A family of pools: those of one type, or of the size classes of one allocator.

use core::alloc::Layout;

use ephemera_prim::account::SharedAccount;
use ephemera_prim::epoch::Epoch;
use ephemera_prim::record::{Record, Registry};

use super::table::PoolRecord;
#[cfg(not(ephemera_loom))]
use crate::class::{self, CLASSES};
use crate::geometry::UnitSpec;
use crate::heap::ChunkLen;

#[cfg(not(ephemera_loom))]
type Cell = fn() -> &'static std::thread::LocalKey<super::FamilyCell>;

/// The common state of the pools of a family, on all threads. The macros of this crate define it as
/// a `static`.
///
/// Not public API: the macros expand to its name.
#[doc(hidden)]
#[derive(Debug)]
#[cfg_attr(ephemera_loom, expect(unreachable_pub, reason = "models have no macros that name it"))]
pub struct Family {
    kind: FamilyKind,
    chunk_len: ChunkLen,
    pub(super) account: SharedAccount,
    pub(super) epoch: Epoch,
    /// The number of times that a thread searched beyond its own table for room.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(super) looks: core::sync::atomic::AtomicUsize,
    /// The model's own registry, because loom has no statics.
    #[cfg(ephemera_loom)]
    registry: *const Registry<PoolRecord>,
    /// The family's thread-local.
    #[cfg(not(ephemera_loom))]
    pub(super) cell: Cell,
}

#[derive(Debug, Clone, Copy)]
enum FamilyKind {
    /// Values of one layout.
    Type(Layout),
    /// Values of every layout that has a class.
    #[cfg(not(ephemera_loom))]
    Classes,
}

#[cfg(ephemera_loom)]
// SAFETY: all fields but the pointer are `Sync`. The pointer is to a registry, which is `Sync` and
// outlives the family.
unsafe impl Sync for Family {}
#[cfg(ephemera_loom)]
// SAFETY: no field is tied to a thread, and the registry outlives the family.
unsafe impl Send for Family {}

#[cfg(not(ephemera_loom))]
impl Family {
    /// Creates the family of one type. Without a `chunk_len`, chunks grow.
    ///
    /// # Safety
    /// `cell` is the thread-local of these pools alone.
    #[must_use]
    pub const unsafe fn of_type<T>(chunk_len: &[usize], cell: Cell) -> Self {
        let chunk_len = match *chunk_len {
            [] => ChunkLen::Grows,
            [len, ..] => ChunkLen::Fixed(len),
        };
        Self::new(FamilyKind::Type(Layout::new::<T>()), chunk_len, cell)
    }

    /// Creates the family of an allocator with size classes.
    ///
    /// # Safety
    /// As [`Family::of_type`].
    #[must_use]
    pub const unsafe fn of_classes(cell: Cell) -> Self {
        Self::new(FamilyKind::Classes, ChunkLen::Grows, cell)
    }

    const fn new(kind: FamilyKind, chunk_len: ChunkLen, cell: Cell) -> Self {
        Self {
            kind,
            chunk_len,
            account: SharedAccount::new(),
            epoch: Epoch::new(),
            #[cfg(test)]
            looks: core::sync::atomic::AtomicUsize::new(0),
            cell,
        }
    }
}

#[cfg(all(test, ephemera_loom))]
impl Family {
    /// Creates the family of a model, over a registry that outlives it.
    pub(super) fn of_model(layout: Layout, slots: usize, registry: *const Registry<PoolRecord>) -> Self {
        let (kind, chunk_len) = (FamilyKind::Type(layout), ChunkLen::Fixed(slots));
        Self { kind, chunk_len, account: SharedAccount::new(), epoch: Epoch::new(), registry }
    }
}

impl Family {
    /// Returns the number of heaps that a record has for it.
    pub(super) const fn heaps(&self) -> usize {
        match self.kind {
            FamilyKind::Type(_) => 1,
            #[cfg(not(ephemera_loom))]
            FamilyKind::Classes => CLASSES,
        }
    }

    /// Returns the layout of the slots of one of its heaps.
    #[cfg_attr(ephemera_loom, expect(unused_variables, reason = "models have families of one type only"))]
    pub(super) fn spec(&self, heap: usize) -> UnitSpec {
        let layout = match self.kind {
            FamilyKind::Type(layout) => layout,
            #[cfg(not(ephemera_loom))]
            FamilyKind::Classes => class::layout(heap),
        };
        UnitSpec::of(layout).unwrap_or(UnitSpec::NONE)
    }

    pub(super) const fn chunk_len(&self) -> ChunkLen {
        self.chunk_len
    }

    /// Returns the records that have its tables.
    #[cfg(not(ephemera_loom))]
    #[expect(clippy::unused_self, reason = "under loom each family has its own")]
    pub(super) fn registry(&self) -> &'static Registry<PoolRecord> {
        &super::binding::REGISTRY
    }

    #[cfg(ephemera_loom)]
    pub(super) fn registry(&self) -> &Registry<PoolRecord> {
        // SAFETY: the registry outlives this family (`of_model`).
        unsafe { &*self.registry }
    }

    /// Returns the records that may have tables of this family: those of threads and of scopes.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record<PoolRecord>> {
        #[cfg(not(ephemera_loom))]
        let scopes = super::scopes::records_of(self).map(|record| record as &Record<_>);
        #[cfg(ephemera_loom)]
        let scopes = core::iter::empty();
        let registry: &Registry<PoolRecord> = self.registry();
        registry.records().chain(scopes)
    }

    pub(crate) fn account(&self) -> &SharedAccount {
        &self.account
    }
}
