//! A bounded channel that moves vectors of items to another thread.
//!
//! The standard library's channel is compiled for each type of message. There are hundreds of item
//! types, so this channel carries the parts of a vector without the type of its items. Only the two
//! ends know that type.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use std::sync::mpsc::{Receiver, RecvError, SendError, SyncSender, sync_channel};

/// The parts of a vector, without the type of its items.
struct VecParts {
    items: *mut (),
    len: usize,
    capacity: usize,
    /// The function that drops a vector of the original type.
    end: unsafe fn(*mut (), usize, usize),
}

// SAFETY: the `Need` of a workload that sends items admits only contenders whose items may be used
// and dropped on any thread.
unsafe impl Send for VecParts {}

impl VecParts {
    fn new<I>(vec: Vec<I>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        let (len, capacity) = (vec.len(), vec.capacity());
        Self { items: vec.as_mut_ptr().cast(), len, capacity, end: drop_vec::<I> }
    }

    /// Returns the vector that these parts came from.
    ///
    /// # Safety
    ///
    /// [`VecParts::new`] must have made these parts from a vector with this type of items.
    unsafe fn into_vec<I>(self) -> Vec<I> {
        let parts = ManuallyDrop::new(self);
        // SAFETY: these are the parts of a vector with this type of items, and nothing else uses
        // them.
        unsafe { Vec::from_raw_parts(parts.items.cast(), parts.len, parts.capacity) }
    }
}

impl Drop for VecParts {
    fn drop(&mut self) {
        // SAFETY: `new` took these parts from a vector of the item type that `end` drops, and
        // nothing else uses them.
        unsafe { (self.end)(self.items, self.len, self.capacity) };
    }
}

/// Drops a vector.
///
/// # Safety
///
/// The arguments must be the parts of a vector with items of type `I`, which nothing else uses.
unsafe fn drop_vec<I>(items: *mut (), len: usize, capacity: usize) {
    // SAFETY: the caller passes the parts of a vector with items of type `I`, which nothing else
    // uses.
    drop(unsafe { Vec::<I>::from_raw_parts(items.cast(), len, capacity) });
}

pub(super) struct VecSender<I>(SyncSender<VecParts>, PhantomData<fn(I)>);

pub(super) struct VecReceiver<I>(Receiver<VecParts>, PhantomData<fn() -> I>);

/// Creates a channel with room for `bound` vectors. Both ends may move to other threads.
pub(super) fn vec_channel<I>(bound: usize) -> (VecSender<I>, VecReceiver<I>) {
    let (send, receive) = sync_channel(bound);
    (VecSender(send, PhantomData), VecReceiver(receive, PhantomData))
}

impl<I> VecSender<I> {
    /// Sends a vector, and waits while the channel is full.
    ///
    /// # Errors
    ///
    /// Returns an error and drops the vector if the receiving end was dropped.
    pub(super) fn send(&self, vec: Vec<I>) -> Result<(), SendError<()>> {
        self.0.send(VecParts::new(vec)).map_err(|_| SendError(()))
    }
}

impl<I> VecReceiver<I> {
    /// Waits for a vector.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty and the sending end was dropped.
    pub(super) fn recv(&self) -> Result<Vec<I>, RecvError> {
        // SAFETY: both ends have the item type `I`, and the sender made the parts from a vector of
        // that type.
        self.0.recv().map(|parts| unsafe { parts.into_vec() })
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn vectors_arrive_whole_and_those_that_nobody_receives_are_dropped() {
        let counted = Rc::new(());
        let (send, receive) = vec_channel(2);
        for len in [3, 2] {
            let mut vec = Vec::with_capacity(10);
            vec.extend((0..len).map(|_| Rc::clone(&counted)));
            send.send(vec).expect("the other end exists");
        }
        let first = receive.recv().expect("a vector is in the channel");
        assert_eq!((first.len(), first.capacity(), Rc::strong_count(&counted)), (3, 10, 6));
        drop((send, receive));
        assert_eq!(Rc::strong_count(&counted), 4);
        drop(first);
        assert_eq!(Rc::strong_count(&counted), 1);
        let (send, receive) = vec_channel(1);
        drop(receive);
        assert!(send.send(vec![Rc::clone(&counted)]).is_err());
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}
