//! Tests of looks at heaps whose owners are idle.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use super::{IdleBy, IdleHeaps, IdleQueue, Mail, Purged, PushedBytes};
use crate::foreign::tests::{Chunk, chunk, free};

struct Heap {
    mail: Mail<Chunk, Heap>,
    pushed: PushedBytes,
}

impl Heap {
    fn new() -> Self {
        Self { mail: Mail::new(), pushed: PushedBytes::new() }
    }
}

/// The operations on heaps whose owners sleep. A look examines all units of the inbox and purges
/// none.
struct Looks {
    queue: IdleQueue<Heap>,
    /// The units in the order in which looks examined them.
    examined: RefCell<Vec<NonNull<Chunk>>>,
    /// The number of calls to `purge_units`.
    rounds: Cell<usize>,
    /// The number of looks at the same heap that start during the next call to `purge_units`.
    nested: Cell<usize>,
}

impl Looks {
    fn new() -> Self {
        Self {
            queue: IdleQueue::new(0),
            examined: RefCell::new(Vec::new()),
            rounds: Cell::new(0),
            nested: Cell::new(0),
        }
    }

    /// Frees a block of a new unit remotely, and returns the unit.
    fn push(&self, heap: &Heap) -> NonNull<Chunk> {
        let unit = chunk();
        // SAFETY: the unit is live, belongs to this inbox and has no blocks.
        assert!(unsafe { heap.mail.inbox.give_back_add(unit, 1) });
        // SAFETY: the heap outlives the queue's use, and `mail` always returns the same mail for
        // it.
        unsafe { self.queue.note_push(self, heap, 1) };
        unit
    }

    fn times(&self, unit: NonNull<Chunk>) -> usize {
        self.examined.borrow().iter().filter(|&&examined| examined == unit).count()
    }
}

impl IdleHeaps for Looks {
    type Heap = Heap;
    type Unit = Chunk;

    fn mail<'h>(&self, heap: &'h Heap) -> &'h Mail<Chunk, Heap> {
        &heap.mail
    }

    fn pushed<'h>(&self, heap: &'h Heap) -> &'h PushedBytes {
        &heap.pushed
    }

    fn visits(&self, _heap: &Heap) -> usize {
        0
    }

    fn is_held(&self, _heap: &Heap) -> bool {
        true
    }

    fn purge_units(&self, heap: &Heap, _by: IdleBy) -> Purged {
        self.rounds.set(self.rounds.get() + 1);
        for _ in 0..self.nested.take() {
            assert_eq!(self.queue.look_at(self, heap), None, "only one thread at a time looks at a heap");
        }
        let mut units = heap.mail.lend();
        while let Some(unit) = units.look() {
            self.examined.borrow_mut().push(unit);
        }
        units.put_back();
        // With `more`, the next look does not wait for the clock.
        Purged { units: 0, more: true, ended: true }
    }

    fn drain_free_record(&self, _heap: &Heap) {}
}

/// Books all remote frees and frees the units.
fn book(heap: &Heap) {
    // SAFETY: no other thread uses the heap.
    for (unit, _) in unsafe { heap.mail.take() } {
        // SAFETY: the unit was yielded, so it is in no inbox.
        unsafe { free(unit) };
    }
}

#[test]
fn seen_units_are_examined_again_while_other_units_are_pushed() {
    let (looks, heaps) = (Looks::new(), [(); 5].map(|()| Heap::new()));
    let unit = looks.push(&heaps[0]);
    heaps[1..].iter().for_each(|heap| _ = looks.push(heap));
    let examined = (0..60).any(|_| {
        looks.push(&heaps[0]);
        looks.queue.look(&looks);
        looks.times(unit) == 3
    });
    assert!(examined, "the unit was examined {} times", looks.times(unit));
    heaps.iter().for_each(book);
}

#[test]
fn looks_by_bytes_examine_seen_units_again_after_a_number_of_looks() {
    let (looks, heap) = (Looks::new(), Heap::new());
    let unit = looks.push(&heap);
    let examined = (0..40).any(|_| {
        assert!(looks.queue.look_at(&looks, &heap).is_some());
        looks.times(unit) == 2
    });
    assert!(examined, "the unit was examined once");
    book(&heap);
}

#[test]
fn a_look_by_time_does_the_work_of_looks_that_found_its_gate_shut() {
    let (looks, heap) = (Looks::new(), Heap::new());
    let unit = looks.push(&heap);
    looks.nested.set(1);
    looks.queue.look(&looks);
    assert!(looks.rounds.get() >= 2, "{} rounds", looks.rounds.get());
    let before = looks.times(unit);
    looks.queue.look(&looks);
    assert_eq!(looks.times(unit), before + 1, "the next look by time examines the unit again");
    book(&heap);
}

#[test]
fn looks_that_find_the_gate_shut_count_towards_the_next_examination_of_seen_units() {
    let (looks, heap) = (Looks::new(), Heap::new());
    let unit = looks.push(&heap);
    assert!(looks.queue.look_at(&looks, &heap).is_some());
    assert_eq!(looks.times(unit), 1);
    looks.nested.set(40);
    assert!(looks.queue.look_at(&looks, &heap).is_some());
    assert_eq!(looks.times(unit), 2, "the look examined the unit again after 40 missed looks");
    book(&heap);
}

#[test]
fn a_look_does_the_work_of_a_look_that_found_its_gate_shut() {
    let (looks, heap) = (Looks::new(), Heap::new());
    looks.push(&heap);
    for (nested, rounds) in [(0, 1), (1, 2)] {
        looks.nested.set(nested);
        looks.rounds.set(0);
        assert!(looks.queue.look_at(&looks, &heap).is_some());
        assert!(looks.rounds.get() >= rounds, "{} rounds", looks.rounds.get());
    }
    book(&heap);
}
