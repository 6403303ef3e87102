//! The classes of contenders, and the cards that describe a contender: its name, its version, its
//! capabilities, and how its memory is measured.

/// The class of a contender: the kind of memory that it hands out. A table compares contenders of
/// one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
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

    /// Returns the name of the class for headings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Objects => "objects",
            Self::Buffers => "buffers",
            Self::Nodes => "nodes of data structures",
        }
    }
}

/// The capabilities of a contender. If a workload needs a capability that a contender lacks, the
/// contender's row shows a dash and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// The contender can reuse the memory of each freed block, in whatever order the blocks are
    /// freed. A contender without this capability frees everything at once.
    pub free_individually: bool,
    /// The contender serves every size and alignment.
    pub any_size: bool,
    /// Blocks may be freed on a thread that did not allocate them.
    pub any_thread_free: bool,
    /// Several threads may allocate at the same time.
    pub shared_alloc: bool,
    /// Threads that used the contender may end while the process continues.
    pub threads_end: bool,
    /// A block keeps the bytes that are written to it. Only contenders that do nothing lack this
    /// capability.
    pub keeps_contents: bool,
}

impl Caps {
    /// The capabilities of a general allocator.
    pub const GENERAL: Self = Self {
        free_individually: true,
        any_size: true,
        any_thread_free: true,
        shared_alloc: true,
        threads_end: true,
        keeps_contents: true,
    };

    /// The capabilities of an allocator for one thread that frees block by block.
    pub const LOCAL: Self = Self { any_thread_free: false, shared_alloc: false, ..Self::GENERAL };

    /// The capabilities of an allocator whose blocks one thread allocates and any thread may free.
    pub const MAKES_HERE: Self = Self { shared_alloc: false, ..Self::GENERAL };

    /// The capabilities of a bump arena. Between resets it reuses at most its last block.
    pub const ARENA: Self = Self { free_individually: false, ..Self::LOCAL };
}

/// A contender's card: what the runner and the tables state about the contender.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The contender's name, as its rows show it.
    pub name: &'static str,
    /// The contender's version, from the lock file at build time. If it is empty, reports state the
    /// version of the C library.
    pub version: &'static str,
    /// The capabilities of the contender.
    pub caps: Caps,
    /// Whether the contender's backing allocator counts its memory. If it does not, a separate
    /// process for the contender reads the peak of its own resident set.
    pub counted: bool,
    /// A note about the contender for readers of a table.
    pub notes: &'static str,
}

impl Info {
    /// Returns the card of a contender whose memory is measured as its peak resident set.
    pub(crate) const fn new(
        name: &'static str,
        version: &'static str,
        caps: Caps,
        notes: &'static str,
    ) -> Self {
        Self { name, version, caps, counted: false, notes }
    }
}
