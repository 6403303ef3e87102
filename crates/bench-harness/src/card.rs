//! Cards: what a contender is, what it can do, and what a workload needs.

/// What a contender hands out. Tables compare contenders of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContenderClass {
    /// Blocks of any size.
    Blocks,
    /// Objects of one type.
    Objects,
    /// Byte buffers.
    Buffers,
    /// Nodes of data structures.
    Nodes,
}

impl ContenderClass {
    /// All classes, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Blocks, Self::Objects, Self::Buffers, Self::Nodes];

    /// The word for a heading.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Objects => "objects",
            Self::Buffers => "buffers",
            Self::Nodes => "nodes of data structures",
        }
    }
}

/// What a contender can do. A workload that needs more prints a dash and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Memory of any block can be used again after it is freed, in any order.
    pub free_individually: bool,
    /// Serves every size and alignment.
    pub any_size: bool,
    /// Blocks may be freed on a thread that did not allocate them.
    pub any_thread_free: bool,
    /// Several threads may allocate at the same time.
    pub shared_alloc: bool,
    /// Threads that used it may end while the process goes on.
    pub threads_end: bool,
    /// The last block at least can grow where it is.
    pub grow_in_place: bool,
    /// Everything can be taken back at once.
    pub reset: bool,
    /// What is written into a block is still there later. Off for the allocator that does nothing.
    pub keeps_contents: bool,
}

impl Caps {
    /// A general allocator: all but `reset`.
    pub const GENERAL: Self = Self {
        free_individually: true,
        any_size: true,
        any_thread_free: true,
        shared_alloc: true,
        threads_end: true,
        grow_in_place: true,
        reset: false,
        keeps_contents: true,
    };

    /// An allocator for one thread that frees block by block.
    pub const LOCAL: Self = Self { any_thread_free: false, shared_alloc: false, ..Self::GENERAL };

    /// A bump arena: takes back the last block, and everything by a reset.
    pub const ARENA: Self = Self { free_individually: false, reset: true, ..Self::LOCAL };
}

/// How the memory of a contender is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBy {
    /// Its backing allocator counts.
    Backing,
    /// The resident set's high-water mark of a process of its own.
    HighWater,
}

/// A contender's card.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name of its rows.
    pub name: &'static str,
    /// Version, as the lock file had it when the harness was built.
    pub version: &'static str,
    /// What it can do.
    pub caps: Caps,
    /// How its memory is measured.
    pub memory: MemoryBy,
    /// What a reader of a table should know about it.
    pub notes: &'static str,
}
