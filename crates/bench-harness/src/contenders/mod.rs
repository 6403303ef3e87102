//! The contenders: one module for each class, and the registry that the runner uses.

pub(crate) mod blocks;
pub(crate) mod buffers;
mod entry;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod played;

pub use self::entry::Entry;

use std::collections::BTreeSet;

use crate::card::ContenderClass;

/// The index of the allocator that does nothing, in the registry of each class.
pub const VOID: usize = 0;
/// The index of the reference in the registry of each class.
pub const REFERENCE: usize = 1;
/// The index of the reference's second entry in the registry of each class. Both entries run the
/// same allocator, so the true ratio between them is 1.
pub const TWIN: usize = 2;

/// The keys of the allocator that does nothing, the reference and its second entry, in this order.
/// They are the same in each class.
pub const ALWAYS: [&str; 3] = ["nothing", ephemera_trace::replay::REFERENCE, ephemera_trace::replay::TWIN];

/// Returns the contenders of a class in this build, in the order of the tables: the allocator that
/// does nothing, the reference, its second entry, then the others.
pub fn of(class: ContenderClass) -> Vec<Entry> {
    match class {
        ContenderClass::Blocks => blocks::all(),
        ContenderClass::Objects => objects::all(),
        ContenderClass::Buffers => buffers::all(),
        ContenderClass::Nodes => nodes::all(),
    }
}

/// Returns all contenders of this build, class by class.
pub fn all() -> Vec<Entry> {
    ContenderClass::ALL.into_iter().flat_map(of).collect()
}

/// Returns the keys that `--peers` accepts, without duplicates.
pub fn keys() -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    all().into_iter().map(|entry| entry.key).filter(|key| seen.insert(*key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_starts_with_loop_reference_and_twin() {
        for class in ContenderClass::ALL {
            let entries = of(class);
            let keys: Vec<&str> = entries.iter().map(|entry| entry.key).collect();
            assert_eq!(keys[..3], ALWAYS);
            assert!(entries.iter().all(|entry| entry.class == class));
            let mut unique = keys.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), keys.len(), "{keys:?}");
        }
    }
}
