//! Judges which blocks each of the four crates could serve, what that would save, and whether the
//! crate fits.
#![forbid(unsafe_code)]

use super::costs::{Cost, CostSource, Costs};
use super::order::FreeOrder;
use super::profile::{BlockCounts, TraceProfile, class_end, part};
use super::replay::{ReplayRow, Replayed};
use super::units;
use ephemera_measure::stats;
use serde::Serialize;

/// The most bytes that `ring-alloc` may hold, as a multiple of the peak of live bytes. If it holds
/// more, it still fits if it holds at most [`HOLDS_MORE`] bytes more than that peak.
const HOLDS: f64 = 2.0;
const HOLDS_MORE: u64 = 4 << 20;
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

/// Returns one offer for each crate. `scale` converts nanoseconds of the harness's table into a
/// share of the run. `whole` is the denominator of the savings, in words.
pub(super) fn offers(
    profile: &TraceProfile,
    scale: f64,
    replayed: Option<&Replayed>,
    whole: &str,
) -> Vec<Offer> {
    let judge = OfferJudge { profile, all: profile.all(), scale, replayed, whole };
    vec![judge.ring(), judge.pool(), judge.arena(), judge.buffers()]
}

/// Returns the nanoseconds that the calls for these blocks take in an allocator with this cost;
/// `None` means the system's allocator. `small` selects the price of blocks of up to 1 KiB.
fn price(counts: &BlockCounts, small: bool, cost: Option<&Cost>) -> f64 {
    let [small_pair, large_pair, remote_pair] = Costs::recorded().system;
    let pair = if small { small_pair } else { large_pair };
    let remote = part(counts.elsewhere, counts.freed) * counts.blocks as f64;
    let local = counts.blocks as f64 - remote;
    let resized = counts.resizes as f64 * pair;
    let Some(cost) = cost else { return remote * remote_pair + local * pair + resized };
    let loose = counts.share(&[FreeOrder::None]);
    remote * remote_pair * cost.elsewhere
        + local * pair * (loose * cost.unordered + (1.0 - loose) * cost.ordered)
        + resized
}

/// Returns the nanoseconds that the calls for blocks of the size classes selected by `wanted`
/// take.
pub(super) fn cost_of(profile: &TraceProfile, cost: Option<&Cost>, wanted: impl Fn(usize) -> bool) -> f64 {
    let classes = profile.classes.iter().enumerate().filter(|(class, _)| wanted(*class));
    classes.map(|(class, counts)| price(counts, up_to(1 << 10)(class), cost)).sum()
}

/// Returns a function that selects the size classes of blocks of at most `most` bytes.
fn up_to(most: u64) -> impl Fn(usize) -> bool {
    move |class| class_end(class).is_some_and(|end| end <= most)
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

    /// Returns the saving of one of our contenders in the replay, as a share of the run, and the
    /// contender's result in words. The saving is 0 if the replay found no difference. Returns
    /// `None` if the contender did not take part in a replay.
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
        let too_much = times > HOLDS && holds > alive.saturating_add(HOLDS_MORE);
        let (holds, alive) = (units::bytes(holds), units::bytes(alive));
        let live = if too_much {
            format!("{times:.2} times the {alive} that are live")
        } else {
            format!("and {alive} are live")
        };
        let chunks = format!("its chunks would hold at most {holds}, {live}");
        let types =
            "only for types that can name an allocator: not `String`, nor `Vec` and the maps of `std`";
        let reasons = said.into_iter().chain([chunks, types.to_owned()]).collect();
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
        let line =
            "this needs one line: `#[global_allocator] static HEAP: PooledAllocator = PooledAllocator;`";
        self.offer("typed-pool", (small.blocks, small.bytes), saving, vec![said, line.to_owned()], None)
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
