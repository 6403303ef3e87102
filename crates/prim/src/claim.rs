//! The claim on the contents of a unit. A thread, usually not the owner, claims the contents of an
//! idle owner's unit before it returns their pages to the operating system.
//!
//! Other threads may free all blocks of a unit while its owner sleeps. The unit then waits in the
//! owner's inbox if only the owner may remove it from the owner's lists. While the owner sleeps, no
//! thread uses the unit's *contents*, the memory after the header. A thread that has borrowed the
//! unit ([`LentUnits`](crate::foreign::LentUnits)) *claims* the contents, checks that every block
//! is free, and returns the pages of the contents to the operating system.
//!
//! ```text
//!   purging thread                            owner, before it uses the contents
//!   word: KEPT -> CLAIMED                     state: in use
//!   heavy fence                               light fence
//!   reads the state: in use? then gives up    reads the word: CLAIMED? then leaves the unit alone
//!   counts: every block free? then purges
//!   word: CLAIMED -> PURGED, or KEPT          PURGED: nothing in the contents is valid; -> KEPT
//! ```
//!
//! The two fences make sure that at least one thread sees the other's store. Neither thread waits.
//!
//! # Invariants
//!
//! * **C1** At most one thread at a time claims the contents of a unit. The claiming thread changes
//!   the word from `KEPT`, and no other thread writes the word until the claim ends. The owner
//!   changes the word only from `PURGED`.
//! * **C2** The owner stores that it uses the contents before it calls [`ContentsClaim::enter`]. It
//!   does not use the contents if `enter` returns [`Contents::Claimed`].
//! * **C3** The purging thread reads the owner's state and counts after
//!   [`heavy`](crate::barrier::heavy) has returned `true`. It purges only if no block is live and
//!   the owner does not use the contents.

use crate::barrier;
use crate::sync::{AtomicU8, Ordering};
use crate::witness::Witness;

const KEPT: u8 = 0;
const CLAIMED: u8 = 1;
const PURGED: u8 = 2;

// ORDERING: Release. Pairs with the Acquire in `ContentsClaim::enter`. Publishes: the purge.
ordering!(end_order = Release, Relaxed if "claim_end_relaxed");
// ORDERING: Acquire. Pairs with the Release in `ContentsClaim::end`: this thread sees the purge.
ordering!(enter_order = Acquire, Relaxed if "claim_enter_relaxed");

/// The state of a unit's contents, as its owner reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The contents are as the owner left them.
    Kept,
    /// Another thread claims the contents and may be purging them. The owner must not use them.
    Claimed,
    /// Another thread purged the contents while no block of the unit was live, so every byte may
    /// have changed.
    Purged,
}

/// The word of a unit that says whether its contents are kept, claimed by another thread, or
/// purged.
#[derive(Debug)]
pub struct ContentsClaim {
    word: AtomicU8,
    /// The stand-in for the contents in models.
    contents: Witness,
}

impl ContentsClaim {
    crate::const_unless_loom! {
        /// Creates the word of a unit whose contents are kept.
        pub fn new() -> Self {
            Self { word: AtomicU8::new(KEPT), contents: Witness::new() }
        }
    }

    /// Returns the state of the contents, for an owner that has just stored that it uses them (C2).
    #[inline]
    pub fn enter(&self) -> Contents {
        barrier::light();
        // ORDERING: `enter_order`. Pairs with `ContentsClaim::end`.
        match self.word.load(enter_order()) {
            KEPT => Contents::Kept,
            CLAIMED if !weakened!("claimed_contents_are_used") => Contents::Claimed,
            CLAIMED => Contents::Kept,
            _ => Contents::Purged,
        }
    }

    /// Tells the model checker that the owner uses the contents.
    #[inline]
    pub fn touch(&self) {
        self.contents.write();
    }

    /// Marks purged contents as kept: the owner no longer expects the old bytes. Only the owner may
    /// call this.
    pub fn renew(&self) {
        if self.word.load(Ordering::Relaxed) == PURGED {
            self.word.store(KEPT, Ordering::Relaxed);
        }
    }

    /// Returns whether the contents are neither claimed nor purged.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.word.load(Ordering::Relaxed) == KEPT
    }

    /// Returns whether the contents have been purged since the last call to [`Self::renew`].
    #[inline]
    pub fn is_purged(&self) -> bool {
        self.word.load(Ordering::Relaxed) == PURGED
    }

    /// Claims the contents and returns `true`. Returns `false` without a claim if the contents were
    /// purged already, or if a thread that did not survive a fork had claimed them.
    ///
    /// The caller must be the only thread that claims (C1). After a call that returns `true`, the
    /// caller must call [`heavy`](crate::barrier::heavy) before it reads the owner's state and
    /// counts (C3), and must end the claim with [`ContentsClaim::end`].
    pub fn claim(&self) -> bool {
        let kept = self.is_kept();
        if kept {
            self.word.store(CLAIMED, Ordering::Relaxed);
        }
        kept
    }

    /// Tells the model checker that the claiming thread purges the contents.
    pub fn purge(&self) {
        self.contents.write();
    }

    /// Ends the claim of this thread. `purged` says whether this thread purged the contents or left
    /// them as they were.
    pub fn end(&self, purged: bool) {
        // ORDERING: `end_order`. Pairs with `ContentsClaim::enter`.
        self.word.store(if purged { PURGED } else { KEPT }, end_order());
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{Contents, ContentsClaim};

    #[test]
    fn claimed_contents_are_refused_until_the_claim_ends() {
        let claim = ContentsClaim::new();
        assert_eq!(claim.enter(), Contents::Kept);
        assert!(claim.claim() && !claim.claim(), "a unit has one claim at a time");
        assert_eq!(claim.enter(), Contents::Claimed);
        claim.renew();
        assert_eq!(claim.enter(), Contents::Claimed, "the owner ended another thread's claim");
        claim.end(false);
        assert_eq!(claim.enter(), Contents::Kept);
        assert!(claim.claim());
        claim.end(true);
        assert_eq!((claim.enter(), claim.is_purged()), (Contents::Purged, true));
        assert!(!claim.claim(), "purged contents are purged again");
        claim.renew();
        assert_eq!(claim.enter(), Contents::Kept);
    }
}
