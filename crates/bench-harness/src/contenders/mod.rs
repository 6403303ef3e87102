//! The compared allocators: one folder for each class, and the registry that the runner uses.

pub(crate) mod blocks;
pub(crate) mod buffers;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod played;

use crate::blocks::Contender;
use crate::buffers::Source;
use crate::card::{ContenderClass, Info};
use crate::nodes::NodeFamily;
use crate::objects::Maker;
use crate::workloads::{Cell, Context, WorkloadSpec};
#[cfg(not(test))]
use crate::{tally::Counted, workloads::build};

/// The index of the allocator that does nothing, in each class.
pub const VOID: usize = 0;
/// The index of the reference, in each class.
pub const REFERENCE: usize = 1;
/// The index of the reference's second entry, whose ratio must be 1, in each class.
pub const TWIN: usize = 2;

/// The keys of these three, the same in each class.
pub const ALWAYS: [&str; 3] = ["nothing", ephemera_trace::replay::REFERENCE, ephemera_trace::replay::TWIN];

/// Whether the allocators of this workspace take part.
const OURS: bool = true;

/// Whether the namesakes, and the contenders in Rust that most programs know, take part. Without
/// them they are not compiled to machine code, which takes most of the time of a build.
const PEERS: bool = cfg!(feature = "rust-peers");

/// Whether all other contenders in Rust take part.
const MORE_PEERS: bool = cfg!(feature = "more-rust-peers");

/// Returns the registry of a class in the order of its tables. It starts with `$nothing`, then
/// `$over` each third-party general allocator. The others follow if their group takes part.
macro_rules! registry {
    ($entry:ident, $nothing:ty, $over:ident; $($group:ident $key:literal: $contender:ty,)*) => {{
        let mut all = vec![
            $entry::<$nothing>("nothing"),
            $entry::<$over<$crate::contenders::blocks::System>>("glibc"),
            $crate::contenders::twin($entry::<$over<$crate::contenders::blocks::System>>("glibc-aa")),
            #[cfg(feature = "c-peers")]
            $entry::<$over<$crate::contenders::blocks::MiMalloc>>("mimalloc"),
            #[cfg(feature = "c-peers")]
            $entry::<$over<$crate::contenders::blocks::Jemalloc>>("jemalloc"),
            #[cfg(feature = "cpp-peers")]
            $entry::<$over<$crate::contenders::blocks::SnMalloc>>("snmalloc"),
        ];
        $(if $crate::contenders::$group {
            all.push($entry::<$contender>($key));
        })*
        all
    }};
}
use registry;

/// Builds a cell of a workload over one contender.
type Build = fn(&WorkloadSpec, &Context) -> Box<dyn Cell>;

/// A contender as the runner sees it: its type is erased, and there are three ways to build a cell.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The key in `--peers` and in files, unique within the class.
    pub key: &'static str,
    /// The kind of memory that it hands out.
    pub class: ContenderClass,
    /// The contender's card.
    pub info: Info,
    /// The reason why this build cannot run it, if there is one.
    pub absent: Option<&'static str>,
    /// Builds a cell to be timed.
    pub timed: Build,
    /// Builds a cell for the check: counted, with verified contents.
    pub checked: Build,
    /// Builds a cell for memory: counted, over a counting backing allocator if the contender
    /// accepts one.
    pub metered: Build,
    /// Builds a player of traces. Only contenders that hand out blocks have one.
    pub replay: Option<ephemera_trace::replay::BuildPlayer>,
}

/// Returns the ways to build a cell. In the unit tests it returns functions that panic: they read
/// the registry and build no cell from it, and without all these cells they compile sooner.
macro_rules! builds {
    ($($build:expr),*) => {{
        #[cfg(test)]
        let builds: [Build; 3] = [|spec, _| panic!("{}: no cell is built from the registry here", spec.id); 3];
        #[cfg(not(test))]
        let builds: [Build; 3] = [$($build),*];
        builds
    }};
}

/// Creates the entry of a contender from its card and the three ways to build a cell.
const fn entry(
    class: ContenderClass,
    key: &'static str,
    info: Info,
    [timed, checked, metered]: [Build; 3],
) -> Entry {
    Entry { key, class, info, absent: None, timed, checked, metered, replay: None }
}

/// Creates an entry for blocks.
fn blocks<C: Contender>(key: &'static str) -> Entry {
    let builds =
        builds![build::blocks::<C>, build::blocks::<Counted<C>>, build::blocks::<Counted<C::Metered>>];
    let replay: ephemera_trace::replay::BuildPlayer = played::build::<C>;
    Entry { replay: Some(replay), ..entry(ContenderClass::Blocks, key, C::INFO, builds) }
}

/// Creates an entry for objects.
fn objects<M: Maker>(key: &'static str) -> Entry {
    let builds = builds![build::objects::<M>, build::objects::<Counted<M>>, build::objects::<Counted<M>>];
    entry(ContenderClass::Objects, key, M::INFO, builds)
}

/// Creates an entry for buffers.
fn buffers<S: Source>(key: &'static str) -> Entry {
    let builds = builds![build::buffers::<S>, build::buffers::<Counted<S>>, build::buffers::<Counted<S>>];
    entry(ContenderClass::Buffers, key, S::INFO, builds)
}

/// Creates an entry for nodes.
fn nodes<F: NodeFamily>(key: &'static str) -> Entry {
    let builds = builds![build::nodes::<F>, build::nodes::<Counted<F>>, build::nodes::<Counted<F::Metered>>];
    entry(ContenderClass::Nodes, key, F::INFO, builds)
}

/// Returns the reference's second entry.
fn twin(mut entry: Entry) -> Entry {
    entry.info.name = "A/A (the reference again)";
    entry.info.notes = "must be 1";
    entry
}

/// Returns the contenders of a class in this build, in the order of the tables: the loop, the
/// reference, its twin, then the others.
#[must_use]
pub fn of(class: ContenderClass) -> Vec<Entry> {
    match class {
        ContenderClass::Blocks => blocks::all(),
        ContenderClass::Objects => objects::all(),
        ContenderClass::Buffers => buffers::all(),
        ContenderClass::Nodes => nodes::all(),
    }
}

/// Returns all contenders of this build by class.
#[must_use]
pub fn all() -> Vec<Entry> {
    ContenderClass::ALL.into_iter().flat_map(of).collect()
}

/// Returns every key once, as `--peers` accepts it.
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
