//! A lock-free list of the streams that no thread holds. No thread waits for a preempted thread.

#[cfg(not(ephemera_loom))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(ephemera_loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed};

/// A stack of indices. Each entry has a *link*: the index of the entry below it plus one, or 0 if
/// there is none. The caller stores the link with the entry.
///
/// The lower half of the word is the link to the first entry. The upper half counts the changes of
/// the word. Without the count, an interrupted `pop` could take an entry that other threads have
/// since popped and pushed again, and leave an outdated link in the word (the ABA problem). A list
/// of all zeros is empty.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct StreamList(AtomicU64);

// ORDERING: Release. Pairs with the Acquire in `StreamList::pop`. Publishes: the writes of the
// entry's last holder, and its link.
ordering!(push_order = Release, Relaxed if "recorder_list_relaxed");

impl StreamList {
    /// Pops the first entry, and returns its index, or `None` if the list is empty. `link_of` must
    /// read an entry's link, even if another thread has taken the entry since.
    pub(crate) fn pop(&self, link_of: impl Fn(u32) -> u32) -> Option<u32> {
        // ORDERING: Acquire. Pairs with the Release in `StreamList::push`: this thread sees the
        // first entry's link.
        let mut head = self.0.load(Acquire);
        while let Some(index) = (head as u32).checked_sub(1) {
            let next = changed(head, link_of(index));
            // ORDERING: Acquire. Pairs with the Release in `StreamList::push`. On success, this
            // thread sees the popped entry, and on failure the link of the current first entry.
            match self.0.compare_exchange(head, next, Acquire, Acquire) {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
        None
    }

    /// Pushes an entry. `set_link` must store its argument as the entry's link.
    pub(crate) fn push(&self, index: u32, set_link: impl Fn(u32)) {
        // Loom explores more interleavings if the first access to the word is the exchange.
        let mut head = if cfg!(ephemera_loom) { 0 } else { self.0.load(Relaxed) };
        loop {
            set_link(head as u32);
            // ORDERING: `push_order`. Pairs with the Acquire in `StreamList::pop`.
            match self.0.compare_exchange(head, changed(head, index + 1), push_order(), Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Removes all entries. The caller must ensure that no other thread uses the list.
    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Returns the word that replaces `head`: `link`, and a count that is one higher.
fn changed(head: u64, link: u32) -> u64 {
    let changes = if weakened!("recorder_list_uncounted") { 0 } else { (head >> 32).wrapping_add(1) };
    changes << 32 | u64::from(link)
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use core::cell::Cell;

    use super::StreamList;

    #[test]
    fn entries_are_popped_last_in_first_out() {
        let links = [const { Cell::new(0) }; 4];
        let list = StreamList::default();
        assert_eq!(list.pop(|_| 0), None);
        (0..4).for_each(|index| list.push(index, |link| links[index as usize].set(link)));
        let mut left = core::iter::from_fn(|| list.pop(|index| links[index as usize].get()));
        assert_eq!([left.next(), left.next()], [Some(3), Some(2)]);
        list.push(3, |link| links[3].set(link));
        assert_eq!(list.pop(|index| links[index as usize].get()), Some(3));
        list.clear();
        assert_eq!(list.pop(|_| 0), None);
    }
}

#[cfg(all(test, ephemera_loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    use super::{Relaxed, StreamList};

    /// Two streams. Each has a link, and a witness that only its holder may touch.
    struct Streams {
        list: StreamList,
        links: [AtomicU32; 2],
        witness: [UnsafeCell<u32>; 2],
    }

    // SAFETY: loom checks each access to a witness.
    unsafe impl Sync for Streams {}

    impl Streams {
        fn pop(&self) -> Option<u32> {
            let index = self.list.pop(|index| self.links[index as usize].load(Relaxed))?;
            self.touch(index);
            Some(index)
        }

        fn touch(&self, index: u32) {
            // SAFETY: loom passes a valid pointer. The model fails if another thread may access the
            // witness.
            self.witness[index as usize].with_mut(|witness| unsafe { *witness += 1 });
        }

        fn push(&self, index: u32) {
            self.touch(index);
            self.list.push(index, |link| self.links[index as usize].store(link, Relaxed));
        }
    }

    #[test]
    fn loom_a_stream_has_one_holder() {
        loom::model(|| {
            let streams = Arc::new(Streams {
                list: StreamList::default(),
                links: [AtomicU32::new(0), AtomicU32::new(0)],
                witness: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            streams.push(1);
            streams.push(0);
            let other = Arc::clone(&streams);
            // This thread takes up to two streams and puts the first one back, while the main
            // thread takes streams too.
            let thread = thread::spawn(move || {
                let first = other.pop();
                let second = other.pop();
                first.into_iter().for_each(|index| other.push(index));
                second.into_iter().for_each(|index| other.touch(index));
                second
            });
            let first = streams.pop();
            let second = streams.pop();
            let kept = thread.join().expect("no panic");
            let held: Vec<_> = [first, second, kept].into_iter().flatten().collect();
            assert!(held.len() <= 2, "one stream was taken twice: {held:?}");
            held.iter().for_each(|index| streams.touch(*index));
        });
    }
}
