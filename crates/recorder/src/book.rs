//! Maps addresses to blocks: finds the block of each event, and reports events that contradict
//! earlier ones.
#![forbid(unsafe_code)]

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::reader::{TraceEvent, What};

/// The number of a live block. The number of a freed block is reused.
pub type Id = u32;

/// The size, the alignment and the origin of a live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveBlock {
    /// The size that the last successful call for the block requested, in bytes.
    pub size: u64,
    /// The base-2 logarithm of the requested alignment, or 0 if the call requested none.
    pub align_log2: u8,
    /// The number of the thread that allocated the block.
    pub thread: u32,
    /// The number of blocks, of all threads, that became known before this one.
    pub birth: u64,
    /// The time of the allocation, in nanoseconds since the start of the recording.
    pub time: u64,
}

/// The effect of an event on the blocks of a [`Book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookStep {
    /// A block was allocated.
    Alloc {
        /// The number of the block.
        id: Id,
        /// An earlier block at the same address, whose free is missing from the trace.
        lost: Option<Id>,
    },
    /// A block was freed. Its number is reusable from the next event on.
    Free {
        /// The number of the block.
        id: Id,
    },
    /// A block was resized, and may have moved.
    Resize {
        /// The number of the block, which does not change.
        id: Id,
        /// The previous size of the block, in bytes.
        old: u64,
        /// An earlier block at the same address, whose free is missing from the trace.
        lost: Option<Id>,
    },
    /// An unknown block was freed or passed to `realloc`.
    Unknown,
    /// A block was freed or passed to `realloc` although it was already freed, or while another
    /// `realloc` of it was in progress.
    Twice,
    /// No effect on live blocks: a block entered `realloc`, or `realloc` refused an unknown block.
    Pending,
    /// `realloc` refused and left the block as it was.
    Refused {
        /// The number of the block.
        id: Id,
        /// An earlier block at the same address, whose free is missing from the trace.
        lost: Option<Id>,
    },
    /// `realloc` returned an unknown block. The block is known from here on.
    Found {
        /// The number of the block.
        id: Id,
        /// An earlier block at the same address, whose free is missing from the trace.
        lost: Option<Id>,
    },
}

impl BookStep {
    /// Returns the earlier block at the same address, whose free is missing from the trace, if
    /// there is one.
    #[must_use]
    pub fn lost(&self) -> Option<Id> {
        match self {
            Self::Alloc { lost, .. }
            | Self::Resize { lost, .. }
            | Self::Refused { lost, .. }
            | Self::Found { lost, .. } => *lost,
            Self::Free { .. } | Self::Unknown | Self::Twice | Self::Pending => None,
        }
    }
}

/// A hasher for addresses, whose low bits differ little.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(word ^ self.0) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// The map's value for an address whose block was freed or is inside `realloc`.
const GONE: Id = Id::MAX;

/// The live blocks of a trace at one moment, by their addresses.
#[derive(Debug, Default)]
pub struct Book {
    by_address: HashMap<u64, Id, BuildHasherDefault<AddressHasher>>,
    blocks: Vec<LiveBlock>,
    free: Vec<Id>,
    /// For each thread inside `realloc`: the block, if it is known, and the block's old address.
    pending: HashMap<u32, (Option<Id>, u64)>,
    births: u64,
    live: u64,
}

impl Book {
    /// Creates an empty book.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the block with this number. If the block was freed, returns its last state, unless
    /// its number was reused.
    ///
    /// # Panics
    ///
    /// Panics if no step has returned this number.
    #[must_use]
    pub fn block(&self, id: Id) -> &LiveBlock {
        &self.blocks[id as usize]
    }

    /// Returns the number of blocks that became known so far: by an allocation, or because
    /// `realloc` returned an unknown block.
    #[must_use]
    pub fn births(&self) -> u64 {
        self.births
    }

    /// Returns the number of live blocks.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Applies an event to the book and returns the event's effect.
    pub fn apply(&mut self, event: &TraceEvent) -> BookStep {
        match event.what {
            What::Alloc { address, size, align_log2, zeroed: _ } => {
                let id = self.born(event, size, align_log2);
                BookStep::Alloc { id, lost: self.place(address, id) }
            }
            What::Free { address } => match self.take(address) {
                Ok(id) => {
                    self.free.push(id);
                    self.live -= 1;
                    BookStep::Free { id }
                }
                Err(step) => step,
            },
            What::Resize { address } => {
                let taken = self.take(address);
                self.pending.insert(event.thread, (taken.ok(), address));
                match taken {
                    Ok(_) => BookStep::Pending,
                    Err(step) => step,
                }
            }
            What::Resized { address, size } => self.resized(event, address, size),
        }
    }

    fn resized(&mut self, event: &TraceEvent, address: u64, size: u64) -> BookStep {
        let Some((Some(id), old_address)) = self.pending.remove(&event.thread) else {
            if size == 0 {
                return BookStep::Pending;
            }
            let id = self.born(event, size, 0);
            return BookStep::Found { id, lost: self.place(address, id) };
        };
        if size == 0 {
            return BookStep::Refused { id, lost: self.place(old_address, id) };
        }
        let old = core::mem::replace(&mut self.blocks[id as usize].size, size);
        BookStep::Resize { id, old, lost: self.place(address, id) }
    }

    fn born(&mut self, event: &TraceEvent, size: u64, align_log2: u8) -> Id {
        let block =
            LiveBlock { size, align_log2, thread: event.thread, birth: self.births, time: event.time };
        self.births += 1;
        self.live += 1;
        if let Some(id) = self.free.pop() {
            self.blocks[id as usize] = block;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as Id
    }

    /// Records that block `id` lies at `address`. Returns the block that was live at this address,
    /// if there was one, and frees its number.
    fn place(&mut self, address: u64, id: Id) -> Option<Id> {
        let before = self.by_address.insert(address, id).filter(|before| *before != GONE);
        if let Some(lost) = before {
            self.live -= 1;
            self.free.push(lost);
        }
        before
    }

    fn take(&mut self, address: u64) -> Result<Id, BookStep> {
        match self.by_address.entry(address) {
            Entry::Vacant(_) => Err(BookStep::Unknown),
            Entry::Occupied(mut entry) => match entry.insert(GONE) {
                GONE => Err(BookStep::Twice),
                id => Ok(id),
            },
        }
    }
}
