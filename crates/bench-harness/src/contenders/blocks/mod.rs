//! Contenders that hand out blocks of any size.

mod api02;
mod blink;
mod bump_scope;
mod bumpalo;
mod global;
#[cfg(feature = "c-peers")]
mod jemalloc;
#[cfg(feature = "c-peers")]
mod mimalloc;
mod multitude;
#[cfg(feature = "cpp-peers")]
mod snmalloc;
mod system;
mod void;
mod workspace;

pub use self::api02::Api02;
pub use self::blink::{Backing, Blink, BlinkRef};
pub use self::bump_scope::{BumpScope, ScopeBlocks};
pub use self::bumpalo::Bumpalo;
pub use self::global::Global;
#[cfg(feature = "c-peers")]
pub use self::jemalloc::Jemalloc;
#[cfg(feature = "c-peers")]
pub use self::mimalloc::{Library, MiMalloc};
pub use self::multitude::{Chunked, Multitude};
#[cfg(feature = "cpp-peers")]
pub use self::snmalloc::SnMalloc;
pub use self::system::System;
pub use self::void::Void;
pub use self::workspace::{OurOneRing, OurPooled, OurRing, UpstreamOneRing, UpstreamRing};

use super::{Entry, blocks as entry, twin};

/// Returns the registry in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<Void>("nothing"),
        entry::<System>("glibc"),
        twin(entry::<System>("glibc-aa")),
        #[cfg(feature = "c-peers")]
        entry::<MiMalloc>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<Jemalloc>("jemalloc"),
        #[cfg(feature = "cpp-peers")]
        entry::<SnMalloc>("snmalloc"),
        #[cfg(feature = "rust-peers")]
        entry::<Bumpalo>("bumpalo"),
        #[cfg(feature = "rust-peers")]
        entry::<BumpScope>("bump-scope"),
        #[cfg(feature = "rust-peers")]
        entry::<Blink<allocator_api2_04::alloc::Global>>("blink-alloc"),
        #[cfg(feature = "rust-peers")]
        entry::<Multitude>("multitude"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamRing>("upstream-ring"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamOneRing>("upstream-one-ring"),
        entry::<OurRing>("ring"),
        entry::<OurOneRing>("one-ring"),
        entry::<OurPooled>("pooled-allocator"),
    ]
}
