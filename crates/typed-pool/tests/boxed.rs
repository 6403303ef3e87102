//! Tests of `PooledBox`: values of every size, pools of tags, trait objects, pinning, limits and
//! panics.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::Future;
use core::hash::{BuildHasher, Hash, Hasher};
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::HashSet;
use std::hash::RandomState;
use std::panic::{catch_unwind, resume_unwind};

use typed_pool::{AnyPool, PooledBox, pooled, unsize};

#[test]
fn a_box_owns_its_value() {
    struct Counted(Rc<Cell<u32>>, u32);
    pooled!(Counted);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    let mut boxed = PooledBox::new(Counted(drops.clone(), 1));
    boxed.1 += 1;
    assert_eq!((boxed.1, PooledBox::<Counted>::stats().slots_live), (2, 1));
    let raw = PooledBox::into_raw(boxed);
    // SAFETY: the pointer was just made from a box.
    let boxed: PooledBox<Counted> = unsafe { PooledBox::from_raw(raw) };
    assert_eq!((PooledBox::as_ptr(&boxed), drops.get()), (raw.as_ptr().cast_const(), 0));
    let value = PooledBox::into_inner(boxed);
    assert_eq!((value.1, drops.get(), PooledBox::<Counted>::stats().slots_live), (2, 0, 0));
    drop(value);
    drop(PooledBox::new_with(|| Counted(drops.clone(), 3)));
    assert_eq!(drops.get(), 2);
    let leaked = PooledBox::leak(PooledBox::new(Counted(drops.clone(), 4)));
    leaked.1 += 1;
    // SAFETY: the value is leaked from a box of this type, and nothing else uses it.
    drop(unsafe { PooledBox::<Counted>::from_raw(leaked.into()) });
    assert_eq!((drops.get(), PooledBox::<Counted>::stats().slots_live), (3, 0));
    PooledBox::<Counted>::trim();
    assert_eq!(PooledBox::<Counted>::stats().bytes_held, 0);
}

#[test]
fn tags_name_separate_pools() {
    pooled!(struct Names: String);
    pooled!(pub(crate) struct Words: String, chunk_len = 5);
    let name: PooledBox<String, Names> = PooledBox::new_in("Ada".into(), Names);
    let words: Vec<_> = (0..7).map(|number| PooledBox::new_in(format!("{number}"), Words)).collect();
    assert_eq!((Names.stats().slots_live, Words.stats().slots_live, Words.stats().slots), (1, 7, 10));
    let upper = PooledBox::new_with_in(|| name.to_uppercase(), Names);
    assert_eq!((upper.as_str(), words[6].as_str()), ("ADA", "6"));
    drop((words, name, upper));
    Words.trim_all();
    Names.trim();
    assert_eq!((Names.stats().bytes_held, Words.stats().bytes_held), (0, 0));
    Words.set_limit(0);
    let refused = PooledBox::try_new_in(String::from("back"), Words).expect_err("the limit is 0");
    assert_eq!(refused.into_value(), "back");
    let refused = PooledBox::try_new_with_in(|| String::from("late"), Words).expect_err("the same limit");
    Words.set_limit(usize::MAX);
    let late = PooledBox::try_new_with_in(refused.into_value(), Words).expect("no limit");
    assert_eq!(late.as_str(), "late");
    assert_eq!(**PooledBox::pin_in(String::from("stays"), Words), *"stays");
}

#[test]
fn values_of_every_size_are_boxed() {
    macro_rules! sizes {
        ($($size:literal aligned to $align:literal),*) => {
            $({
                #[derive(Clone, PartialEq, Debug)]
                #[repr(align($align))]
                struct Sized([u8; $size]);
                pooled!(Sized, chunk_len = 3);
                let boxes: Vec<PooledBox<Sized>> = (0..8).map(|byte| PooledBox::new(Sized([byte; $size]))).collect();
                for (byte, boxed) in boxes.iter().enumerate() {
                    assert_eq!(PooledBox::as_ptr(boxed).addr() & ($align - 1), 0);
                    assert_eq!(boxed.0, [byte as u8; $size]);
                }
                let live = if $size == 0 { 0 } else { 8 };
                assert_eq!(PooledBox::<Sized>::stats().live(), live);
                assert_eq!(boxes.clone(), boxes);
                let erased: Vec<PooledBox<Sized, AnyPool>> = boxes.into_iter().map(PooledBox::erase).collect();
                assert_eq!(erased[7].0, [7; $size]);
                drop(erased);
                PooledBox::<Sized>::trim();
                assert_eq!((PooledBox::<Sized>::stats().live(), PooledBox::<Sized>::stats().bytes_held), (0, 0));
            })*
        };
    }
    sizes!(
        0 aligned to 1, 0 aligned to 64, 1 aligned to 1, 5 aligned to 1, 7 aligned to 2, 8 aligned to 8, 9 aligned to 16,
        100 aligned to 32, 512 aligned to 8, 520 aligned to 256, 1500 aligned to 4, 4096 aligned to 4096, 32768 aligned to 1,
        32769 aligned to 1, 40000 aligned to 64, 10 aligned to 8192
    );
}

#[test]
fn trait_objects_and_slices_find_their_pools() {
    trait Speaks {
        fn speak(&self) -> String;
    }
    struct Small(u8);
    struct Wide([u64; 40], Rc<Cell<u32>>);
    struct Nothing;
    struct Huge([u8; 50_000]);
    impl Speaks for Small {
        fn speak(&self) -> String {
            format!("small {}", self.0)
        }
    }
    impl Speaks for Wide {
        fn speak(&self) -> String {
            format!("wide {}", self.0[39])
        }
    }
    impl Drop for Wide {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
        }
    }
    impl Speaks for Nothing {
        fn speak(&self) -> String {
            "nothing".into()
        }
    }
    impl Speaks for Huge {
        fn speak(&self) -> String {
            format!("huge {}", self.0[49_999])
        }
    }
    pooled!(Small);
    pooled!(Wide);
    pooled!(Nothing);
    pooled!(Huge);
    pooled!(struct Rows: [u32; 6]);
    let drops = Rc::new(Cell::new(0));
    let mut all: Vec<PooledBox<dyn Speaks, AnyPool>> = Vec::new();
    for number in 0..100 {
        all.push(unsize!(PooledBox::new(Small(number)) => dyn Speaks));
        all.push(unsize!(PooledBox::new(Wide([u64::from(number); 40], drops.clone())) => dyn Speaks));
    }
    all.push(unsize!(PooledBox::new(Nothing) => dyn Speaks));
    all.push(unsize!(PooledBox::new(Huge([3; 50_000])) => dyn Speaks));
    assert_eq!((all[3].speak(), all[198].speak()), ("wide 1".into(), "small 99".into()));
    assert_eq!((all[200].speak(), all[201].speak()), ("nothing".into(), "huge 3".into()));
    assert_eq!((PooledBox::<Small>::stats().slots_live, PooledBox::<Wide>::stats().slots_live), (100, 100));
    assert_eq!(PooledBox::<Huge>::stats().bytes_held, 0, "the erased box is on no account");
    drop(all);
    assert_eq!((PooledBox::<Small>::stats().slots_live, PooledBox::<Wide>::stats().slots_live), (0, 0));
    assert_eq!(drops.get(), 100);
    let mut slice: PooledBox<[u32], AnyPool> = unsize!(PooledBox::new_in([3, 1, 2, 6, 5, 4], Rows) => [u32]);
    slice.sort_unstable();
    assert_eq!(*slice, [1, 2, 3, 4, 5, 6]);
    drop(slice);
    assert_eq!(Rows.stats().slots_live, 0);
}

#[test]
fn initialisers_and_destructors_that_panic_lose_no_slot() {
    struct Bomb(u32);
    pooled!(Bomb);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 != 0 {
                resume_unwind(alloc::boxed::Box::new(self.0));
            }
        }
    }
    let live = || PooledBox::<Bomb>::stats().slots_live;
    let caught =
        catch_unwind(|| drop(PooledBox::<Bomb>::new_with(|| resume_unwind(alloc::boxed::Box::new(1_u32)))));
    assert_eq!((caught.expect_err("it panics").downcast_ref(), live()), (Some(&1_u32), 0));
    let boxed = PooledBox::new(Bomb(2));
    let caught = catch_unwind(AssertUnwindSafe(|| drop(boxed)));
    assert_eq!((caught.expect_err("it panics").downcast_ref(), live()), (Some(&2_u32), 0));
    let erased = PooledBox::erase(PooledBox::new(Bomb(3)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(erased))).is_err());
    assert_eq!(live(), 0);
    // A `TypedPool` does not lose a slot either.
    let pool = typed_pool::TypedPool::new();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool.alloc(Bomb(4))))).is_err());
    assert!(
        catch_unwind(AssertUnwindSafe(|| drop(pool.alloc_with(|| resume_unwind(alloc::boxed::Box::new(5))))))
            .is_err()
    );
    assert_eq!(pool.len(), 0);
    drop(pool.alloc(Bomb(0)));
    // A clone that panics does not lose a slot.
    struct Sticky(Cell<bool>);
    pooled!(Sticky);
    impl Clone for Sticky {
        fn clone(&self) -> Self {
            assert!(!self.0.get(), "must not be cloned");
            Self(Cell::new(true))
        }
    }
    let first = PooledBox::new(Sticky(Cell::new(false)));
    let second = first.clone();
    std::panic::set_hook(alloc::boxed::Box::new(|_| {}));
    assert!(catch_unwind(AssertUnwindSafe(|| second.clone())).is_err());
    let _ = std::panic::take_hook();
    assert_eq!(PooledBox::<Sticky>::stats().slots_live, 2);
}

#[test]
fn destructors_may_use_their_pool() {
    struct Chain(u32, Option<PooledBox<Chain>>);
    pooled!(Chain, chunk_len = 4);
    impl Drop for Chain {
        fn drop(&mut self) {
            // This destructor makes and drops a value, and trims, while a box is dropped.
            if self.0 > 0 {
                let fresh = PooledBox::new(Chain(0, None));
                PooledBox::<Chain>::trim();
                assert_eq!(fresh.0, 0);
            }
            self.1 = None;
        }
    }
    let mut chain = None;
    for number in 0..50 {
        chain = Some(PooledBox::new(Chain(number, chain)));
    }
    drop(chain);
    PooledBox::<Chain>::trim();
    let stats = PooledBox::<Chain>::stats();
    assert_eq!((stats.slots_live, stats.bytes_held), (0, 0));
}

#[test]
fn pinned_values_do_not_move() {
    struct Stays(core::marker::PhantomPinned, usize);
    pooled!(Stays);
    let pinned: Pin<PooledBox<Stays>> = PooledBox::pin(Stays(core::marker::PhantomPinned, 4));
    let at = (&raw const *pinned).addr();
    let moved = alloc::boxed::Box::new(pinned);
    assert_eq!(((&raw const **moved).addr(), moved.1), (at, 4));
    let boxed = PooledBox::new(Stays(core::marker::PhantomPinned, 5));
    assert_eq!(Pin::from(boxed).1, 5);

    struct Ready(u8);
    pooled!(Ready);
    impl Future for Ready {
        type Output = u8;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
            self.0 -= 1;
            if self.0 == 0 { Poll::Ready(7) } else { Poll::Pending }
        }
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut future = PooledBox::new(Ready(2));
    assert_eq!(Pin::new(&mut future).poll(&mut context), Poll::Pending);
    assert_eq!(Pin::new(&mut future).poll(&mut context), Poll::Ready(7));
}

#[test]
fn boxes_forward_the_traits_of_their_values() {
    pooled!(struct Number: u32);
    pooled!(struct Range: core::ops::Range<u32>);
    pooled!(struct Hash: std::hash::DefaultHasher);
    pooled!(struct Parse: core::num::ParseIntError);
    let number = |value| PooledBox::new_in(value, Number);
    let (one, mut two) = (number(1), number(2));
    assert!(one < two && one != two && one == number(1) && one.cmp(&two).is_lt());
    assert_eq!(format!("{one} {two:?}"), "1 2");
    assert_eq!(format!("{one:p}"), format!("{:p}", PooledBox::as_ptr(&one)));
    *two.as_mut() += *one.as_ref();
    two.clone_from(&number(9));
    let (state, borrowed): (RandomState, &u32) = (RandomState::new(), core::borrow::Borrow::borrow(&two));
    assert_eq!((state.hash_one(&two), *borrowed), (state.hash_one(9_u32), 9));
    assert!(HashSet::from([number(4)]).contains(&4) && BTreeSet::from([number(4)]).contains(&4));
    assert_eq!(*PooledBox::<u32, Number>::default(), 0);
    assert_eq!(*PooledBox::<u32, Number>::from(6), 6);
    let mut range = PooledBox::new_in(0..10, Range);
    assert_eq!(
        (range.len(), range.next_back(), range.nth(2), range.nth_back(1)),
        (10, Some(9), Some(2), Some(7))
    );
    assert_eq!((range.size_hint(), range.sum::<u32>()), ((4, Some(4)), 18));
    let mut hasher = PooledBox::new_in(std::hash::DefaultHasher::new(), Hash);
    5_u32.hash(&mut hasher);
    assert_ne!(hasher.finish(), 0);
    let error = PooledBox::new_in("x".parse::<i32>().expect_err("no number"), Parse);
    let error: &dyn core::error::Error = &error;
    assert!(error.source().is_none() && !format!("{error}").is_empty());
}

#[test]
fn a_box_is_one_pointer_wide() {
    pooled!(struct Number: u32);
    assert_eq!(size_of::<PooledBox<u32, Number>>(), size_of::<*const u32>());
    assert_eq!(size_of::<Option<PooledBox<u32, Number>>>(), size_of::<*const u32>());
    assert_eq!(size_of::<PooledBox<[u32], AnyPool>>(), 2 * size_of::<*const u32>());
}

#[test]
fn a_limit_applies_to_one_type() {
    #[derive(Debug)]
    struct Few([u64; 4]);
    struct Other([u64; 4]);
    pooled!(Few, chunk_len = 10);
    pooled!(Other);
    PooledBox::<Few>::set_limit(1_000);
    let kept: Vec<_> = core::iter::from_fn(|| PooledBox::try_new(Few([1; 4])).ok()).collect();
    let refused = PooledBox::try_new(Few([2; 4])).expect_err("all slots are live");
    assert_eq!((kept.len(), refused.layout().size(), refused.into_value().0), (20, 32, [2; 4]));
    assert_eq!(PooledBox::new(Other([3; 4])).0, [3; 4]);
    assert!(PooledBox::<Few>::stats().bytes_held <= 1_000);
    drop(kept);
    assert_eq!(PooledBox::new(Few([4; 4])).0, [4; 4]);
}

#[test]
fn a_pinned_value_may_use_references_into_itself_when_it_is_dropped() {
    struct Guard(&'static mut u64);
    impl Drop for Guard {
        fn drop(&mut self) {
            *self.0 += 1;
        }
    }
    struct SelfRef {
        guard: Option<Guard>,
        value: u64,
        _pinned: core::marker::PhantomPinned,
    }
    pooled!(SelfRef);
    let mut pinned = PooledBox::pin(SelfRef { guard: None, value: 1, _pinned: core::marker::PhantomPinned });
    // SAFETY: the value is not moved.
    let this = unsafe { pinned.as_mut().get_unchecked_mut() };
    let value = &raw mut this.value;
    // SAFETY: the guard is dropped before the field, and nothing else uses the field until then.
    let guard = Guard(unsafe { &mut *value });
    *guard.0 += 1;
    this.guard = Some(guard);
    drop(pinned);
    assert_eq!(PooledBox::<SelfRef>::stats().live(), 0);
}

/// A type whose array length is computed below from statics that have the names of the macro's own
/// items.
struct Sized<const N: usize>([u8; N]);

mod small {
    typed_pool::pooled!(super::Sized<88>);
}

static FAMILY: [u64; 100] = [0; 100];
static CELL: [u64; 100] = [0; 100];
pooled!(Sized<{ size_of_val(&FAMILY) + size_of_val(&CELL) }>);

#[test]
fn names_in_a_type_resolve_outside_the_macro() {
    let first = PooledBox::new(Sized([1; 1600]));
    let second = PooledBox::new(Sized([2; 1600]));
    assert!(first.0.iter().all(|&byte| byte == 1) && second.0.iter().all(|&byte| byte == 2));
    assert!(first.0.as_ptr().addr().abs_diff(second.0.as_ptr().addr()) >= 1600);
    assert_eq!(PooledBox::<Sized<88>>::stats().live(), 0);
}

#[test]
fn a_boxed_hasher_gets_numbers_as_numbers() {
    struct Numbers(u64);
    impl Hasher for Numbers {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, _: &[u8]) {
            self.0 += 1_000;
        }
        fn write_u32(&mut self, number: u32) {
            self.0 += u64::from(number);
        }
    }
    pooled!(Numbers);
    let mut hasher = PooledBox::new(Numbers(0));
    7_u32.hash(&mut hasher);
    assert_eq!(hasher.finish(), 7);
}
