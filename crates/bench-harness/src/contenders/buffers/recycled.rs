//! `object-pool` with byte vectors. A returned vector keeps its capacity, and the next user clears
//! it.

use std::sync::Arc;

use object_pool::{Pool, ReusableOwned};

use crate::buffers::{Demand, Source, extending};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// A pool of vectors, which starts empty. If the pool is empty, a request creates a vector on the
/// heap. The vector enters the pool when it is dropped.
pub(crate) struct RecycledVectors(Arc<Pool<Vec<u8>>>);

/// A vector that returns to the pool when it is dropped.
type Recycled = ReusableOwned<Vec<u8>>;

extending! { Recycled => Arc<Recycled>, Arc::new }

// SAFETY: from `pull_owned` until its handle is dropped, a vector is outside the pool, and the
// handle owns it.
unsafe impl Source for RecycledVectors {
    const INFO: Info = Info::new(
        "object-pool",
        env!("EPHEMERA_VERSION_OBJECT_POOL"),
        Caps::MAKES_HERE,
        "recycles vectors with their capacity; a lock; returns no memory",
    );
    type Backing = System;
    type Buf = Recycled;

    fn create(_demand: &Demand) -> Self {
        Self(Arc::new(Pool::from_vec(Vec::new())))
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Recycled> {
        let mut vector = self.0.pull_owned(Vec::new);
        vector.clear();
        vector.reserve(capacity);
        Some(vector)
    }
}
