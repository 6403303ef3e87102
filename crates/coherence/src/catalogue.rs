//! The workloads of the traced program, and the allocators that it can run over.

/// A workload of the traced program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedWorkload {
    /// Each thread frees the blocks that it allocated.
    Own,
    /// Each thread hands batches of blocks to the next thread, which frees them.
    Ring,
    /// Each thread hands every block to a random thread, which frees it.
    All,
    /// One thread allocates, and the others free. If it is the only thread, it also frees the
    /// blocks.
    Fan,
    /// Threads replace random blocks of arrays, which move from thread to thread.
    Larson,
    /// All threads add to one word. With two or more threads, each operation moves one line.
    PingPong,
    /// Each thread adds to its own word. Neighbouring words share a line, so each operation of two
    /// threads moves one line.
    FalseSharing,
    /// Each thread adds to its own word on its own line, so no line moves.
    Padded,
}

impl TracedWorkload {
    /// The workloads that measure an allocator.
    pub const MEASURED: [Self; 5] = [Self::Own, Self::Ring, Self::All, Self::Fan, Self::Larson];

    /// The workloads that use no allocator, each with the number of lines that an operation moves
    /// on two cores.
    pub const KNOWN: [(Self, u64); 3] = [(Self::PingPong, 1), (Self::FalseSharing, 1), (Self::Padded, 0)];

    /// Returns the name of the workload on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Ring => "ring",
            Self::All => "all",
            Self::Fan => "fan",
            Self::Larson => "larson",
            Self::PingPong => "ping-pong",
            Self::FalseSharing => "false-sharing",
            Self::Padded => "padded",
        }
    }

    /// Returns the heading of the workload's table. The heading says what the threads do.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Own => "each thread allocates and frees its own blocks",
            Self::Ring => "each thread hands batches of 32 blocks to the next thread, which frees them",
            Self::All => "each thread hands each of its blocks to a random thread, which frees it",
            Self::Fan => {
                "one thread allocates, and hands neighbouring blocks to different threads, which free them"
            }
            Self::Larson => {
                "threads replace random blocks of an array, and hand the array to the next thread"
            }
            Self::PingPong => "all threads add to one word",
            Self::FalseSharing => "each thread adds to its own word, all words on as few lines as possible",
            Self::Padded => "each thread adds to its own word, each word on a line of its own",
        }
    }

    /// Returns the workload with this name, or `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::KNOWN.map(|(workload, _)| workload);
        Self::MEASURED.into_iter().chain(known).find(|workload| workload.name() == name)
    }
}

/// An allocator that the traced program can run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedContender {
    /// The name on command lines.
    pub key: &'static str,
    /// The name in tables.
    pub name: &'static str,
    /// The feature of this package that compiles the allocator in.
    pub feature: &'static str,
}

/// The allocators, in the order of tables.
pub const CONTENDERS: [TracedContender; 9] = [
    TracedContender { key: "one-ring", name: "OneRingAlloc", feature: "program" },
    TracedContender { key: "pooled-allocator", name: "PooledAllocator", feature: "program" },
    TracedContender { key: "pooled-box", name: "PooledBox", feature: "program" },
    TracedContender { key: "shared", name: "SharedArena", feature: "program" },
    TracedContender { key: "ringal", name: "RingAl", feature: "program" },
    TracedContender { key: "mimalloc", name: "mimalloc", feature: "c-peers" },
    TracedContender { key: "snmalloc", name: "snmalloc", feature: "cpp-peers" },
    TracedContender { key: "jemalloc", name: "jemalloc", feature: "c-peers" },
    TracedContender { key: "glibc", name: "glibc", feature: "program" },
];

#[cfg(test)]
mod tests {
    use super::TracedWorkload;

    #[test]
    fn every_workload_is_found_by_its_name() {
        for workload in
            TracedWorkload::MEASURED.into_iter().chain(TracedWorkload::KNOWN.map(|(known, _)| known))
        {
            assert_eq!(TracedWorkload::named(workload.name()), Some(workload));
        }
        assert_eq!(TracedWorkload::named("none"), None);
    }
}
