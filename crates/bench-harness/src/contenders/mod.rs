//! The allocators that are compared: one file each, and the registry that the runner goes through.

mod api02;
mod blink;
mod bumpalo;
mod global;
#[cfg(feature = "c-peers")]
mod jemalloc;
#[cfg(feature = "c-peers")]
mod mimalloc;
mod ours;
mod system;
mod upstream;
mod void;

pub use self::api02::Api02;
pub use self::blink::{Backing, Blink, BlinkRef};
pub use self::bumpalo::Bumpalo;
pub use self::global::Global;
#[cfg(feature = "c-peers")]
pub use self::jemalloc::Jemalloc;
#[cfg(feature = "c-peers")]
pub use self::mimalloc::{Library, MiMalloc};
pub use self::ours::{DefaultRing as RingAlloc, OneRing as OneRingAlloc, Ring as RingAllocIn};
pub use self::system::System;
pub use self::upstream::{
    DefaultRing as UpstreamRingAlloc, OneRing as UpstreamOneRingAlloc, Ring as UpstreamRingAllocIn,
};
pub use self::void::Void;

use crate::alloc::{Contender, Info};
use crate::tally::Counted;
use crate::workloads::{Cell, Context, Spec};

/// Index of the allocator that does nothing.
pub const VOID: usize = 0;
/// Index of the reference.
pub const REFERENCE: usize = 1;
/// Index of the reference's second registration, whose ratio must be 1.
pub const TWIN: usize = 2;

/// Builds a cell of a workload over one contender.
type Build = fn(&Spec, &Context) -> Box<dyn Cell>;

/// A contender as the runner sees it, its type erased: three ways to build a cell.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The word that `--peers` and the files know it by.
    pub key: &'static str,
    /// Its card.
    pub info: Info,
    /// For time.
    pub timed: Build,
    /// For the check: counted, contents verified.
    pub checked: Build,
    /// For memory: counted, over a counting backing allocator where it has one.
    pub metered: Build,
}

fn entry<C: Contender>(key: &'static str) -> Entry {
    Entry {
        key,
        info: C::INFO,
        timed: |spec, context| spec.kind.build::<C>(context),
        checked: |spec, context| spec.kind.build::<Counted<C>>(context),
        metered: |spec, context| spec.kind.build::<Counted<C::Metered>>(context),
    }
}

/// All contenders of this build, in the order of the tables: the loop, the reference, its twin, then the rest.
pub fn all() -> Vec<Entry> {
    let mut twin = entry::<System>("glibc-aa");
    twin.info.name = "A/A (the reference again)";
    twin.info.notes = "must be 1";
    vec![
        entry::<Void>("nothing"),
        entry::<System>("glibc"),
        twin,
        #[cfg(feature = "c-peers")]
        entry::<MiMalloc>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<Jemalloc>("jemalloc"),
        entry::<Bumpalo>("bumpalo"),
        entry::<Blink<allocator_api2_04::alloc::Global>>("blink-alloc"),
        entry::<UpstreamRingAlloc>("upstream-ring"),
        entry::<UpstreamOneRingAlloc>("upstream-one-ring"),
        entry::<RingAlloc>("ring"),
        entry::<OneRingAlloc>("one-ring"),
    ]
}
