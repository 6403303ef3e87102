//! The hash set of S2 in C++: `std::unordered_set` over three allocators, called in this process.
//! The set is part of this program if the build found a C++ compiler. Its nodes are linked
//! differently from the nodes of the set in Rust, so compare the three allocators with one another
//! first.

use crate::card::{Caps, ContenderClass, Info};
use crate::contenders::Entry;
use crate::workloads::{Cell, Context, WorkloadSpec};
#[cfg(ephemera_cpp)]
use crate::workloads::{StateCell, Workload};

/// The build script's reason why the C++ set is not part of this program, or `None` if it is.
const ABSENT: Option<&str> = option_env!("EPHEMERA_CPP_ABSENT");

/// Returns the entries of the three allocators.
pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<0>("cpp-new", "C++ new and delete", "std::unordered_set; the same heap as glibc"),
        entry::<1>("cpp-pmr", "C++ pool resource", "std::unordered_set; unsynchronized_pool_resource"),
        entry::<2>("cpp-pool", "C++ textbook pool", "std::unordered_set; chunks of 64, returns no memory"),
    ]
}

fn entry<const ALLOCATOR: i32>(key: &'static str, name: &'static str, notes: &'static str) -> Entry {
    let caps = Caps { any_size: false, ..Caps::LOCAL };
    Entry {
        key,
        class: ContenderClass::Nodes,
        info: Info::new(name, "none", caps, notes),
        absent: ABSENT,
        timed: |spec, context| build(ALLOCATOR, false, spec, context),
        counted: |spec, context| build(ALLOCATOR, true, spec, context),
        replay: None,
    }
}

#[cfg(not(ephemera_cpp))]
fn build(_allocator: i32, _counted: bool, spec: &WorkloadSpec, _context: &Context) -> Box<dyn Cell> {
    panic!("{} cannot be run in C++: {}", spec.id, ABSENT.unwrap_or_default())
}

#[cfg(ephemera_cpp)]
fn build(allocator: i32, counted: bool, spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    let Workload::Set(n, again) = spec.workload else { panic!("{} is not written in C++", spec.id) };
    let keys: Vec<i32> =
        crate::workloads::nodes::set::keys(context.seed, n).iter().map(|&key| key.cast_signed()).collect();
    let set = linked::CppSet::new(allocator, &keys, again, counted);
    StateCell::boxed(keys.len(), set, linked::CppSet::run)
}

/// The bindings to the library that the build script compiled.
#[cfg(ephemera_cpp)]
mod linked {
    use core::ffi::{c_int, c_void};
    use core::ptr::NonNull;

    use crate::tally;

    // SAFETY: these signatures match the functions of `cpp/hash_set.cpp`, which is linked in.
    unsafe extern "C" {
        fn ephemera_set_new(
            allocator: c_int,
            keys: *const c_int,
            n: usize,
            again: bool,
            counted: bool,
        ) -> *mut c_void;
        fn ephemera_set_run(set: *mut c_void, units: u64, allocations: &mut u64) -> u64;
        fn ephemera_set_free(set: *mut c_void);
    }

    pub(super) struct CppSet(NonNull<c_void>);

    impl CppSet {
        pub(super) fn new(allocator: i32, keys: &[i32], again: bool, counted: bool) -> Self {
            // SAFETY: the pointer and the length are those of the slice `keys`, which the call
            // copies before it returns.
            let set = unsafe { ephemera_set_new(allocator, keys.as_ptr(), keys.len(), again, counted) };
            Self(NonNull::new(set).expect("the system has memory for a set"))
        }

        pub(super) fn run(&mut self, units: u64) -> u64 {
            let mut allocations = 0;
            // SAFETY: the set is live, and only this thread uses it and the library's counter.
            let sum = unsafe { ephemera_set_run(self.0.as_ptr(), units, &mut allocations) };
            tally::add_allocations(allocations);
            sum
        }
    }

    impl Drop for CppSet {
        fn drop(&mut self) {
            // SAFETY: the set is live and is not used again.
            unsafe { ephemera_set_free(self.0.as_ptr()) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::contenders::blocks::System;
        use crate::contenders::nodes::NodeHeap;
        use crate::workloads::nodes::{Sources, set};
        use crate::workloads::{Context, blocks::json::Document};

        #[test]
        fn sets_in_both_languages_have_the_same_checksum() {
            let context = Context {
                seed: 3,
                document: Document::generated(3, 100).into(),
                sources: Sources::default().into(),
                second_cpu: None,
            };
            let keys: Vec<i32> = set::keys(3, 500).iter().map(|&key| key.cast_signed()).collect();
            for again in [false, true] {
                let expected = set::cell::<NodeHeap<System>>(500, again, &context).run(3);
                for allocator in 0..3 {
                    assert_eq!(CppSet::new(allocator, &keys, again, false).run(3), expected);
                    assert_eq!(CppSet::new(allocator, &keys, again, true).run(3), expected);
                }
            }
        }
    }
}
