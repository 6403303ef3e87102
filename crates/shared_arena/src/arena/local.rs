//! Defines the arena that one thread at a time uses.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;

use super::builder::{Build, Builder};
use super::shared::ArenaCore;
use crate::error::{Refused, TryAllocError};
use crate::handle::sealed::Sealed;
use crate::handle::{AllocArc, AllocRc, ArenaArc, ArenaBox, ArenaRc};
use crate::stats::Stats;
use crate::store::ArenaSettings;
use crate::thread;

/// A pool of values of one type, for one thread at a time. Any thread may drop the values.
///
/// An `Arena` is a [`SharedArena`](crate::SharedArena) that is not `Sync`, and is equally fast. It
/// may be sent to another thread, but its pages stay with the threads that claimed from them.
///
/// # Examples
///
/// ```
/// use shared_arena::Arena;
///
/// let arena = Arena::with_capacity(1_000);
/// assert_eq!(arena.stats(), (0, 1_008));
/// let value = arena.alloc(5);
/// std::thread::spawn(move || drop(value)).join().unwrap();
/// assert_eq!(arena.stats(), (0, 1_008));
/// ```
///
/// ```compile_fail,E0277
/// # use shared_arena::Arena;
/// fn sync<T: Sync>() {}
/// sync::<Arena<u8>>();
/// ```
pub struct Arena<T> {
    core: ArenaCore<T>,
    not_sync: PhantomData<Cell<()>>,
}

impl<T> Arena<T> {
    fn create(settings: ArenaSettings) -> Result<Self, Refused> {
        Ok(Self { core: ArenaCore::create(settings)?, not_sync: PhantomData })
    }
}

arena_methods!(Arena, ArenaBox);
sendable_methods!(Arena);
