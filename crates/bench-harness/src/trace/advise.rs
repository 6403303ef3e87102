//! The verdict: what each of the four crates could serve, what that would save, and whether it is worth it.
//!
//! The rules are few and stand here as constants. They ask for a *saving* first: what the allocator takes of the run's time is
//! estimated from the number of calls, and if that is little, no allocator can help. Then each crate is asked whether it can
//! serve the blocks at all, and what it would hold.
#![forbid(unsafe_code)]

use super::costs::{ASSUMED, Cost, RING, SYSTEM};
use super::profile::{Counts, Profile, class_end, part};
use super::replay::Replayed;
use super::{Order, Source};

/// Fewer calls than this are nobody's bottleneck.
const FEW: u64 = 10_000;
/// A saving below this share of the run is not worth a change.
const WORTH: f64 = 0.02;
/// `ring-alloc` may hold this many times the peak of live bytes, or so many bytes more than it.
const HOLDS: f64 = 2.0;
const HOLDS_MORE: u64 = 4 << 20;
/// Largest block of `ring-alloc`'s chunks.
const RING_MOST: u64 = 64 << 10;
/// Largest object of a pool, and how many sizes a program would make pools for.
const POOL_MOST: u64 = 1 << 10;
const POOL_SIZES: usize = 8;
/// Sizes that a ring of buffers is for, and the share of blocks that must go at once or oldest first.
const BUFFERS: (u64, u64) = (64, 64 << 10);
const IN_ORDER: f64 = 0.9;
/// The share of all blocks that a crate must serve to be worth a change.
const SERVES: f64 = 0.3;

/// What a crate would do for the program.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The crate.
    pub name: &'static str,
    /// Blocks that it could serve, as a share of all.
    pub blocks: f64,
    /// Bytes of them, as a share of all.
    pub bytes: f64,
    /// The expected saving, as a share of the run's time; of what the heap's calls take, where the trace has no times.
    pub saving: f64,
    /// Where the figure of its cost is from.
    pub source: Source,
    /// Whether the rules would have it.
    pub fits: bool,
    /// Why, or why not.
    pub reasons: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Another general allocator: its name, and its ratio.
    General(String, f64),
    /// A crate of ours.
    Try(&'static str),
}

/// The advice.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Nanoseconds spent in the allocator, as estimated or replayed.
    pub heap_time: f64,
    /// The same as a share of the run; none where the trace has no times.
    pub heap_share: Option<f64>,
    /// Where it is from.
    pub source: Source,
    /// The four crates.
    pub offers: Vec<Offer>,
    /// What to do.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<String>,
}

/// Nanoseconds for blocks over the system's allocator, and over one of a cost.
fn price(counts: &Counts, small: bool, cost: Option<&Cost>) -> f64 {
    let (low, high, far) = SYSTEM;
    let here = if small { low } else { high };
    let there = part(counts.elsewhere, counts.freed) * counts.blocks as f64;
    let at_home = counts.blocks as f64 - there;
    let resized = counts.resizes as f64 * here;
    let Some(cost) = cost else { return there * far + at_home * here + resized };
    let loose = counts.share(&[Order::None]);
    there * far * cost.elsewhere
        + at_home * here * (loose * cost.unordered + (1.0 - loose) * cost.ordered)
        + resized
}

/// Nanoseconds for the classes whose largest size is wanted.
fn cost_of(profile: &Profile, cost: Option<&Cost>, wanted: impl Fn(usize) -> bool) -> f64 {
    profile
        .classes
        .iter()
        .enumerate()
        .filter(|(class, _)| wanted(*class))
        .map(|(class, counts)| price(counts, class_end(class).is_some_and(|end| end <= 1 << 10), cost))
        .sum()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl Advice {
    /// Judges a profile, with the figures of a replay if there was one.
    #[must_use]
    pub fn of(profile: &Profile, replayed: Option<&Replayed>) -> Self {
        let estimated = cost_of(profile, None, |_| true);
        let (heap_time, source) = match replayed.and_then(|replayed| replayed.reference_ns()) {
            Some(ns) => (ns, Source::Replay),
            None => (estimated, Source::Table),
        };
        // No run is shorter than the calls in it.
        let run = heap_time.max(profile.time as f64).max(1.0);
        let heap_share = (profile.time > 0).then_some(heap_time / run);
        // A replay says what all calls cost; the table says how that is spread.
        let scale = if estimated > 0.0 { heap_time / estimated / run } else { 0.0 };
        let judge = Judge { profile, all: profile.all(), scale, replayed, whole: whole(heap_share) };
        let offers = vec![judge.ring(), judge.pool(), judge.arena(), judge.buffers()];
        let (verdict, reasons) = verdict(profile, heap_share, &offers, replayed);
        Self { heap_time, heap_share, source, offers, verdict, reasons }
    }
}

/// What savings are a share of.
pub(super) const fn whole(heap_share: Option<f64>) -> &'static str {
    match heap_share {
        Some(_) => "the run",
        None => "what its heap calls take",
    }
}

/// Few enough calls, or little enough time: keep. Else the crate that saves most; else a general allocator that does; else keep.
fn verdict(
    profile: &Profile,
    heap_share: Option<f64>,
    offers: &[Offer],
    replayed: Option<&Replayed>,
) -> (Verdict, Vec<String>) {
    let mut reasons = Vec::new();
    if profile.events < FEW {
        reasons.push(format!("{} calls are too few to matter", profile.events));
        return (Verdict::Keep, reasons);
    }
    match heap_share {
        Some(share) if share < WORTH => {
            reasons.push(format!(
                "the allocator takes about {} of the run: an allocator that took no time would save no more",
                percent(share)
            ));
            return (Verdict::Keep, reasons);
        }
        Some(share) => reasons.push(format!("the allocator takes about {} of the run", percent(share))),
        None => reasons.push(
            "the trace has no times, so nothing says what the allocator takes of the run: see to that first"
                .to_owned(),
        ),
    }
    let whole = whole(heap_share);
    let best = offers.iter().filter(|offer| offer.fits).max_by(|a, b| a.saving.total_cmp(&b.saving));
    if let Some(best) = best {
        reasons.push(format!(
            "{} could serve {} of the blocks and save about {} of {whole}",
            best.name,
            percent(best.blocks),
            percent(best.saving)
        ));
        reasons.extend(best.reasons.iter().cloned());
        return (Verdict::Try(best.name), reasons);
    }
    for offer in offers {
        reasons.extend(offer.reasons.last().map(|why| format!("{}: {why}", offer.name)));
    }
    if let Some(row) = replayed.and_then(Replayed::best_general) {
        let saving = heap_share.unwrap_or(1.0) * (1.0 - row.ratio.mid);
        if saving >= WORTH {
            reasons.push(format!(
                "{} replayed this trace in {:.2} of the time: some {} of {whole}, for one line of code",
                row.name,
                row.ratio.mid,
                percent(saving)
            ));
            return (Verdict::General(row.name.clone(), row.ratio.mid), reasons);
        }
    } else if replayed.is_none() {
        reasons.push(
            "a general allocator such as mimalloc may still help: `cargo xtask replay` measures that"
                .to_owned(),
        );
    }
    (Verdict::Keep, reasons)
}

struct Judge<'a> {
    profile: &'a Profile,
    all: Counts,
    /// From nanoseconds of the table to a share of the run.
    scale: f64,
    replayed: Option<&'a Replayed>,
    /// What savings are a share of.
    whole: &'static str,
}

impl Judge<'_> {
    /// An offer for what is served, which would take `cost`.
    fn offer(&self, name: &'static str, served: (u64, u64), saving: f64, source: Source) -> Offer {
        Offer {
            name,
            blocks: part(served.0, self.all.blocks),
            bytes: part(served.1, self.all.bytes),
            saving: saving.max(0.0),
            source,
            fits: false,
            reasons: Vec::new(),
        }
    }

    /// Ends the judgement: an offer fits if it serves enough and saves enough and nothing else speaks against it.
    fn settle(&self, mut offer: Offer, against: Option<String>, least: f64) -> Offer {
        let against = against.or_else(|| {
            if offer.blocks < least {
                Some(format!("{} of the blocks are too few to change a program for", percent(offer.blocks)))
            } else if offer.saving < WORTH {
                Some(format!("about {} of {} is not worth a change", percent(offer.saving), self.whole))
            } else {
                None
            }
        });
        offer.fits = against.is_none();
        offer.reasons.extend(against);
        offer
    }

    fn ring(&self) -> Offer {
        let small = |end: u64| end <= RING_MOST;
        let served = self.profile.of_classes(small);
        let in_class = |class: usize| class_end(class).is_some_and(small);
        let (before, table) =
            (cost_of(self.profile, None, in_class), cost_of(self.profile, Some(&RING), in_class));
        let (saving, source) = match self.replayed.and_then(|replayed| replayed.row("one-ring")) {
            Some(row) => {
                let all = cost_of(self.profile, None, |_| true);
                (all * (1.0 - row.ratio.mid) * self.scale, Source::Replay)
            }
            None => ((before - table) * self.scale, Source::Table),
        };
        let mut offer = self.offer("ring-alloc", (served.blocks, served.bytes), saving, source);
        let (holds, alive) = (self.profile.ring_peak, self.profile.peak_bytes);
        let times = holds as f64 / alive.max(1) as f64;
        offer.reasons.push(format!(
            "its chunks would hold {} at most, {times:.2} times the {} alive",
            mib(holds),
            mib(alive)
        ));
        let too_much = times > HOLDS && holds > alive + HOLDS_MORE;
        let against = too_much
            .then(|| "blocks that stay for long are mixed into the traffic and hold chunks".to_owned());
        self.settle(offer, against, SERVES)
    }

    /// The commonest sizes that a pool could take.
    fn common(&self, most: usize) -> Vec<(u64, u64, u64)> {
        let small = |&&(size, _, _): &&(u64, u64, u64)| size > 0 && size <= POOL_MOST;
        self.profile.sizes.iter().filter(small).take(most).copied().collect()
    }

    fn pools(&self, name: &'static str, sizes: &[(u64, u64, u64)]) -> Offer {
        let blocks: u64 = sizes.iter().map(|(_, blocks, _)| blocks).sum();
        let bytes: u64 = sizes.iter().map(|(size, blocks, _)| size * blocks).sum();
        let small = self.profile.of_classes(|end| end <= POOL_MOST);
        let share = part(blocks, small.blocks);
        let saving = (price(&small, true, None) - price(&small, true, Some(&ASSUMED))) * share * self.scale;
        let mut offer = self.offer(name, (blocks, bytes), saving, Source::Assumed);
        let listed: Vec<String> = sizes.iter().map(|(size, ..)| size.to_string()).collect();
        if !listed.is_empty() {
            offer
                .reasons
                .push(format!("as pools for the sizes {} bytes, if each is one type", listed.join(", ")));
        }
        offer
    }

    fn pool(&self) -> Offer {
        let offer = self.pools("typed-pool", &self.common(POOL_SIZES));
        self.settle(offer, None, SERVES)
    }

    fn arena(&self) -> Offer {
        let offer = self.pools("shared_arena", &self.common(1));
        self.settle(offer, None, SERVES)
    }

    fn buffers(&self) -> Offer {
        let orders = [Order::AtOnce, Order::Fifo];
        let fits = |class: usize| {
            let counts = &self.profile.classes[class];
            class_end(class).is_some_and(|end| end > BUFFERS.0 && end <= BUFFERS.1)
                && counts.freed * 10 >= counts.blocks * 9
                && counts.share(&orders) >= IN_ORDER
        };
        let mut served = Counts::default();
        (0..self.profile.classes.len()).filter(|&class| fits(class)).for_each(|class| {
            served.merge(&self.profile.classes[class]);
        });
        let saving =
            (cost_of(self.profile, None, fits) - cost_of(self.profile, Some(&ASSUMED), fits)) * self.scale;
        let mut offer = self.offer("ringal", (served.blocks, served.bytes), saving, Source::Assumed);
        offer.reasons.push(
            if served.blocks == 0 {
                "no class of sizes from 65 bytes to 64 KiB goes at once or oldest first"
            } else {
                "as byte buffers: these classes go at once or oldest first"
            }
            .to_owned(),
        );
        self.settle(offer, None, SERVES)
    }
}
