//! Replays a trace over every general allocator: time in interleaved rounds, memory in a process of
//! its own.

mod digest;
mod lane;
mod pack;
mod player;
mod program;
mod room;
mod tape;
mod timed;

use core::fmt;

use serde::{Deserialize, Serialize};

pub use self::digest::Digest;
pub use self::lane::{Lane, Ops};
pub use self::player::{Played, Player, plays};
pub use self::program::{Kind, Left, MakeError, Op, Program};
pub use self::room::{room, too_large};
pub use self::timed::{Swayed, Timed};

use self::timed::ratio;

use crate::blocks::Contender;
use crate::card::Class;
use crate::contenders::{self, ALWAYS, Entry, REFERENCE};
use crate::os;
use crate::stats::{self, Estimate, Verdict};
use crate::workloads::draws::{next_turns, stream};

/// Rounds before those that count.
const WARM_UP: u32 = 1;

/// A contender with a program, its type erased.
pub trait Play {
    /// Plays once.
    fn play(&mut self) -> Played;
}

impl<C: Contender> Play for Player<'_, C> {
    fn play(&mut self) -> Played {
        Player::play(self)
    }
}

/// Makes a player of a program; the flag says whether every page is touched.
pub type Build = for<'a> fn(&'a Program, bool) -> Box<dyn Play + 'a>;

/// How a contender of blocks replays.
#[must_use]
pub fn build<C: Contender>(program: &Program, whole: bool) -> Box<dyn Play + '_> {
    Box::new(Player::<C>::new(program, whole))
}

/// One contender's figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its key.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Time against the reference of the same round.
    pub ratio: Estimate,
    /// Whether that is a difference.
    pub verdict: Verdict,
    /// Nanoseconds of processor time an operation, waiting left out: the median.
    pub ns: f64,
    /// Most bytes resident above what the process had before, if that was measured.
    pub peak: Option<u64>,
}

/// A replay's figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// The command that was recorded.
    pub command: String,
    /// Operations of the program.
    pub ops: u64,
    /// Lanes that played.
    pub lanes: usize,
    /// Threads of the trace.
    pub threads: usize,
    /// Blocks that were left out, since they have 4 GiB or more.
    pub huge: u64,
    /// Most bytes alive at a time.
    pub peak_live: u64,
    /// Rounds that counted.
    pub rounds: u32,
    /// The seed of the order of turns.
    pub seed: u64,
    /// The contenders, the reference first.
    pub rows: Vec<Row>,
    /// Contenders that cannot play, and why.
    pub left_out: Vec<(String, String)>,
    /// What else a reader must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The reference is not among the contenders, so that there is nothing to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReference;

impl fmt::Display for NoReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no ratios without {}, which all others are compared with", ALWAYS[REFERENCE])
    }
}

impl core::error::Error for NoReference {}

impl Replayed {
    /// A contender's row.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// Nanoseconds that the reference took for the whole program.
    #[must_use]
    pub fn reference_ns(&self) -> Option<f64> {
        self.row(ALWAYS[REFERENCE]).map(|row| row.ns * self.ops as f64)
    }

    /// The fastest allocator that is none of ours and clearly faster than the reference.
    #[must_use]
    pub fn best_general(&self) -> Option<&Row> {
        let general = |row: &&Row| ["mimalloc", "jemalloc", "snmalloc"].contains(&row.key.as_str());
        let faster = self.rows.iter().filter(general).filter(|row| row.verdict == Verdict::Faster);
        faster.min_by(|a, b| a.ratio.mid.total_cmp(&b.ratio.mid))
    }

    /// Whether the reference differs from itself, so that no figure can be trusted.
    #[must_use]
    pub fn untrusted(&self) -> bool {
        let twin = self.row(ALWAYS[contenders::TWIN]);
        twin.is_some_and(|row| row.ratio.excludes_one())
    }
}

/// The published version writes to freed memory at thread exit, which corrupts the heap of the
/// whole process. It plays programs of several threads only if the user names it.
const SPOILS: &str = "upstream-one-ring";

/// The contenders that can play, and those that cannot, with the reason.
#[must_use]
pub fn players(threaded: bool, peers: &[String]) -> (Vec<Entry>, Vec<(String, String)>) {
    let mut left_out = Vec::new();
    let mut players = Vec::new();
    for entry in contenders::of(Class::Blocks) {
        let always = ALWAYS[REFERENCE..].contains(&entry.key);
        if !(always || peers.is_empty() || peers.iter().any(|peer| peer == entry.key)) {
            continue;
        }
        if threaded && entry.key == SPOILS && peers.is_empty() {
            left_out
                .push((entry.key.to_owned(), "may crash where threads end; name it in --peers".to_owned()));
        } else if entry.replay.is_some() && plays(&entry.info.caps, threaded) {
            players.push(entry);
        } else {
            let caps = entry.info.caps;
            let why = if !caps.keeps_contents {
                "holds nothing"
            } else if !caps.free_individually {
                "cannot free block by block"
            } else if !caps.any_size {
                "not for every size"
            } else {
                "one thread only"
            };
            left_out.push((entry.key.to_owned(), why.to_owned()));
        }
    }
    (players, left_out)
}

/// Plays in rounds and calls `step` after each.
///
/// # Errors
///
/// If the reference is not among the entries.
///
/// # Panics
///
/// If an entry cannot play. [`players`] returns those that can.
pub fn time(
    program: &Program,
    entries: &[Entry],
    rounds: u32,
    seed: u64,
    mut step: impl FnMut(u32),
) -> Result<Vec<Timed>, NoReference> {
    let reference = entries.iter().position(|entry| entry.key == ALWAYS[REFERENCE]).ok_or(NoReference)?;
    let build = |entry: &Entry| entry.replay.expect("an entry of `players`")(program, false);
    let mut cells: Vec<_> = entries.iter().map(build).collect();
    let mut rng = stream(seed, 8);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); cells.len()];
    for round in 0..WARM_UP + rounds {
        next_turns(&mut rng, &mut order);
        for &index in &order {
            let busy = cells[index].play().busy;
            if round >= WARM_UP {
                samples[index].push(busy.max(1) as f64);
            }
        }
        step(round);
    }
    let logs = |index: usize| -> Vec<f64> {
        let pairs = samples[index].iter().zip(&samples[reference]);
        pairs.map(|(mine, theirs)| (mine / theirs).ln()).collect()
    };
    let twin = entries.iter().position(|entry| entry.key == ALWAYS[contenders::TWIN]).map(logs);
    let floor = twin.map_or(0.0, |twin| (ratio(&twin, seed).mid - 1.0).abs());
    let figures = (0..entries.len()).map(|index| {
        let ns = stats::median(&mut samples[index].clone()).unwrap_or(0.0) / program.ops.max(1) as f64;
        Timed::of(&logs(index), ns, floor, seed)
    });
    Ok(figures.collect())
}

/// Plays once over one contender and says how much the process grew; every page is touched if
/// `whole`.
///
/// # Panics
///
/// As [`time`].
#[must_use]
pub fn memory(program: &Program, entry: &Entry, whole: bool) -> Option<u64> {
    let mut cell = entry.replay.expect("an entry of `players`")(program, whole);
    os::trim();
    os::reset_peak();
    let before = os::resident()?;
    cell.play();
    Some(os::resident_peak()?.saturating_sub(before))
}
