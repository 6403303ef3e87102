//! The entries of the registry, and the macro that builds the registry of a class.

use super::played;
use crate::blocks::Contender;
use crate::buffers::Source;
use crate::card::{ContenderClass, Info};
use crate::nodes::NodeFamily;
use crate::objects::Maker;
use crate::workloads::{Cell, Context, WorkloadSpec};
#[cfg(not(test))]
use crate::{tally::Counted, workloads::build};

/// Whether the allocators of this workspace take part in the comparison.
pub(super) const OURS: bool = true;

/// Whether two groups of contenders take part: upstream's crates, which are published under the
/// names of this workspace's crates, and the best-known contenders in Rust. If this is `false`, the
/// compiler does not generate code for these contenders, which saves most of the build time.
pub(super) const PEERS: bool = cfg!(feature = "rust-peers");

/// Whether the contenders in Rust that belong to neither `OURS` nor `PEERS` take part.
pub(super) const MORE_PEERS: bool = cfg!(feature = "more-rust-peers");

/// Builds the registry of a class, in the order of the class's tables: `$nothing`, the reference,
/// its second entry, the allocators in C and C++, and the other contenders whose group takes part.
/// `$over` adapts the general allocators to the class.
macro_rules! registry {
    ($entry:ident, $nothing:ty, $over:ident; $($group:ident $key:literal: $contender:ty,)*) => {{
        let mut all = vec![
            $entry::<$nothing>("nothing"),
            $entry::<$over<$crate::contenders::blocks::System>>("glibc"),
            $crate::contenders::entry::twin($entry::<$over<$crate::contenders::blocks::System>>("glibc-aa")),
            #[cfg(feature = "c-peers")]
            $entry::<$over<$crate::contenders::blocks::MiMalloc>>("mimalloc"),
            #[cfg(feature = "c-peers")]
            $entry::<$over<$crate::contenders::blocks::Jemalloc>>("jemalloc"),
            #[cfg(feature = "cpp-peers")]
            $entry::<$over<$crate::contenders::blocks::SnMalloc>>("snmalloc"),
        ];
        $(if $crate::contenders::entry::$group {
            all.push($entry::<$contender>($key));
        })*
        all
    }};
}
pub(super) use registry;

/// A function that builds the cell of a workload over one contender.
type BuildCell = fn(&WorkloadSpec, &Context) -> Box<dyn Cell>;

/// A contender as the runner sees it: its type is erased, and two functions build its cells.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The contender's key in `--peers` and in files, unique within its class.
    pub key: &'static str,
    /// The contender's class.
    pub class: ContenderClass,
    /// The contender's card.
    pub info: Info,
    /// The reason why this build cannot run the contender. `None` if it can.
    pub absent: Option<&'static str>,
    /// Builds a cell that the runner times.
    pub timed: BuildCell,
    /// Builds a cell for the check and for the memory pass. The cell counts calls and verifies
    /// contents, over a counting backing allocator if the contender accepts one.
    pub counted: BuildCell,
    /// The function that builds a player of traces. `None` if the contender does not hand out
    /// blocks.
    pub replay: Option<ephemera_trace::replay::BuildPlayer>,
}

/// Returns the two functions that build cells. In unit tests both functions panic: no test builds a
/// cell from the registry, and the tests compile faster without the code of all cells.
macro_rules! builds {
    ($($build:expr),*) => {{
        #[cfg(test)]
        let builds: [BuildCell; 2] = [|spec, _| panic!("{}: unit tests build no cell from the registry", spec.id); 2];
        #[cfg(not(test))]
        let builds: [BuildCell; 2] = [$($build),*];
        builds
    }};
}

/// Creates the entry of a contender from its card and the two functions that build its cells.
const fn entry(
    class: ContenderClass,
    key: &'static str,
    info: Info,
    [timed, counted]: [BuildCell; 2],
) -> Entry {
    Entry { key, class, info, absent: None, timed, counted, replay: None }
}

/// Creates the entry of a contender that hands out blocks.
pub(super) fn blocks<C: Contender>(key: &'static str) -> Entry {
    let builds = builds![build::blocks::<C>, build::blocks::<Counted<C::Metered>>];
    let replay: ephemera_trace::replay::BuildPlayer = played::build::<C>;
    Entry { replay: Some(replay), ..entry(ContenderClass::Blocks, key, C::INFO, builds) }
}

/// Creates the entry of a contender that hands out objects.
pub(super) fn objects<M: Maker>(key: &'static str) -> Entry {
    let builds = builds![build::objects::<M>, build::objects::<Counted<M>>];
    entry(ContenderClass::Objects, key, M::INFO, builds)
}

/// Creates the entry of a contender that hands out buffers.
pub(super) fn buffers<S: Source>(key: &'static str) -> Entry {
    let builds = builds![build::buffers::<S>, build::buffers::<Counted<S>>];
    entry(ContenderClass::Buffers, key, S::INFO, builds)
}

/// Creates the entry of a contender that hands out nodes.
pub(super) fn nodes<F: NodeFamily>(key: &'static str) -> Entry {
    let builds = builds![build::nodes::<F>, build::nodes::<Counted<F::Metered>>];
    entry(ContenderClass::Nodes, key, F::INFO, builds)
}

/// Turns the entry of the reference into its second entry, the A/A row.
pub(super) fn twin(mut entry: Entry) -> Entry {
    entry.info.name = "A/A (the reference again)";
    entry.info.notes = "must be 1";
    entry
}
