//! The allocators that are compared: a folder for each class, one file each, and the registry that the runner goes through.

pub mod blocks;
pub mod buffers;
pub mod nodes;
pub mod objects;
pub(crate) mod played;

use crate::blocks::Contender;
use crate::buffers::Source;
use crate::card::{Class, Info};
use crate::nodes::Family;
use crate::objects::Maker;
use crate::tally::Counted;
use crate::workloads::{Cell, Context, Kind, Spec};

/// Index, in each class, of the allocator that does nothing.
pub const VOID: usize = 0;
/// Index, in each class, of the reference.
pub const REFERENCE: usize = 1;
/// Index, in each class, of the reference's second registration, whose ratio must be 1.
pub const TWIN: usize = 2;

/// Keys of the three; the same in each class.
pub const ALWAYS: [&str; 3] = ["nothing", ephemera_trace::replay::REFERENCE, ephemera_trace::replay::TWIN];

/// Builds a cell of a workload over one contender.
type Build = fn(&Spec, &Context) -> Box<dyn Cell>;

/// A contender as the runner sees it, its type erased: three ways to build a cell.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The word that `--peers` and the files know it by; unique within its class.
    pub key: &'static str,
    /// What it hands out.
    pub class: Class,
    /// Its card.
    pub info: Info,
    /// Why this build cannot run it, if so.
    pub absent: Option<&'static str>,
    /// For time.
    pub timed: Build,
    /// For the check: counted, contents verified.
    pub checked: Build,
    /// For memory: counted, over a counting backing allocator where it has one.
    pub metered: Build,
    /// For traces: only what hands out blocks can replay one.
    pub replay: Option<ephemera_trace::replay::BuildPlayer>,
}

/// An entry for blocks.
fn blocks<C: Contender>(key: &'static str) -> Entry {
    fn build<C: Contender>(spec: &Spec, context: &Context) -> Box<dyn Cell> {
        let Kind::Blocks(workload) = spec.kind else { other_class(spec) };
        workload.build::<C>(context)
    }
    Entry {
        key,
        class: Class::Blocks,
        info: C::INFO,
        absent: None,
        timed: build::<C>,
        checked: build::<Counted<C>>,
        metered: build::<Counted<C::Metered>>,
        replay: Some(played::build::<C>),
    }
}

/// An entry for objects.
fn objects<M: Maker>(key: &'static str) -> Entry {
    fn build<M: Maker>(spec: &Spec, context: &Context) -> Box<dyn Cell> {
        let Kind::Objects(workload) = spec.kind else { other_class(spec) };
        workload.build::<M>(context)
    }
    Entry {
        key,
        class: Class::Objects,
        info: M::INFO,
        absent: None,
        timed: build::<M>,
        checked: build::<Counted<M>>,
        metered: build::<Counted<M>>,
        replay: None,
    }
}

/// An entry for buffers.
fn buffers<S: Source>(key: &'static str) -> Entry {
    fn build<S: Source>(spec: &Spec, context: &Context) -> Box<dyn Cell> {
        let Kind::Buffers(workload) = spec.kind else { other_class(spec) };
        workload.build::<S>(context)
    }
    Entry {
        key,
        class: Class::Buffers,
        info: S::INFO,
        absent: None,
        timed: build::<S>,
        checked: build::<Counted<S>>,
        metered: build::<Counted<S>>,
        replay: None,
    }
}

/// An entry for nodes.
fn nodes<F: Family>(key: &'static str) -> Entry {
    fn build<F: Family>(spec: &Spec, context: &Context) -> Box<dyn Cell> {
        let Kind::Nodes(workload) = spec.kind else { other_class(spec) };
        workload.build::<F>(context)
    }
    Entry {
        key,
        class: Class::Nodes,
        info: F::INFO,
        absent: None,
        timed: build::<F>,
        checked: build::<Counted<F>>,
        metered: build::<Counted<F::Metered>>,
        replay: None,
    }
}

/// The runner pairs workloads with contenders of their class alone.
fn other_class(spec: &Spec) -> ! {
    panic!("{} is for {:?}", spec.id, spec.class())
}

/// The reference, registered once more.
fn twin(mut entry: Entry) -> Entry {
    entry.info.name = "A/A (the reference again)";
    entry.info.notes = "must be 1";
    entry
}

/// The contenders of a class in this build, in the order of the tables: the loop, the reference, its twin, then the rest.
#[must_use]
pub fn of(class: Class) -> Vec<Entry> {
    match class {
        Class::Blocks => blocks::all(),
        Class::Objects => objects::all(),
        Class::Buffers => buffers::all(),
        Class::Nodes => nodes::all(),
    }
}

/// All contenders of this build, class by class.
#[must_use]
pub fn all() -> Vec<Entry> {
    Class::ALL.into_iter().flat_map(of).collect()
}

/// What `--peers` understands: every key once.
#[must_use]
pub fn keys() -> Vec<&'static str> {
    let mut keys: Vec<&str> = Vec::new();
    for entry in all() {
        if !keys.contains(&entry.key) {
            keys.push(entry.key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_begins_with_the_three() {
        for class in Class::ALL {
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
