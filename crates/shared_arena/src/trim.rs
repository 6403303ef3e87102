//! Giving back what is empty. The owner's alone, on an arena that lives.
//!
//! One pass over the shard's groups, behind the store's gate, finds those that are wholly free, takes them off the list and builds the list of
//! pages with free slots anew. No free ever looks for an empty group, so this is the only place that does.

use core::ptr;

use ephemera_prim::gate::Pass;

use crate::bits::Bits;
use crate::group::{Group, GroupPtr, NearPtr};
use crate::owner::Owner;
use crate::store::Store;

/// Which groups go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All that are wholly free.
    Empty,
    /// Those that were so when somebody last looked, and were not used since.
    Idle,
}

/// What becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They go back to the heap.
    Release,
    /// They are for any shard to take.
    #[cfg_attr(
        not(all(feature = "std", target_has_atomic = "64")),
        expect(dead_code, reason = "there is one shard only")
    )]
    Unbind,
}

impl Owner<'_> {
    /// Books what other threads gave back, then takes the groups that are wholly free off this shard. Returns how many; none if
    /// somebody stands behind the gate for longer than this thread may wait.
    pub(crate) fn trim(self, fate: Fate) -> usize {
        self.trim_behind(Store::enter_patiently, Which::Empty, fate).unwrap_or(0)
    }

    /// The same in the midst of a claim, which does not wait: `None` if somebody stands behind the gate.
    pub(crate) fn trim_in_passing(self, which: Which) -> Option<usize> {
        self.trim_behind(Store::enter, which, Fate::Release)
    }

    fn trim_behind(self, enter: fn(&Store) -> Option<Pass<'_>>, which: Which, fate: Fate) -> Option<usize> {
        self.settle();
        let weak = cfg!(ephemera_weaken = "arena_trim_beside_a_walk");
        let pass = if weak { None } else { enter(self.store) };
        if pass.is_none() && !weak {
            return None;
        }
        if which == Which::Empty {
            // Whoever asked for it, it is done from here.
            self.store.epoch().turned(&self.shard.quiet().epoch);
        }
        let (shard, geometry) = (self.shard, self.geometry());
        shard.give_back_front(geometry);
        shard.current().set(ptr::null_mut());

        let mut some = Pages::default();
        let mut all = Pages::default();
        let (mut gone, mut count): (*mut Group, usize) = (ptr::null_mut(), 0);
        let mut before: Option<GroupPtr> = None;
        let mut rest = shard.groups().get();
        // SAFETY: G1: groups on the list are alive.
        while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
            rest = group.next().get();
            let free =
                (0..group.pages()).all(|page| group.near(geometry, page).bits().slots() == geometry.all());
            let goes = free && (which == Which::Empty || group.idle().get() != 0);
            group.idle().set(usize::from(free));
            if goes {
                match before {
                    Some(before) => before.next().set(rest),
                    None => shard.groups().set(rest),
                }
                shard.pages().sub(group.pages());
                group.next().set(gone);
                gone = group.as_ptr();
                count += 1;
            } else {
                let list = if free { &mut all } else { &mut some };
                for page in (0..group.pages()).rev() {
                    list.push(group.near(geometry, page));
                }
                before = Some(group);
            }
        }
        shard.avail().set(some.followed_by(&all));
        if fate == Fate::Release {
            drop(pass);
            // SAFETY: wholly free, settled and on no list any more: nobody has a pointer to them.
            unsafe { self.store.release_list(gone) };
        } else {
            // SAFETY: G1: nobody else frees them.
            while let Some(group) = unsafe { GroupPtr::from_raw(gone) } {
                gone = group.next().get();
                self.store.push_unbound(group);
            }
        }
        Some(count)
    }
}

/// A list of pages with free slots, as it is being built.
#[derive(Default)]
struct Pages {
    first: Option<NearPtr>,
    last: Option<NearPtr>,
}

impl Pages {
    /// Adds a page in front, if it has free slots; else it is on no list.
    fn push(&mut self, near: NearPtr) {
        let slots = near.bits().slots();
        if slots == 0 {
            near.local().set(0);
            return;
        }
        near.local().set(Bits::listed(slots).word());
        near.next().set(self.first.map_or(ptr::null_mut(), NearPtr::as_ptr));
        self.first = Some(near);
        self.last = self.last.or(self.first);
    }

    /// The head of this list with another one behind it: pages that are in use go first, so that free groups stay so.
    fn followed_by(&self, other: &Self) -> *mut crate::group::Near {
        let behind = other.first.map_or(ptr::null_mut(), NearPtr::as_ptr);
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                last.next().set(behind);
                first.as_ptr()
            }
            _ => behind,
        }
    }
}
