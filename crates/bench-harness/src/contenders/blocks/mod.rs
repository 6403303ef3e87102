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

use super::entry::{Entry, blocks as entry, registry};

/// Returns the contenders in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    type Itself<C> = C;
    registry! {
        entry, Void, Itself;
        PEERS "bumpalo": Bumpalo,
        MORE_PEERS "bump-scope": BumpScope,
        MORE_PEERS "blink-alloc": Blink,
        MORE_PEERS "multitude": Chunked,
        PEERS "upstream-ring": UpstreamRing,
        PEERS "upstream-one-ring": UpstreamOneRing,
        OURS "ring": OurRing,
        OURS "one-ring": OurOneRing,
        OURS "pooled-allocator": OurPooled,
    }
}
