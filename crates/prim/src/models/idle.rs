//! Models of the queue of heaps whose owners may be idle, while other threads push to these heaps.

use core::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use super::foreign::Chunk;
use super::memory::ModelArc;
use super::{explore, explore_within};
use crate::idle::{IdleBy, IdleHeaps, IdleQueue, Mail, Purged, PushedBytes};

/// A heap with one unit.
struct Heap {
    mail: Mail<Chunk, Heap>,
    pushed: PushedBytes,
    /// The number of looks that visited the heap. Since it is an atomic of `core`, loom does not
    /// explore the accesses to it.
    visited: AtomicUsize,
    /// The number of rounds of looks that began. Also an atomic of `core`.
    rounds: AtomicUsize,
}

impl Heap {
    fn new() -> Self {
        let (visited, rounds) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { mail: Mail::new(), pushed: PushedBytes::new(), visited, rounds }
    }
}

/// The operations on heaps whose records all have holders, or all have none. A look at a heap with
/// a holder borrows the heap's units and puts them back.
struct Looks {
    held: bool,
}

/// The operations on heaps without holders.
const PASSES: Looks = Looks { held: false };
/// The operations on heaps whose owners are idle.
const LENDS: Looks = Looks { held: true };

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

    fn is_held(&self, heap: &Heap) -> bool {
        heap.visited.fetch_add(1, Ordering::Relaxed);
        self.held
    }

    fn purge_units(&self, heap: &Heap, _by: IdleBy) -> Purged {
        assert!(self.held, "no thread holds the record");
        heap.rounds.fetch_add(1, Ordering::Relaxed);
        let mut units = heap.mail.lend();
        while units.look().is_some() {}
        units.put_back();
        Purged { ended: true, ..Purged::default() }
    }

    fn drain_free_record(&self, _heap: &Heap) {}
}

#[derive(Clone)]
struct Model {
    unit: ModelArc<Chunk>,
    heap: ModelArc<Heap>,
    queue: ModelArc<IdleQueue<Heap>>,
}

impl Model {
    fn new() -> Self {
        Self {
            unit: ModelArc::new(Chunk::new(2)),
            heap: ModelArc::new(Heap::new()),
            queue: ModelArc::new(IdleQueue::new(0)),
        }
    }

    fn remote_free(&self, index: usize) {
        self.unit.get().use_block(index);
        // SAFETY: the unit belongs to this inbox. The block belongs to this thread, and keeps the
        // unit live until it is booked.
        let pushed = unsafe { self.heap.get().mail.inbox.give_back_add(self.unit.pointer(), 1) };
        if pushed {
            // Without this yield, loom does not search the interleavings in which another thread
            // borrows the unit here.
            thread::yield_now();
            // SAFETY: the model keeps the heap until all of its threads are joined, and `mail`
            // always returns the same mail for it.
            unsafe { self.queue.get().note_push(&PASSES, self.heap.get(), 1) };
        }
    }

    fn book(&self) {
        // SAFETY: only one thread of the model calls this.
        for (_, given) in unsafe { self.heap.get().mail.take() } {
            self.unit.get().book(given);
        }
    }
}

/// A look finds a heap without mail in the queue, while another thread pushes to the heap.
#[test]
fn loom_heap_with_mail_is_in_the_queue() {
    explore(|| {
        let model = Model::new();
        model.remote_free(0);
        model.book();
        let other = {
            let model = model.clone();
            thread::spawn(move || model.remote_free(1))
        };
        model.queue.get().look(&PASSES);
        other.join().unwrap();
        let mail = model.heap.get().mail.is_some();
        assert!(mail && !model.queue.get().is_empty(), "no look finds the mail");
        model.book();
        assert_eq!(model.unit.get().live(), 0);
    });
}

/// A look at a heap that is not in the queue borrows the heap's units, while another thread pushes
/// to the heap.
#[test]
fn loom_heap_whose_units_were_lent_is_in_the_queue() {
    explore(|| {
        let model = Model::new();
        let other = {
            let model = model.clone();
            thread::spawn(move || model.remote_free(0))
        };
        let purged = model.queue.get().look_at(&LENDS, model.heap.get());
        assert!(purged.is_some(), "no other thread enters the gate of the heap");
        other.join().unwrap();
        let mail = model.heap.get().mail.is_some();
        assert!(mail && !model.queue.get().is_empty(), "no look finds the mail");
        model.book();
        assert_eq!(model.unit.get().live(), 1);
    });
}

/// Two looks meet at the gate of a heap. The look that finds the gate shut may be the last
/// operation of its thread.
#[test]
fn loom_work_of_a_look_that_finds_the_gate_shut_is_done() {
    explore(|| {
        let model = Model::new();
        // Returns the number of rounds that began before the look.
        let look = |model: &Model| {
            let before = model.heap.get().rounds.load(Ordering::Relaxed);
            let _purged = model.queue.get().look_at(&LENDS, model.heap.get());
            before
        };
        let other = {
            let model = model.clone();
            thread::spawn(move || look(&model))
        };
        let before = look(&model).max(other.join().unwrap());
        assert_eq!(model.heap.get().mail.missed_looks(), 0, "no look does the work");
        assert!(model.heap.get().rounds.load(Ordering::Relaxed) > before, "a round follows each look");
    });
}

/// A look takes a heap out of the queue, while another thread may have borrowed the heap's units.
#[test]
fn loom_heap_is_in_the_queue_after_two_looks() {
    explore_within(8, || {
        let model = Model::new();
        model.remote_free(0);
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                let _purged = model.queue.get().look_at(&LENDS, model.heap.get());
            })
        };
        model.queue.get().look(&LENDS);
        other.join().unwrap();
        let mail = model.heap.get().mail.is_some();
        assert!(mail && !model.queue.get().is_empty(), "no look finds the mail");
        model.book();
        assert_eq!(model.unit.get().live(), 1);
    });
}

/// A look takes the heaps of the queue, while another thread adds a second heap.
#[test]
fn loom_heaps_of_the_queue_are_all_visited() {
    explore(|| {
        let first = Model::new();
        let second = Model { queue: first.queue.clone(), ..Model::new() };
        first.remote_free(0);
        let other = {
            let second = second.clone();
            thread::spawn(move || second.remote_free(0))
        };
        first.queue.get().look(&PASSES);
        other.join().unwrap();
        first.queue.get().look(&PASSES);
        for model in [&first, &second] {
            assert_ne!(model.heap.get().visited.load(Ordering::Relaxed), 0, "a heap was lost");
        }
    });
}
