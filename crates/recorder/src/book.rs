//! Turns addresses into blocks: which block an event is about, and whether it makes sense.
#![forbid(unsafe_code)]

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::reader::{Event, What};

/// A block among those alive. The number of one that went is used again.
pub type Id = u32;

/// A block that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Bytes asked for, last.
    pub size: u64,
    /// The alignment asked for as a power of two; 0 where none was.
    pub align_log2: u8,
    /// The thread that got it.
    pub thread: u32,
    /// How many blocks had come before it, on all threads.
    pub birth: u64,
    /// When it came, in nanoseconds.
    pub time: u64,
}

/// What an event comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A block came.
    Alloc {
        /// Its number from here on.
        id: Id,
        /// A block that stood at the same address: its end was not seen. It is gone.
        lost: Option<Id>,
    },
    /// A block went. Its number is free at the next event.
    Free {
        /// Its number.
        id: Id,
    },
    /// A block has another size, and maybe another place.
    Resize {
        /// Its number, as before.
        id: Id,
        /// Its size before.
        old: u64,
        /// As for [`Step::Alloc`].
        lost: Option<Id>,
    },
    /// A block of which the trace knows nothing went.
    Unknown,
    /// A block went that had gone already.
    Twice,
    /// Nothing yet: the block is within `realloc`.
    Pending,
    /// A block came out of `realloc` as it went in: more was refused.
    Refused {
        /// Its number.
        id: Id,
        /// As for [`Step::Alloc`].
        lost: Option<Id>,
    },
    /// A block of which the trace knows nothing came out of `realloc`: it is known from here on.
    Found {
        /// Its number from here on.
        id: Id,
        /// As for [`Step::Alloc`].
        lost: Option<Id>,
    },
}

/// Spreads addresses, whose low bits say little.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
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

/// In place of a number: the block at this address has gone.
const GONE: Id = Id::MAX;

/// All blocks alive.
#[derive(Debug, Default)]
pub struct Book {
    by_address: HashMap<u64, Id, BuildHasherDefault<Spread>>,
    blocks: Vec<Block>,
    free: Vec<Id>,
    /// The block that each thread has in `realloc`, and where it was.
    pending: HashMap<u32, (Option<Id>, u64)>,
    births: u64,
    live: u64,
}

impl Book {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The block of a number.
    ///
    /// # Panics
    ///
    /// Where no step gave this number.
    #[must_use]
    pub fn block(&self, id: Id) -> &Block {
        &self.blocks[id as usize]
    }

    /// Blocks that came so far.
    #[must_use]
    pub fn births(&self) -> u64 {
        self.births
    }

    /// Blocks alive.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Books an event.
    pub fn apply(&mut self, event: &Event) -> Step {
        match event.what {
            What::Alloc { address, size, align_log2, zeroed: _ } => {
                let id = self.born(event, size, align_log2);
                Step::Alloc { id, lost: self.place(address, id) }
            }
            What::Free { address } => match self.take(address) {
                Ok(id) => {
                    self.free.push(id);
                    self.live -= 1;
                    Step::Free { id }
                }
                Err(step) => step,
            },
            What::Resize { address } => {
                let taken = self.take(address);
                self.pending.insert(event.thread, (taken.ok(), address));
                match taken {
                    Ok(_) => Step::Pending,
                    Err(step) => step,
                }
            }
            What::Resized { address, size } => self.resized(event, address, size),
        }
    }

    fn resized(&mut self, event: &Event, address: u64, size: u64) -> Step {
        let Some((Some(id), old_address)) = self.pending.remove(&event.thread) else {
            if size == 0 {
                return Step::Pending;
            }
            let id = self.born(event, size, 0);
            return Step::Found { id, lost: self.place(address, id) };
        };
        if size == 0 {
            return Step::Refused { id, lost: self.place(old_address, id) };
        }
        let old = core::mem::replace(&mut self.blocks[id as usize].size, size);
        Step::Resize { id, old, lost: self.place(address, id) }
    }

    fn born(&mut self, event: &Event, size: u64, align_log2: u8) -> Id {
        let block = Block { size, align_log2, thread: event.thread, birth: self.births, time: event.time };
        self.births += 1;
        self.live += 1;
        if let Some(id) = self.free.pop() {
            self.blocks[id as usize] = block;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as Id
    }

    /// Puts a block at an address; who stood there, if anybody.
    fn place(&mut self, address: u64, id: Id) -> Option<Id> {
        let before = self.by_address.insert(address, id).filter(|before| *before != GONE);
        if let Some(lost) = before {
            self.live -= 1;
            self.free.push(lost);
        }
        before
    }

    fn take(&mut self, address: u64) -> Result<Id, Step> {
        match self.by_address.entry(address) {
            Entry::Vacant(_) => Err(Step::Unknown),
            Entry::Occupied(mut entry) => match entry.insert(GONE) {
                GONE => Err(Step::Twice),
                id => Ok(id),
            },
        }
    }
}
