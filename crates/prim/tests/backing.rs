//! Tests the newtypes around backing allocators that implement another `Allocator` trait: each
//! method forwards to the method of the same name, and the blocks are usable.
#![cfg_attr(all(feature = "nightly", feature = "alloc", not(ephemera_std_allocator)), feature(allocator_api))]
#![cfg(all(
    feature = "alloc",
    any(feature = "allocator-api2-04", feature = "nightly", ephemera_std_allocator)
))]

use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr::NonNull;

use ephemera_prim::traits::{AllocError, Allocator};

/// The largest size and alignment that a `Recording` serves.
const MOST: usize = 1 << 16;

/// Declares an allocator over the global heap. The allocator implements one trait and records the
/// names of the called methods.
macro_rules! recording_heap {
    ($module:ident, $($api:ident)::+) => {
        mod $module {
            use super::*;
            use $($api)::+::{AllocError, Allocator};
            use allocator_api2::alloc::{Allocator as Heap, Global};

            #[derive(Debug, Default)]
            pub(super) struct Recording {
                pub(super) calls: RefCell<Vec<&'static str>>,
            }

            impl Recording {
                fn note(&self, call: &'static str, layout: Layout) -> Result<(), AllocError> {
                    self.calls.borrow_mut().push(call);
                    if layout.size().max(layout.align()) > MOST { Err(AllocError) } else { Ok(()) }
                }
            }

            // SAFETY: every method forwards to the global heap, which all values share.
            unsafe impl Allocator for Recording {
                fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    self.note("allocate", layout)?;
                    Heap::allocate(&Global, layout).map_err(|_| AllocError)
                }

                fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                    self.note("allocate_zeroed", layout)?;
                    Heap::allocate_zeroed(&Global, layout).map_err(|_| AllocError)
                }

                unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                    self.calls.borrow_mut().push("deallocate");
                    // SAFETY: the caller upholds the same contract.
                    unsafe { Heap::deallocate(&Global, block, layout) }
                }

                unsafe fn grow(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    self.note("grow", new)?;
                    // SAFETY: the caller upholds the same contract.
                    unsafe { Heap::grow(&Global, block, old, new) }.map_err(|_| AllocError)
                }

                unsafe fn grow_zeroed(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    self.note("grow_zeroed", new)?;
                    // SAFETY: the caller upholds the same contract.
                    unsafe { Heap::grow_zeroed(&Global, block, old, new) }.map_err(|_| AllocError)
                }

                unsafe fn shrink(
                    &self,
                    block: NonNull<u8>,
                    old: Layout,
                    new: Layout,
                ) -> Result<NonNull<[u8]>, AllocError> {
                    self.note("shrink", new)?;
                    // SAFETY: the caller upholds the same contract.
                    unsafe { Heap::shrink(&Global, block, old, new) }.map_err(|_| AllocError)
                }
            }
        }
    };
}

/// Calls all six methods, and checks the bytes of the blocks.
fn call_all_methods(allocator: &impl Allocator) {
    let bytes = |size| Layout::from_size_align(size, 8).expect("a small layout");
    let byte = |block: NonNull<[u8]>, at: usize| {
        // SAFETY: every use below passes an offset inside the block.
        unsafe { block.cast::<u8>().add(at) }
    };
    let read = |block: NonNull<[u8]>, at: usize| {
        // SAFETY: every use below reads a byte that was written or zeroed.
        unsafe { byte(block, at).read() }
    };
    let write = |block: NonNull<[u8]>, at: usize, value: u8| {
        // SAFETY: the block is live, and only this test uses it.
        unsafe { byte(block, at).write(value) }
    };

    let block = allocator.allocate(bytes(8)).expect("8 bytes");
    (0..8).for_each(|at| write(block, at, 7));
    // SAFETY: `block` is live and has 8 bytes.
    let block = unsafe { allocator.grow(block.cast(), bytes(8), bytes(64)) }.expect("64 bytes");
    assert!((0..8).all(|at| read(block, at) == 7));
    (8..64).for_each(|at| write(block, at, 9));
    // SAFETY: `block` is live and has 64 bytes.
    let block = unsafe { allocator.grow_zeroed(block.cast(), bytes(64), bytes(256)) }.expect("256 bytes");
    assert!((0..8).all(|at| read(block, at) == 7));
    assert!((8..64).all(|at| read(block, at) == 9));
    assert!((64..256).all(|at| read(block, at) == 0));
    // SAFETY: `block` is live and has 256 bytes.
    let block = unsafe { allocator.shrink(block.cast(), bytes(256), bytes(16)) }.expect("16 bytes");
    assert!((0..8).all(|at| read(block, at) == 7));
    assert!((8..16).all(|at| read(block, at) == 9));
    // SAFETY: `block` is live and has 16 bytes.
    unsafe { allocator.deallocate(block.cast(), bytes(16)) };

    let zeroed = allocator.allocate_zeroed(bytes(48)).expect("48 bytes");
    assert!((0..48).all(|at| read(zeroed, at) == 0));
    // SAFETY: `zeroed` is live and has 48 bytes.
    unsafe { allocator.deallocate(zeroed.cast(), bytes(48)) };
}

/// The calls that [`call_all_methods`] makes.
const CALLS: [&str; 7] =
    ["allocate", "grow", "grow_zeroed", "shrink", "deallocate", "allocate_zeroed", "deallocate"];

/// Checks that a newtype returns the refusals of its inner allocator. Calls each fallible method
/// with a layout that a `Recording` refuses.
fn check_refusals(allocator: &impl Allocator) {
    let small = Layout::new::<u64>();
    let large = Layout::from_size_align(MOST + 1, 8).expect("a small layout");
    let block = allocator.allocate(small).expect("8 bytes").cast::<u8>();
    assert_eq!(allocator.allocate(large), Err(AllocError));
    assert_eq!(allocator.allocate_zeroed(large), Err(AllocError));
    // SAFETY: `block` is live with layout `small`.
    assert_eq!(unsafe { allocator.grow(block, small, large) }, Err(AllocError));
    // SAFETY: `block` is still live with layout `small`, because growing failed.
    assert_eq!(unsafe { allocator.grow_zeroed(block, small, large) }, Err(AllocError));
    let odd = Layout::from_size_align(1, 2 * MOST).expect("a valid layout");
    // SAFETY: `block` is still live with layout `small`, because growing failed, and `odd` is no
    // larger.
    assert_eq!(unsafe { allocator.shrink(block, small, odd) }, Err(AllocError));
    // SAFETY: `block` is still live with layout `small`, because shrinking failed.
    unsafe { allocator.deallocate(block, small) };
}

#[cfg(feature = "allocator-api2-04")]
mod api04 {
    use super::*;
    use ephemera_prim::backing::Api04;

    recording_heap!(heap, allocator_api2_04::alloc);

    #[test]
    fn every_method_forwards_to_its_namesake() {
        let backing = Api04(heap::Recording::default());
        call_all_methods(&backing);
        assert_eq!(*backing.0.calls.borrow(), CALLS);
    }

    #[test]
    fn errors_of_every_method_are_returned() {
        check_refusals(&Api04(heap::Recording::default()));
    }

    #[test]
    fn newtype_has_the_size_of_the_wrapped_type_and_is_copied_with_it() {
        assert_eq!(size_of::<Api04<u16>>(), size_of::<u16>());
        let recording = heap::Recording::default();
        let backing = Api04(&recording);
        let copy = backing;
        call_all_methods(&backing);
        call_all_methods(&copy);
        assert_eq!(recording.calls.borrow().len(), 2 * CALLS.len());
    }
}

#[cfg(any(feature = "nightly", ephemera_std_allocator))]
#[cfg_attr(
    ephemera_std_allocator,
    expect(clippy::incompatible_msrv, reason = "compiled only where the build script saw the trait compile")
)]
mod standard {
    extern crate alloc;

    use super::*;
    use alloc::rc::Rc;
    use alloc::sync::Arc;
    use ephemera_prim::backing::Std;

    recording_heap!(heap, core::alloc);

    #[test]
    fn every_method_forwards_to_its_namesake() {
        let backing = Std(heap::Recording::default());
        call_all_methods(&backing);
        assert_eq!(*backing.0.calls.borrow(), CALLS);
    }

    #[test]
    fn errors_of_every_method_are_returned() {
        check_refusals(&Std(heap::Recording::default()));
    }

    #[test]
    fn clone_frees_the_blocks_of_the_original() {
        fn across_clones<A: Allocator + Clone>(allocator: A) {
            let layout = Layout::new::<u64>();
            let block = allocator.allocate(layout).expect("8 bytes");
            let clone = allocator.clone();
            drop(allocator);
            // SAFETY: the newtype is `Clone` only around types whose clones are equivalent
            // allocators.
            unsafe { clone.deallocate(block.cast(), layout) };
        }
        across_clones(Std(alloc::alloc::Global));
        #[cfg(feature = "std")]
        across_clones(Std(std::alloc::System));
        let recording = heap::Recording::default();
        across_clones(Std(&recording));
        assert_eq!(*recording.calls.borrow(), ["allocate", "deallocate"]);
        let shared = Rc::new(heap::Recording::default());
        across_clones(Std(Rc::clone(&shared)));
        assert_eq!(*shared.calls.borrow(), ["allocate", "deallocate"]);
        across_clones(Std(Arc::new(alloc::alloc::Global)));
    }

    #[test]
    fn newtype_has_the_size_of_the_wrapped_type() {
        assert_eq!(size_of::<Std<u16>>(), size_of::<u16>());
        call_all_methods(&Std(alloc::alloc::Global));
    }
}
