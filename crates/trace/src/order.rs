//! Determines the order in which blocks are freed, seen from the thread that allocated them.
//!
//! A block is freed *at once* if its thread has not allocated another block since. It is freed
//! *last in, first out* if it is the youngest live block of its thread. It is freed *first in,
//! first out* if its neighbours agree: of the eight blocks allocated just before it, at most one is
//! live, and of the eight just after it, at most one is freed. Every other free has *no order*.
//! Because of this tolerance of one block, a queue with a long-lived block still counts as a queue.
#![forbid(unsafe_code)]

use super::grown;
use ephemera_recorder::Id;

/// The order in which a block is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeOrder {
    /// The block is freed before its thread allocates another one.
    AtOnce,
    /// The block is freed while it is the youngest live block of its thread.
    Lifo,
    /// The block is freed after its older neighbours and before its younger ones, with at most one
    /// exception on each side.
    Fifo,
    /// The block is freed in none of the orders above.
    None,
}

/// The number of neighbours on each side that decide whether a free is FIFO.
const NEIGHBOURS: u64 = 8;
/// The maximum number of neighbours on each side that may contradict FIFO.
const ASTRAY: u32 = 1;

/// The links of a block in the list of its thread's live blocks.
#[derive(Clone, Copy, Debug, Default)]
struct BlockLink {
    thread: u32,
    /// The number of blocks that the thread allocated before this one.
    birth: u64,
    older: Option<Id>,
    younger: Option<Id>,
}

/// The history of one thread's blocks, from which the order of each free follows.
#[derive(Clone, Debug, Default)]
struct ThreadBlocks {
    births: u64,
    /// One bit for each block that the thread allocated. The bit is 1 while the block is live.
    alive: Vec<u64>,
    youngest: Option<Id>,
}

/// The live blocks of each thread, in the order of their allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveBlocks {
    links: Vec<BlockLink>,
    rows: Vec<ThreadBlocks>,
}

impl LiveBlocks {
    pub(crate) fn born(&mut self, id: Id, thread: u32) {
        let row = grown(&mut self.rows, thread as usize);
        let birth = row.births;
        row.births += 1;
        if birth.is_multiple_of(64) {
            row.alive.push(0);
        }
        row.alive[(birth / 64) as usize] |= 1 << (birth % 64);
        let older = row.youngest.replace(id);
        if let Some(older) = older {
            self.links[older as usize].younger = Some(id);
        }
        *grown(&mut self.links, id as usize) = BlockLink { thread, birth, older, younger: None };
    }

    /// Removes a freed block, and returns the order of its free.
    pub(crate) fn gone(&mut self, id: Id) -> FreeOrder {
        let link = self.links[id as usize];
        let row = &mut self.rows[link.thread as usize];
        row.alive[(link.birth / 64) as usize] &= !(1 << (link.birth % 64));
        let order = if row.births == link.birth + 1 {
            FreeOrder::AtOnce
        } else if row.youngest == Some(id) {
            FreeOrder::Lifo
        } else if row.is_oldest(link.birth) {
            FreeOrder::Fifo
        } else {
            FreeOrder::None
        };
        if let Some(older) = link.older {
            self.links[older as usize].younger = link.younger;
        }
        match link.younger {
            Some(younger) => self.links[younger as usize].older = link.older,
            None => row.youngest = link.older,
        }
        order
    }
}

impl ThreadBlocks {
    fn alive(&self, births: core::ops::Range<u64>) -> u32 {
        births.map(|birth| (self.alive[(birth / 64) as usize] >> (birth % 64) & 1) as u32).sum()
    }

    fn is_oldest(&self, birth: u64) -> bool {
        let after = birth + 1..(birth + 1 + NEIGHBOURS).min(self.births);
        let gone = (after.end - after.start) as u32 - self.alive(after.clone());
        let most = if weakened!("order_no_tolerance") { 0 } else { ASTRAY };
        self.alive(birth.saturating_sub(NEIGHBOURS)..birth) <= most && gone <= most
    }
}
