//! Allocates groups in advance for a requested capacity.

use core::alloc::Layout;

use super::{ArenaStore, enter_patiently};
use crate::error::{RefusalCause, Refused};

/// The size in bytes above which the arena tests a requested capacity before it allocates groups.
/// For the test, it allocates one block as large as all groups of the capacity, and frees the block
/// immediately. A global allocator without that much memory usually refuses the block, so the arena
/// does not fill the memory with groups before it fails.
const ENORMOUS: u64 = 1 << 40;

impl ArenaStore {
    /// Returns an error if `slots` slots exceed the limit or the address space. Also returns an
    /// error if the global allocator refuses the block that tests an enormous capacity.
    pub(crate) fn check_capacity(&self, slots: usize) -> Result<(), Refused> {
        let layout = self.check_limit(self.geometry.pages_for(slots))?;
        if layout.size() as u64 > ENORMOUS {
            let block = self.account.acquire(layout)?;
            // SAFETY: the block was acquired above, and no other thread has seen it.
            unsafe { self.account.release(block, layout) };
        }
        Ok(())
    }

    /// Returns the layout of a block as large as the groups of `pages` pages. Returns an error if
    /// that block exceeds the address space or the limit.
    fn check_limit(&self, pages: usize) -> Result<Layout, Refused> {
        let bytes = self.geometry.bytes_in_groups(pages).unwrap_or(usize::MAX);
        let layout = Layout::from_size_align(bytes, 1)
            .map_err(|_| self.account.refused(bytes, RefusalCause::AddressSpace))?;
        self.account.reserve(bytes).map(|_| layout)
    }

    /// Allocates groups for `slots` values, for any shard to bind. If all these groups together
    /// exceed the limit, returns an error before it allocates any of them. If another thread keeps
    /// the gate shut for too long, frees the new group again and continues.
    pub(crate) fn reserve(&self, slots: usize) -> Result<(), Refused> {
        let mut pages = self.geometry.pages_for(slots);
        self.check_limit(pages)?;
        while pages != 0 {
            let some = pages.min(self.geometry.pages);
            let group = self.make_group(some)?;
            match enter_patiently(&self.gate) {
                Some(_pass) => self.push_unbound(group),
                // SAFETY: the group was just made, so no slot of it is in use, no list has it, and
                // no other thread has seen it.
                None => unsafe { self.release_group(group) },
            }
            pages -= some;
        }
        Ok(())
    }
}
