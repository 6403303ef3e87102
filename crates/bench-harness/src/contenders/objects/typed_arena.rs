//! `typed-arena`: a bump arena for objects of one type, which drops all at once.

use core::fmt;
use core::ptr::NonNull;

use typed_arena::Arena;

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Maker, Object, RawPool};

/// `typed-arena`.
#[derive(Clone, Copy, Debug)]
pub struct TypedArena;

/// An arena of one type.
pub struct Bump<T>(Arena<T>);

impl<T> fmt::Debug for Bump<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bump").finish_non_exhaustive()
    }
}

impl Maker for TypedArena {
    const INFO: Info = Info {
        name: "typed-arena",
        version: env!("EPHEMERA_VERSION_TYPED_ARENA"),
        caps: Caps::ARENA,
        memory: MemoryBy::HighWater,
        notes: "cannot free single objects; a new arena for each batch",
    };
    type Pool<T: Object> = Bump<T>;

    fn make<T: Object>() -> Bump<T> {
        Bump(Arena::new())
    }
}

// SAFETY: an object does not move until the arena is dropped.
unsafe impl<T: Object> RawPool<T> for Bump<T> {
    type Handle = NonNull<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<NonNull<T>> {
        Some(NonNull::from(self.0.alloc(value)))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &NonNull<T>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the object is live.
        look(unsafe { handle.as_ref() })
    }

    #[inline(always)]
    unsafe fn raw_take(&self, _handle: NonNull<T>) {}

    fn reset(&mut self) {
        self.0 = Arena::new();
    }
}
