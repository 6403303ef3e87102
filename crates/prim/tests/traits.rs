//! Tests that `impl_allocator!` implements each trait with the type's inherent methods.
#![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]

use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use ephemera_prim::impl_allocator;
use ephemera_prim::traits::AllocError;

/// The allocator method that was last called, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    Nothing,
    Allocate,
    AllocateZeroed,
    Deallocate,
    Grow,
    GrowZeroed,
    Shrink,
}

/// An allocator that serves only empty blocks, and records the last call with its layouts.
#[derive(Debug)]
struct Recorder<'a, T> {
    last: Cell<(Called, Layout, Layout)>,
    refuse: Cell<bool>,
    marker: PhantomData<&'a T>,
}

const NONE: Layout = Layout::new::<()>();

impl<T> Recorder<'_, T> {
    fn new() -> Self {
        let last = Cell::new((Called::Nothing, NONE, NONE));
        Self { last, refuse: Cell::new(false), marker: PhantomData }
    }

    fn note(&self, called: Called, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.last.set((called, old, new));
        if self.refuse.get() {
            return Err(AllocError);
        }
        Ok(NonNull::slice_from_raw_parts(an_empty_block(), 0))
    }

    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.note(Called::Allocate, NONE, layout)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.note(Called::AllocateZeroed, NONE, layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        assert_eq!(block, an_empty_block());
        self.last.set((Called::Deallocate, layout, NONE));
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        assert_eq!(block, an_empty_block());
        self.note(Called::Grow, old, new)
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        assert_eq!(block, an_empty_block());
        self.note(Called::GrowZeroed, old, new)
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        assert_eq!(block, an_empty_block());
        self.note(Called::Shrink, old, new)
    }
}

/// Returns the one block that a `Recorder` serves.
fn an_empty_block() -> NonNull<u8> {
    NonNull::<u64>::dangling().cast()
}

// SAFETY: this breaks the contract, because all blocks are empty, but nothing reads or writes them.
// Their address is a multiple of every alignment that the tests request.
impl_allocator!(unsafe impl['a, T: Copy] for Recorder<'a, T> where T: Send + 'a);

/// A type without generics or bounds, which refuses every request.
#[derive(Clone, Copy, Debug)]
struct Refusing;

impl Refusing {
    fn allocate(&self, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    fn allocate_zeroed(&self, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}

    unsafe fn grow(&self, _: NonNull<u8>, _: Layout, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn grow_zeroed(&self, _: NonNull<u8>, _: Layout, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn shrink(&self, _: NonNull<u8>, _: Layout, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }
}

// SAFETY: the type never hands out a block.
impl_allocator!(unsafe impl[] for Refusing);

/// Calls all six methods of one trait. Checks which inherent method ran, and that refusals are
/// returned.
macro_rules! test_all_methods {
    ($name:ident, $($allocator:ident)::+, $($error:ident)::+) => {
        #[test]
        fn $name() {
            use $($allocator)::+ as Subject;

            let small = Layout::new::<[u16; 4]>();
            let large = Layout::new::<[u16; 32]>();
            let recorder = Recorder::<u8>::new();

            let block = Subject::allocate(&recorder, small).expect("not refusing").cast::<u8>();
            assert_eq!(recorder.last.get(), (Called::Allocate, NONE, small));
            Subject::allocate_zeroed(&recorder, large).expect("not refusing");
            assert_eq!(recorder.last.get(), (Called::AllocateZeroed, NONE, large));
            // SAFETY: the block is empty, and the recorder accesses no block.
            unsafe { Subject::grow(&recorder, block, small, large) }.expect("not refusing");
            assert_eq!(recorder.last.get(), (Called::Grow, small, large));
            // SAFETY: the block is empty, and the recorder accesses no block.
            unsafe { Subject::grow_zeroed(&recorder, block, small, large) }.expect("not refusing");
            assert_eq!(recorder.last.get(), (Called::GrowZeroed, small, large));
            // SAFETY: the block is empty, and the recorder accesses no block.
            unsafe { Subject::shrink(&recorder, block, large, small) }.expect("not refusing");
            assert_eq!(recorder.last.get(), (Called::Shrink, large, small));
            // SAFETY: the block is empty, and the recorder accesses no block.
            unsafe { Subject::deallocate(&recorder, block, small) };
            assert_eq!(recorder.last.get(), (Called::Deallocate, small, NONE));

            recorder.refuse.set(true);
            assert_eq!(Subject::allocate(&recorder, small), Err($($error)::+));
            assert_eq!(Subject::allocate_zeroed(&recorder, small), Err($($error)::+));
            // SAFETY: the block is empty, and the recorder accesses no block.
            assert_eq!(unsafe { Subject::grow(&recorder, block, small, large) }, Err($($error)::+));
            // SAFETY: the block is empty, and the recorder accesses no block.
            assert_eq!(unsafe { Subject::grow_zeroed(&recorder, block, small, large) }, Err($($error)::+));
            // SAFETY: the block is empty, and the recorder accesses no block.
            assert_eq!(unsafe { Subject::shrink(&recorder, block, large, small) }, Err($($error)::+));
            assert_eq!(Subject::allocate(&Refusing, small), Err($($error)::+));
        }
    };
}

test_all_methods!(
    allocator_api2_02_reaches_each_method,
    allocator_api2::alloc::Allocator,
    allocator_api2::alloc::AllocError
);

#[cfg(feature = "allocator-api2-04")]
test_all_methods!(
    allocator_api2_04_reaches_each_method,
    allocator_api2_04::alloc::Allocator,
    allocator_api2_04::alloc::AllocError
);

// With feature `nightly`, this is the trait that is implemented under allocator-api2's name.
#[cfg(ephemera_std_allocator)]
test_all_methods!(the_standard_trait_reaches_each_method, core::alloc::Allocator, core::alloc::AllocError);

/// A container of the standard library accepts the type.
#[cfg(all(ephemera_std_allocator, feature = "std"))]
#[test]
fn standard_vec_accepts_the_allocator() {
    let mut refused: Vec<u32, Refusing> = Vec::new_in(Refusing);
    assert!(refused.try_reserve(1).is_err());
    assert!(refused.is_empty());
}
