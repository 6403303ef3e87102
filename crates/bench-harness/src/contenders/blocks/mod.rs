//! Contenders that hand out blocks of any size.

mod adapters;
mod general;
mod local;
mod void;

pub(crate) use self::adapters::{Api02, Api04};
#[cfg(feature = "cpp-peers")]
pub(crate) use self::general::SnMalloc;
#[cfg(feature = "c-peers")]
pub(crate) use self::general::{Jemalloc, MiMalloc};
pub(crate) use self::general::{OurOneRing, OurPooled, System, UpstreamOneRing};
pub(crate) use self::local::{Blink, BumpScope, Bumpalo, Chunked, OurRing, UpstreamRing};
pub(crate) use self::void::Void;

use super::{Entry, MORE_PEERS, PEERS, blocks as entry, general};

/// Returns the registry in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    type Itself<C> = C;
    let mut all = general!(entry, Void, Itself);
    if PEERS {
        all.extend([entry::<Bumpalo>("bumpalo")]);
    }
    if MORE_PEERS {
        all.extend([
            entry::<BumpScope>("bump-scope"),
            entry::<Blink>("blink-alloc"),
            entry::<Chunked>("multitude"),
        ]);
    }
    if PEERS {
        all.extend([entry::<UpstreamRing>("upstream-ring"), entry::<UpstreamOneRing>("upstream-one-ring")]);
    }
    all.extend([
        entry::<OurRing>("ring"),
        entry::<OurOneRing>("one-ring"),
        entry::<OurPooled>("pooled-allocator"),
    ]);
    all
}
