//! Tests of the traits that the rings implement, and of the traits that they must not implement.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

use core::fmt::Debug;
use core::hash::Hash;
use core::panic::{RefUnwindSafe, UnwindSafe};

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::Counting;
use ring_alloc::{Builder, ClassStats, Geometry, OneRingAlloc, RingAlloc, Standard, Stats};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(OneRingAlloc: Send, Sync, Copy, Unpin, UnwindSafe, RefUnwindSafe);
assert_impl_all!(OneRingAlloc: Allocator, Default, Debug, Ord, Hash);
assert_impl_all!(Vec<u8, OneRingAlloc>: Send, Sync);
assert_impl_all!(Box<u8, OneRingAlloc>: Send, Sync, Unpin);

// A ring belongs to one thread, even if its backing allocator is `Sync`.
assert_not_impl_any!(RingAlloc: Send, Sync, Copy);
assert_not_impl_any!(RingAlloc<&'static Counting>: Send, Sync, Copy);
assert_not_impl_any!(RingAlloc<OneRingAlloc>: Send, Sync);
assert_not_impl_any!(&'static RingAlloc: Send);
assert_not_impl_any!(Vec<u8, RingAlloc>: Send, Sync);
assert_impl_all!(RingAlloc: Allocator, Clone, Default, Debug, Eq, Hash, Unpin);
assert_impl_all!(RingAlloc<RingAlloc>: Allocator, Clone);

assert_impl_all!(Stats: Send, Sync, Copy, Debug, Default, Eq);
assert_impl_all!(ClassStats: Send, Sync, Copy, Debug, Default, Eq);
assert_impl_all!(Builder: Send, Sync, Copy, Debug, Default);
assert_impl_all!(Builder<NotCopy>: Send, Sync, Copy, Debug);
assert_impl_all!(Standard: Copy, Debug, Default);

/// A geometry that is not `Copy`.
#[derive(Debug)]
struct NotCopy;

impl Geometry for NotCopy {
    const SMALL_MAX: usize = Standard::SMALL_MAX;
    const SMALL_ALIGN: usize = Standard::SMALL_ALIGN;
    const SMALL_CHUNK: usize = Standard::SMALL_CHUNK;
    const MEDIUM_MAX: usize = Standard::MEDIUM_MAX;
    const MEDIUM_ALIGN: usize = Standard::MEDIUM_ALIGN;
    const MEDIUM_CHUNK: usize = Standard::MEDIUM_CHUNK;
    const RETAIN: usize = Standard::RETAIN;
}

/// Compiles only if a ring is covariant in its backing allocator.
fn shorter<'a>(ring: RingAlloc<&'static Counting<Global>>) -> RingAlloc<&'a Counting<Global>> {
    ring
}

#[test]
fn ring_may_be_the_backing_allocator_of_another_ring() {
    let below = RingAlloc::new();
    let above = RingAlloc::new_in(below.clone());
    assert_eq!(*Box::new_in(3_u8, above.clone()), 3);
    assert!(below.stats().blocks_live() > 0);
    drop(above);
    assert_eq!(below.stats().blocks_live(), 0);
    drop(shorter(RingAlloc::new_in(ephemera_testkit::backing::immortal(Counting::new()))));
}

#[test]
fn trait_object_is_an_allocator() {
    let ring = RingAlloc::new();
    let rings: [&dyn Allocator; 2] = [&ring, &OneRingAlloc];
    for ring in rings {
        let mut numbers = Vec::new_in(ring);
        numbers.extend(0..100);
        assert_eq!(numbers.iter().sum::<i32>(), 4950);
    }
}

/// Tests of the trait of allocator-api2 0.4.
#[cfg(feature = "allocator-api2-04")]
mod api04 {
    use core::alloc::Layout;

    use allocator_api2_04::alloc::Allocator;
    use allocator_api2_04::boxed::Box;
    use allocator_api2_04::vec::Vec;
    use ring_alloc::{OneRingAlloc, RingAlloc};

    /// An example of library code that knows only the newer trait.
    fn words<A: Allocator + Clone>(alloc: A) -> usize {
        let mut words = Vec::new_in(alloc.clone());
        for word in "a b c d".split(' ') {
            words.push(Box::new_in(word, alloc.clone()));
        }
        words.shrink_to_fit();
        words.iter().map(|word| word.len()).sum()
    }

    #[test]
    fn trait_of_allocator_api2_04_is_implemented() {
        let ring = RingAlloc::new();
        assert_eq!(words(ring.clone()) + words(OneRingAlloc), 8);
        assert_eq!(ring.stats().blocks_live(), 0);
        let layout = Layout::new::<[u8; 1 << 20]>();
        let block = Allocator::allocate(&ring, layout).expect("served");
        assert_eq!(block.len(), layout.size());
        // SAFETY: the ring has just served the block for this layout.
        unsafe { Allocator::deallocate(&ring, block.cast(), layout) };
        assert_eq!(ring.stats().blocks_live(), 0);
    }
}
