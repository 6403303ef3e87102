//! All records that may have tables: those of threads, and those of scopes.

#[cfg(not(ephemera_loom))]
use ephemera_prim::record::FIRST;
use ephemera_prim::record::{Record, Registry};

#[cfg(not(ephemera_loom))]
use super::scopes::records_of;
use super::state::{Family, PoolRecord};

#[cfg(not(ephemera_loom))]
pub(super) static REGISTRY: Registry<PoolRecord> =
    Registry::new([const { Record::new(PoolRecord::new()) }; FIRST], PoolRecord::new);

impl Family {
    /// Returns the registry of the threads' records, which may have tables of this family.
    #[cfg(not(ephemera_loom))]
    pub(super) fn registry(&self) -> &'static Registry<PoolRecord> {
        &REGISTRY
    }

    #[cfg(ephemera_loom)]
    pub(super) fn registry(&self) -> &Registry<PoolRecord> {
        // SAFETY: the registry outlives this family (`of_model`).
        unsafe { &*self.registry }
    }

    /// Returns the records that may have tables of this family: those of threads and of scopes.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record<PoolRecord>> {
        #[cfg(not(ephemera_loom))]
        let scopes = records_of(self).map(|record| record as &Record<_>);
        #[cfg(ephemera_loom)]
        let scopes = core::iter::empty();
        let registry: &Registry<PoolRecord> = self.registry();
        registry.records().chain(scopes)
    }
}
