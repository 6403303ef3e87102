//! Models of the place for a span in a thread's own cache. The owner and another thread never both
//! get the same span, and the other thread gets a span only after the owner's last access to it.

use core::ptr::{self, NonNull};

use loom::thread;

use super::explore;
use super::memory::ModelArc;
use crate::pages::span_place::SpanPlace;
use crate::witness::Witness;

/// A place, and two spans of its owner.
struct Kept {
    place: SpanPlace,
    spans: [Witness; 2],
}

impl Kept {
    /// Stores a span of the owner in the place.
    fn put(&self, number: usize) {
        self.place.put(NonNull::new(ptr::without_provenance_mut(number + 1)).expect("not zero"));
    }

    /// Accesses a span for the last time.
    fn end(&self, span: NonNull<u8>) {
        self.spans[span.addr().get() - 1].end();
    }
}

#[test]
fn loom_a_kept_span_goes_to_its_owner_or_to_another_thread() {
    explore(|| {
        let kept = ModelArc::new(Kept { place: SpanPlace::new(), spans: [(); 2].map(|()| Witness::new()) });
        let other = {
            let kept = kept.clone();
            thread::spawn(move || {
                if let Some(span) = kept.get().place.steal() {
                    kept.get().end(span);
                }
            })
        };
        let own = kept.get();
        own.spans[0].write();
        own.put(0);
        // If the owner gets the first span back, it makes its last access to that span. In either
        // case, it then stores the second span, unless the place is full.
        if let Some(span) = own.place.take() {
            own.end(span);
        }
        if own.place.is_empty() {
            own.spans[1].write();
            own.put(1);
        }
        other.join().unwrap();
        if let Some(span) = own.place.steal() {
            own.end(span);
        }
    });
}
