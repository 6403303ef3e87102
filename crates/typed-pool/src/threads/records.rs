//! All records that may have tables: the records of threads, and the records of scopes.

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
    pub(super) fn registry(&self) -> &Registry<PoolRecord> {
        #[cfg(not(ephemera_loom))]
        return &REGISTRY;
        // SAFETY: the registry outlives this family (`of_model`).
        #[cfg(ephemera_loom)]
        unsafe {
            &*self.registry
        }
    }

    /// Returns the records of threads and of scopes that may have tables of this family.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record<PoolRecord>> {
        #[cfg(not(ephemera_loom))]
        let scopes = records_of(self).map(|record| record as &Record<_>);
        #[cfg(ephemera_loom)]
        let scopes = core::iter::empty();
        self.registry().records().chain(scopes)
    }
}
