//! Computes the advice: which blocks each of the four crates could serve, what that would save, and
//! whether the change is worth it.
//!
//! The thresholds of the rules are constants here and in `verdict`. The rules require a *saving*
//! first. [`TimeShare`] estimates the allocator's share of the processor time. If even the high end
//! of that share is small, the verdict is to keep the allocator. Otherwise, the rules check which
//! blocks each crate can serve, and how much memory `ring-alloc` would hold.
//!
//! The share divides the allocator's processor time by the program's, both summed over all threads.
//! For a trace without processor times, the denominator is the wall time of the threads, which
//! includes waiting. For a trace without any times, it is the allocator's time.
#![forbid(unsafe_code)]

use super::costs::{Cost, CostSource, Costs};
use super::order::FreeOrder;
use super::profile::{BlockCounts, TraceProfile, class_end, part};
use super::replay::{ReplayRow, Replayed};
use super::share::TimeShare;
use super::units;
use ephemera_measure::grid::mib;
use ephemera_measure::stats;
use serde::Serialize;

pub use super::verdict::Recommendation;

/// The most bytes that `ring-alloc` may hold, as a multiple of the peak of live bytes. If it holds
/// more, it still fits if it holds at most [`HOLDS_MORE`] bytes more than that peak.
const HOLDS: f64 = 2.0;
const HOLDS_MORE: u64 = 4 << 20;
/// The extra nanoseconds of an allocation and its free if neither the block nor the allocator's
/// data is in a cache: the time of two accesses to memory.
const COLD: f64 = 200.0;
/// The largest block in `ring-alloc`'s chunks, in bytes.
const RING_MOST: u64 = 64 << 10;
/// The largest object of a pool in bytes, and the maximum number of sizes that get a pool.
const POOL_MOST: u64 = 1 << 10;
const POOL_SIZES: usize = 8;
/// The sizes in bytes that suit a ring of buffers: above the first and up to the second. `IN_ORDER`
/// is the smallest share of freed blocks that must be freed at once or oldest first.
const BUFFERS: (u64, u64) = (64, 64 << 10);
const IN_ORDER: f64 = 0.9;
/// The smallest share of all blocks that a crate must serve.
const SERVES: f64 = 0.3;

/// The smallest saving that is worth a change, as a share of the run.
pub(super) const WORTH: f64 = 0.02;

/// The blocks that one crate could serve, the expected saving, and whether the crate fits.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// The name of the crate.
    pub name: &'static str,
    /// The blocks that the crate could serve, as a share of all blocks.
    pub blocks: f64,
    /// The bytes of these blocks, as a share of all bytes.
    pub bytes: f64,
    /// The expected saving, as a share of the run. If the trace has no times, it is a share of the
    /// allocator's time.
    pub saving: f64,
    /// The origin of the figures behind `saving`.
    pub source: CostSource,
    /// Whether the crate fits the program, by the rules of the advice.
    pub fits: bool,
    /// The reasons for and against the crate.
    pub reasons: Vec<String>,
}

/// The advice for one trace.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The allocator's shares of processor time and of wall time, as intervals.
    pub share: TimeShare,
    /// The denominator of the savings and of the allocator's share, in words.
    pub whole: String,
    /// The number of threads of the trace.
    pub threads: u64,
    /// One offer for each crate.
    pub offers: Vec<Offer>,
    /// The recommended change of allocator, if any.
    #[serde(skip)]
    pub verdict: Recommendation,
    /// The reasons for the verdict.
    pub reasons: Vec<String>,
}

/// Returns the nanoseconds that the calls for these blocks take in an allocator with this cost;
/// `None` means the system's allocator. `small` selects the price of blocks of up to 1 KiB.
fn price(counts: &BlockCounts, small: bool, cost: Option<&Cost>) -> f64 {
    let [low, high, far] = Costs::recorded().system;
    let here = if small { low } else { high };
    let there = part(counts.elsewhere, counts.freed) * counts.blocks as f64;
    let at_home = counts.blocks as f64 - there;
    let resized = counts.resizes as f64 * here;
    let Some(cost) = cost else { return there * far + at_home * here + resized };
    let loose = counts.share(&[FreeOrder::None]);
    there * far * cost.elsewhere
        + at_home * here * (loose * cost.unordered + (1.0 - loose) * cost.ordered)
        + resized
}

/// Returns the nanoseconds that the calls for blocks of the size classes selected by `wanted`
/// take.
fn cost_of(profile: &TraceProfile, cost: Option<&Cost>, wanted: impl Fn(usize) -> bool) -> f64 {
    let classes = profile.classes.iter().enumerate().filter(|(class, _)| wanted(*class));
    classes.map(|(class, counts)| price(counts, up_to(1 << 10)(class), cost)).sum()
}

/// Returns a function that selects the size classes of blocks of at most `most` bytes.
fn up_to(most: u64) -> impl Fn(usize) -> bool {
    move |class| class_end(class).is_some_and(|end| end <= most)
}

impl Advice {
    /// Returns the advice for a profile, with the figures of a replay if there are any.
    pub fn of(profile: &TraceProfile, replayed: Option<&Replayed>) -> Self {
        let estimated = cost_of(profile, None, |_| true);
        let cold = estimated + COLD * profile.all().blocks as f64;
        let share = TimeShare::of(profile, [estimated, cold], replayed.and_then(Replayed::reference_ns));
        let heap = share.heap.mid;
        let run = share.processor.or(share.wall).map_or(heap, |whole| whole.mid).max(1.0);
        // A replay measures the cost of all calls together, so the harness's table determines how
        // that cost is spread over the classes.
        let scale = if estimated > 0.0 { heap / estimated / run } else { 0.0 };
        let whole = match (share.processor, share.wall) {
            (Some(_), _) => "the program's processor time".to_owned(),
            (None, None) => "the time of its heap calls".to_owned(),
            (None, Some(_)) if profile.threads > 1 => format!("the time of its {} threads", profile.threads),
            (None, Some(_)) => "the run".to_owned(),
        };
        let judge = OfferJudge { profile, all: profile.all(), scale, replayed, whole: &whole };
        let offers = vec![judge.ring(), judge.pool(), judge.arena(), judge.buffers()];
        let (threads, verdict, reasons) = (profile.threads, Recommendation::Keep, Vec::new());
        let mut advice = Self { share, whole, threads, offers, verdict, reasons };
        (advice.verdict, advice.reasons) = advice.decide(profile.events, replayed);
        advice
    }
}

struct OfferJudge<'a> {
    profile: &'a TraceProfile,
    all: BlockCounts,
    /// The factor that converts nanoseconds of the table into a share of the run.
    scale: f64,
    replayed: Option<&'a Replayed>,
    /// The denominator of the savings, in words.
    whole: &'a str,
}

impl OfferJudge<'_> {
    /// Returns the offer of a crate. `served` has the numbers of blocks and bytes that the crate
    /// could serve. The crate fits if it serves at least the share [`SERVES`] of the blocks and
    /// saves at least [`WORTH`], and if there is no reason `against` it.
    fn offer(
        &self,
        name: &'static str,
        served: (u64, u64),
        (saving, source): (f64, CostSource),
        mut reasons: Vec<String>,
        against: Option<String>,
    ) -> Offer {
        let (blocks, bytes) = (part(served.0, self.all.blocks), part(served.1, self.all.bytes));
        let saving = saving.max(0.0);
        let against = against.or_else(|| {
            if blocks < SERVES {
                Some(format!("{} of the blocks are too few for a change", units::share(blocks)))
            } else if saving < WORTH {
                Some(format!("about {} of {} is not worth a change", units::share(saving), self.whole))
            } else {
                None
            }
        });
        let fits = against.is_none();
        reasons.extend(against);
        Offer { name, blocks, bytes, saving, source, fits, reasons }
    }

    /// Returns the saving of one of our contenders in the replay, as a share of the run, and its
    /// result in words. The saving is 0 if the replay found no difference. Returns `None` if the
    /// contender did not take part in a replay.
    fn measured(&self, key: &str) -> Option<((f64, CostSource), String)> {
        let ReplayRow { name, ratio, verdict, .. } = self.replayed?.row(key)?;
        let less = if *verdict == stats::Verdict::Same { 0.0 } else { 1.0 - ratio.mid };
        let saving = cost_of(self.profile, None, |_| true) * less * self.scale;
        let said = format!("{name} replayed this trace in {:.2} of the time", ratio.mid);
        Some(((saving, CostSource::Replay), said))
    }

    fn ring(&self) -> Offer {
        let small = up_to(RING_MOST);
        let served = self.profile.of_classes(&small);
        let cost = &Costs::recorded().ring;
        let less = cost_of(self.profile, None, &small) - cost_of(self.profile, Some(cost), &small);
        let (measured, said) = self.measured("one-ring").unzip();
        let saving = measured.unwrap_or((less * self.scale, cost.source));
        let (holds, alive) = (self.profile.ring_peak, self.profile.peak_bytes);
        let times = holds as f64 / alive.max(1) as f64;
        let chunks = format!(
            "its chunks would hold at most {} MiB, {times:.2} times the {} MiB that are live",
            mib(holds),
            mib(alive)
        );
        let reasons = said.into_iter().chain([chunks]).collect();
        let too_much = times > HOLDS && holds > alive.saturating_add(HOLDS_MORE);
        let against =
            too_much.then(|| "long-lived blocks are mixed with short-lived ones and hold chunks".to_owned());
        self.offer("ring-alloc", (served.blocks, served.bytes), saving, reasons, against)
    }

    /// Returns the offer of pools for the most common sizes up to [`POOL_MOST`] bytes, at most
    /// `most` pools.
    fn pools(&self, name: &'static str, most: usize, cost: &Cost) -> Offer {
        let small = |&&(size, _): &&(u64, u64)| size > 0 && size <= POOL_MOST;
        let sizes: Vec<(u64, u64)> = self.profile.sizes.iter().filter(small).take(most).copied().collect();
        let blocks: u64 = sizes.iter().map(|(_, blocks)| blocks).sum();
        let bytes: u64 = sizes.iter().map(|(size, blocks)| size * blocks).sum();
        let small = self.profile.of_classes(up_to(POOL_MOST));
        let share = part(blocks, small.blocks);
        let saving = (price(&small, true, None) - price(&small, true, Some(cost))) * share * self.scale;
        let listed: Vec<String> = sizes.iter().map(|(size, _)| size.to_string()).collect();
        let said = || format!("as pools for the sizes {} bytes, if each is one type", listed.join(", "));
        let reasons = (blocks > 0).then(said).into_iter().collect();
        self.offer(name, (blocks, bytes), (saving, cost.source), reasons, None)
    }

    fn pool(&self) -> Offer {
        let Some((saving, said)) = self.measured("pooled-allocator") else {
            return self.pools("typed-pool", POOL_SIZES, &Costs::recorded().pool);
        };
        // In the replay, the crate served every size, and not only the most common ones.
        let small = self.profile.of_classes(up_to(POOL_MOST));
        self.offer("typed-pool", (small.blocks, small.bytes), saving, vec![said], None)
    }

    fn arena(&self) -> Offer {
        self.pools("shared_arena", 1, &Costs::recorded().arena)
    }

    fn buffers(&self) -> Offer {
        let orders = [FreeOrder::AtOnce, FreeOrder::Fifo];
        let fits = |class: usize| {
            let counts = &self.profile.classes[class];
            class_end(class).is_some_and(|end| end > BUFFERS.0 && end <= BUFFERS.1)
                && counts.freed * 10 >= counts.blocks * 9
                && counts.share(&orders) >= IN_ORDER
        };
        let served = self.profile.of_classes(fits);
        let cost = &Costs::recorded().buffers;
        let less = cost_of(self.profile, None, fits) - cost_of(self.profile, Some(cost), fits);
        let said = if served.blocks == 0 {
            "no size class from 65 bytes to 64 KiB is freed at once or oldest first"
        } else {
            "as byte buffers: these size classes are freed at once or oldest first"
        };
        let saving = (less * self.scale, cost.source);
        self.offer("ringal", (served.blocks, served.bytes), saving, vec![said.to_owned()], None)
    }
}
