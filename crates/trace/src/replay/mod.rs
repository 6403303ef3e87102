//! Replays a trace over several allocators. A replay measures time in interleaved rounds, and the
//! memory of each allocator in a separate process.
//!
//! The caller passes the allocators as a list of [`Candidate`]s. [`Candidate::new`] creates a
//! candidate from any type that implements [`GlobalAlloc`], [`Default`] and [`Sync`].
//! [`ReplayProgram`] is a trace in the form that is played, [`Player`] plays it, and [`run`] is
//! the whole command.

mod command;
mod digest;
mod lane;
mod memory;
mod op;
mod pack;
mod parent;
mod player;
mod program;
mod replayed;
mod room;
mod timed;

use core::alloc::GlobalAlloc;

pub use self::command::{ReplayOptions, run};
pub use self::digest::Digest;
pub use self::lane::Lane;
pub use self::memory::SUBCOMMAND;
pub use self::op::{Action, ProgramOp};
pub use self::player::Player;
pub use self::program::ReplayProgram;
pub use self::replayed::{REFERENCE, ReplayRow, Replayed, TWIN};
pub use self::timed::{Swayed, Timed, time};

/// A function that creates a player of a program, and returns a closure that calls [`Player::play`]
/// on it. The flag says whether the player touches every page of a block.
pub type BuildPlayer = for<'a> fn(&'a ReplayProgram, bool) -> Box<dyn FnMut() -> u64 + 'a>;

/// An allocator that a replay measures.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The candidate's key: its name in `--peers` and in `.replay.json` files.
    pub key: &'static str,
    /// The candidate's name in the tables.
    pub name: &'static str,
    /// Creates a player that runs a program over the candidate.
    pub build: BuildPlayer,
}

impl Candidate {
    /// Returns a candidate for an allocator that any thread may use.
    pub fn new<A: GlobalAlloc + Default + Sync + 'static>(key: &'static str, name: &'static str) -> Self {
        let build: BuildPlayer = |program, whole| {
            let mut player = Player::new(A::default(), program, whole);
            Box::new(move || player.play())
        };
        Self { key, name, build }
    }
}

/// The candidates of one replay, and the allocators that cannot take part.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// The candidates that take part, the reference first.
    pub candidates: Vec<Candidate>,
    /// The key of each allocator that cannot take part, and the reason.
    pub left_out: Vec<(String, String)>,
}

#[cfg(test)]
mod tests;
