//! Tests of threads whose frees select their list without a branch.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::vec::Vec as PoolVec;
use ephemera_prim::raw::header_of;
use ephemera_testkit::suite::take_turn;

use super::owner::{HeapOwner, apply_selection};
use super::this_thread;
use crate::alloc::class_of;
use crate::heap::PoolEnv;
use crate::heap::fast::give_known;
use crate::heap::selection::RecentFrees;
use crate::pooled_allocator;
use crate::unit::{Unit, UnitPtr};

pooled_allocator! {
    struct SelectingPool;
}

/// The numbers of words in the values of two classes.
const WORDS: [usize; 2] = [64, 96];
/// The number of values: enough for several units of each class.
const VALUES: usize = if cfg!(miri) { 300 } else { 4_000 };
const ROUNDS: usize = if cfg!(miri) { 600 } else { 200_000 };
/// The minimum number of rounds that end with a hidden front. Under Miri the number is lower,
/// because few values are in few units.
const HIDDEN: usize = ROUNDS / if cfg!(miri) { 20 } else { 4 };

/// The number of words in the largest block that has a slot.
const LARGEST: usize = (32 << 10) / size_of::<usize>();

type Value = PoolVec<usize, SelectingPool>;

fn value(number: usize) -> Value {
    // The classes of consecutive numbers do not simply alternate.
    let words = WORDS[number * 31 / 7 % WORDS.len()];
    let mut value = PoolVec::with_capacity_in(words, SelectingPool);
    value.resize(16, number);
    value
}

/// Drops a value after a check of its content.
fn check_and_drop(value: Value) {
    assert!(value.iter().all(|&word| word == value[0]), "{value:?}");
    drop(value);
}

/// Returns whether this thread's frees select.
fn selects() -> bool {
    this_thread::record().expect("the thread has a record").data().selection.selects()
}

/// Returns the owner of this thread's heap for values of `words` words.
fn owner_of(words: usize) -> HeapOwner<'static> {
    let class = class_of(Layout::array::<usize>(words).expect("a layout")).expect("a class");
    // SAFETY: T2: the thread may use these heaps, and the family has a heap for each class.
    unsafe { SelectingPool::__cell().heaps().owner(class) }
}

/// Notes events until this thread's frees select.
fn start_selecting() {
    drop(value(0));
    if !selects() {
        // Forget the pause after earlier trials.
        this_thread::record().expect("the thread has a record").data().selection.reset();
    }
    (0..1_000).take_while(|_| !selects()).for_each(|_| owner_of(WORDS[0]).note_frees(RecentFrees::Mixed));
    assert!(selects());
}

/// Returns how many of the two heaps hide their front.
fn hidden_fronts() -> usize {
    WORDS.iter().filter(|words| owner_of(**words).heap().hides_front()).count()
}

/// Makes values and replaces them in an order that goes to all of their units, by values of either
/// class. Returns the values, and the number of rounds that ended with a hidden front.
fn replaced() -> (Vec<Value>, usize) {
    let mut values: Vec<_> = (0..VALUES).map(value).collect();
    let mut hidden = 0;
    for round in 0..ROUNDS {
        replace(&mut values, round);
        hidden += usize::from(hidden_fronts() != 0);
    }
    (values, hidden)
}

fn replace(values: &mut Vec<Value>, round: usize) {
    let at = round * 67 % values.len();
    check_and_drop(values.swap_remove(at));
    values.push(value(round));
}

#[test]
fn frees_that_go_to_the_fronts_and_to_other_units_select_their_list() {
    take_turn();
    let (values, hidden) = replaced();
    assert!(hidden > HIDDEN, "a front was hidden after {hidden} of {ROUNDS} frees");
    assert_eq!(SelectingPool.stats().slots_live, values.len());
    values.into_iter().for_each(check_and_drop);
    assert_eq!(SelectingPool.stats().slots_live, 0);
    SelectingPool.trim();
    assert_eq!(SelectingPool.stats().bytes_held, 0);
}

#[test]
fn a_thread_whose_frees_all_go_to_fronts_branches_again() {
    take_turn();
    let (values, _) = replaced();
    drop(values);
    SelectingPool.trim();
    for round in 0..ROUNDS {
        check_and_drop(value(round));
    }
    assert!(!selects());
    assert_eq!(hidden_fronts(), 0);
    SelectingPool.trim();
}

#[test]
fn a_thread_whose_fronts_receive_few_frees_each_branches_again() {
    take_turn();
    start_selecting();
    let mut kept = Vec::new();
    // A unit has 7 slots for these blocks, so no front receives the frees of an event.
    for _ in 0..200 {
        kept.push(Value::with_capacity_in(LARGEST, SelectingPool));
        drop(Value::with_capacity_in(LARGEST, SelectingPool));
    }
    assert!(!selects());
    drop(kept);
    SelectingPool.trim();
}

#[test]
fn a_new_thread_branches_although_the_last_holder_of_its_record_selected() {
    take_turn();
    let record_of_thread = |selecting: bool| {
        thread::spawn(move || {
            let value = value(0);
            assert!(!selects());
            if selecting {
                start_selecting();
            }
            drop(value);
            ptr::from_ref(this_thread::record().expect("the thread has a record")).addr()
        })
        .join()
        .expect("no panic")
    };
    let first = record_of_thread(true);
    // The records of ended threads are free, so one of the next threads takes the same record.
    assert!((0..100).any(|_| record_of_thread(false) == first));
}

#[test]
fn a_thread_whose_frees_go_to_one_unit_after_the_other_seldom_selects() {
    take_turn();
    let mut selected = 0;
    let rounds = ROUNDS / VALUES;
    for round in 0..rounds {
        let values: Vec<_> = (0..VALUES).map(|_| value(0)).collect();
        drop(values);
        selected += usize::from(round >= rounds / 2 && selects());
    }
    assert!(selected <= rounds / 8, "the thread selected after {selected} of {} rounds", rounds / 2);
    SelectingPool.trim();
}

/// Makes values of one class and replaces them, until the heap of the class hosts and its front is
/// hidden.
fn hosting_with_hidden_front() -> Vec<Value> {
    let mut values: Vec<_> = (0..VALUES).map(|_| value(0)).collect();
    for round in 0..ROUNDS {
        if !selects() {
            start_selecting();
        }
        let heap = owner_of(WORDS[0]).heap;
        if heap.heap.is_hosting() && heap.heap.hides_front() {
            return values;
        }
        check_and_drop(values.swap_remove(round * 67 % VALUES));
        values.push(value(0));
    }
    panic!("the heap never hosts");
}

#[test]
fn a_heap_that_selects_hosts_although_its_front_has_slots_that_were_never_used() {
    take_turn();
    // No other test uses the heaps of this allocator, so they do not pause.
    pooled_allocator! {
        struct Fresh;
    }
    let block = || PoolVec::<usize, Fresh>::with_capacity_in(WORDS[0], Fresh);
    let class = class_of(Layout::array::<usize>(WORDS[0]).expect("a layout")).expect("a class");
    let mut blocks: Vec<_> = (0..VALUES).map(|_| block()).collect();
    start_selecting();
    // SAFETY: T2: the thread may use these heaps, and the family has a heap for each class.
    let heap = &unsafe { Fresh::__cell().heaps().owner(class) }.heap.heap;
    assert_ne!(heap.free_in_front(), 0);
    let freed = blocks[0].as_ptr();
    drop(blocks.swap_remove(0));
    assert_eq!(heap.guests(), 1);
    blocks.push(block());
    assert_eq!(blocks.last().expect("a block").as_ptr(), freed);
    drop(blocks);
    Fresh.trim();
}

#[test]
fn a_heap_whose_frees_branch_again_closes_without_a_pause() {
    take_turn();
    let mut values = hosting_with_hidden_front();
    let heap = &owner_of(WORDS[0]).heap.heap;
    let data = this_thread::record().expect("the thread has a record").data();
    assert!(data.selection.reset());
    // SAFETY: this thread holds its record.
    unsafe { apply_selection(data) };
    // Allocations without frees miss, because the heap withholds the slots of its front.
    for _ in 0..VALUES {
        if !heap.is_hosting() {
            break;
        }
        values.push(value(0));
    }
    assert!(!heap.is_hosting());
    start_selecting();
    assert!(heap.is_hosting(), "the heap hosts again, because it does not pause");
    values.into_iter().for_each(check_and_drop);
    SelectingPool.trim();
}

#[test]
fn a_slot_that_is_freed_without_its_size_becomes_a_guest() {
    take_turn();
    let mut values = hosting_with_hidden_front();
    let heap = &owner_of(WORDS[0]).heap.heap;
    for round in 0..VALUES {
        // The list is empty after this allocation, unless the heap does not host.
        values.push(value(0));
        let mut value = ManuallyDrop::new(values.swap_remove(round * 67 % VALUES));
        let block = NonNull::new(value.as_mut_ptr().cast::<u8>()).expect("a block");
        // SAFETY: the block is a slot of this heap. Units are aligned to `unit`, start with a
        // `Unit`, and were exposed when they were created. A unit with a live slot is not freed
        // (H4).
        let header = unsafe { header_of::<Unit>(block, heap.spec().unit) };
        // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
        let unit = unsafe { UnitPtr::new(header) };
        // SAFETY: H1: this thread owns the heap and the unit. The block is a live slot with room
        // for a link, and nothing uses it after a call that returns `true`.
        if !unsafe { give_known(heap, unit, block) } {
            drop(ManuallyDrop::into_inner(value));
        }
        if heap.guests() == 1 {
            break;
        }
    }
    assert_eq!(heap.guests(), 1);
    assert_eq!(SelectingPool.stats().slots_live, values.len());
    values.into_iter().for_each(check_and_drop);
    SelectingPool.trim();
}

#[test]
fn slots_of_a_hidden_front_return_to_the_heap_although_it_hosts() {
    take_turn();
    let mut values = hosting_with_hidden_front();
    for left in (0..VALUES).rev() {
        if !selects() {
            start_selecting();
        }
        check_and_drop(values.swap_remove(left * 67 % values.len()));
        assert_eq!(SelectingPool.stats().slots_live, left);
    }
    SelectingPool.trim();
    assert_eq!(SelectingPool.stats().bytes_held, 0);
}

#[test]
fn a_thread_that_replaces_one_value_branches_again() {
    take_turn();
    let mut values = hosting_with_hidden_front();
    let heap = &owner_of(WORDS[0]).heap.heap;
    for round in 0..VALUES {
        check_and_drop(values.swap_remove(round * 67 % VALUES));
        if heap.guests() != 0 {
            break;
        }
        values.push(value(0));
    }
    assert_eq!(heap.guests(), 1);
    // The value takes the slot of the guest, so each of the following frees goes to one unit.
    for _ in 0..ROUNDS {
        check_and_drop(value(0));
    }
    assert!(!selects());
    drop(values);
    SelectingPool.trim();
}

#[test]
fn a_thread_whose_slots_all_find_room_for_a_guest_continues_to_select() {
    take_turn();
    let mut values = hosting_with_hidden_front();
    // Each allocation takes the slot that was freed before, so no `until` of a unit becomes zero.
    for round in 0..ROUNDS {
        // The heap inspects the unit of every eleventh freed slot. With this order of frees,
        // consecutive inspections are of different units.
        let at = round * 41 % VALUES;
        let freed = values[at].as_ptr();
        check_and_drop(values.swap_remove(at));
        values.push(value(0));
        assert!(round < ROUNDS / 2 || values[VALUES - 1].as_ptr() == freed);
    }
    assert!(selects());
    drop(values);
    SelectingPool.trim();
}
