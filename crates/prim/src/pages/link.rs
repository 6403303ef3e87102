//! Links to permanent values, which are never freed.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;

use crate::sync::{AtomicPtr, Ordering, push};

// ORDERING: Release. Pairs with the Acquire in `PermanentLink::get`. Publishes: the value.
ordering!(publish_order = Release, Relaxed if "add_relaxed");
// ORDERING: Acquire. Pairs with the Release in `PermanentLink::set`, `PermanentLink::get_or_make`
// and `PermanentLink::push`: this thread sees the complete value.
ordering!(follow_order = Acquire, Relaxed if "records_relaxed");

/// A word that names a permanent value, or none. Any thread may read it and change it.
#[derive(Debug)]
pub struct PermanentLink<T>(AtomicPtr<T>, PhantomData<*const T>);

// SAFETY: a link gives all threads shared access to the value, which `T: Sync` allows.
unsafe impl<T: Sync> Send for PermanentLink<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PermanentLink<T> {}

impl<T> PermanentLink<T> {
    crate::const_unless_loom! {
        /// Creates a link without a value.
        #[must_use]
        pub fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
        }
    }
}

impl<T: 'static> PermanentLink<T> {
    /// Returns the value, or `None` if there is none.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // ORDERING: `follow_order`. Pairs with `PermanentLink::set`, `PermanentLink::get_or_make`
        // and `PermanentLink::push`.
        let value = self.0.load(follow_order());
        // SAFETY: the pointer is null or was stored by this type, which stores only pointers made
        // from `&'static T`.
        unsafe { value.as_ref() }
    }

    /// Replaces the value.
    pub fn set(&self, value: Option<&'static T>) {
        let value = value.map_or(ptr::null(), ptr::from_ref);
        // ORDERING: `publish_order`. Pairs with `PermanentLink::get`.
        self.0.store(value.cast_mut(), publish_order());
    }

    /// Returns the value. If there is none, makes one. Returns `None` if `make` does. If another
    /// thread sets the link during `make`, returns the value of that thread and leaks the other.
    #[cold]
    pub fn get_or_make(&self, make: impl FnOnce() -> Option<&'static T>) -> Option<&'static T> {
        if self.get().is_none() {
            let made = ptr::from_ref(make()?).cast_mut();
            // ORDERING: `publish_order`. Pairs with `PermanentLink::get`.
            let _ = self.0.compare_exchange(ptr::null_mut(), made, publish_order(), Ordering::Relaxed);
        }
        self.get()
    }

    /// Pushes a value onto the list that starts with this link. `below` is the value's own link, to
    /// the rest of the list. Threads must read it only through [`Self::list`]: its store is
    /// relaxed, because each exchange of the first link continues the release sequences of earlier
    /// pushes.
    pub(crate) fn push(&self, value: &'static T, below: &Self) {
        let link = |rest| below.0.store(rest, Ordering::Relaxed);
        // ORDERING: `publish_order`. Pairs with `PermanentLink::get`.
        push(&self.0, ptr::from_ref(value).cast_mut(), None, publish_order(), link);
    }

    /// Returns the values of the list that starts with this link, the newest first. `below` returns
    /// a value's own link.
    pub(crate) fn list<'a>(&'a self, below: impl Fn(&'a T) -> &'a Self) -> impl Iterator<Item = &'a T> {
        core::iter::successors(self.get(), move |value| below(value).get())
    }
}

/// Moves a value to permanent memory. Returns `None` if there is no memory.
pub fn permanent_value<T>(value: T) -> Option<&'static T> {
    let place = super::permanent(Layout::new::<T>()).ok()?.cast::<T>();
    // SAFETY: the memory is unused and has this layout.
    unsafe { place.write(value) };
    // SAFETY: the value was just written, and is never moved or freed.
    Some(unsafe { place.as_ref() })
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use super::{PermanentLink, permanent_value};

    struct Item {
        number: u32,
        below: PermanentLink<Item>,
    }

    fn item(number: u32) -> &'static Item {
        permanent_value(Item { number, below: PermanentLink::new() }).expect("memory")
    }

    #[test]
    fn a_link_keeps_the_value_that_was_made_first() {
        static LINK: PermanentLink<u32> = PermanentLink::new();
        assert_eq!(LINK.get_or_make(|| None), None);
        assert_eq!(LINK.get_or_make(|| permanent_value(1)), Some(&1));
        assert_eq!(LINK.get_or_make(|| unreachable!("the link has a value")), Some(&1));
    }

    #[test]
    fn a_list_has_the_newest_value_first() {
        static FIRST: PermanentLink<Item> = PermanentLink::new();
        for item in [1, 2, 3].map(item) {
            FIRST.push(item, &item.below);
        }
        assert!(FIRST.list(|item| &item.below).map(|item| item.number).eq([3, 2, 1]));
    }
}
