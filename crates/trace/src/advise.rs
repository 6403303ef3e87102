//! Computes the advice: which blocks each of the four crates could serve, what that would save, and
//! which change of allocator, if there is one, is worth it.
//!
//! The thresholds of the rules are constants here and in `offers`. The rules require a *saving*
//! first. [`TimeShare`] estimates the allocator's share of the processor time. If even the high end
//! of that share is small, the verdict is to keep the allocator. Otherwise, the rules check which
//! blocks each crate can serve, and how much memory `ring-alloc` would hold. Measured savings come
//! before assumed ones. `reasons.txt` contains the words of the reasons.
//!
//! The share divides the allocator's processor time by the program's, both summed over all threads.
//! For a trace without processor times, the denominator is the wall time of the threads, which
//! includes waiting. For a trace without any times, it is the allocator's time.
#![forbid(unsafe_code)]

use super::costs::CostSource;
use super::offers::{WORTH, cost_of, offers};
use super::profile::TraceProfile;
use super::render::render;
use super::replay::Replayed;
use super::share::{TimeShare, between};
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

pub use super::offers::Offer;

/// The extra nanoseconds of an allocation and its free if neither the block nor the allocator's
/// data is in a cache: the time of two accesses to memory.
const COLD: f64 = 200.0;
/// The number of calls below which a program keeps its allocator.
const FEW: u64 = 10_000;

/// The change of allocator that the advice recommends, or the advice to keep the allocator.
#[derive(Clone, Debug, PartialEq)]
pub enum Recommendation {
    /// Keep the present allocator.
    Keep,
    /// Try another general allocator: its name and its ratio.
    General(String, f64),
    /// Try one of our crates: its name and the origin of its saving.
    Try(&'static str, CostSource),
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
    /// The recommendation of the advice.
    #[serde(skip)]
    pub verdict: Recommendation,
    /// The reasons for the verdict.
    pub reasons: Vec<String>,
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
        let offers = offers(profile, scale, replayed, &whole);
        let (threads, verdict, reasons) = (profile.threads, Recommendation::Keep, Vec::new());
        let mut advice = Self { share, whole, threads, offers, verdict, reasons };
        (advice.verdict, advice.reasons) = advice.decide(profile.events, replayed);
        advice
    }

    /// Returns the verdict and its reasons. Few calls or a small share mean `Keep`. Otherwise,
    /// recommends the allocator with the largest measured saving. If no measured saving is worth a
    /// change, recommends the fitting crate with the largest assumed saving, if a crate fits.
    fn decide(&self, events: u64, replayed: Option<&Replayed>) -> (Recommendation, Vec<String>) {
        let share = self.share.known();
        let few = events < FEW;
        let small = share.is_some_and(|share| share.high < WORTH);
        let general = replayed.and_then(Replayed::best_general).map(|row| {
            let saving = share.map_or(1.0, |share| share.mid) * (1.0 - row.ratio.mid);
            (saving, Recommendation::General(row.name.clone(), row.ratio.mid))
        });
        let ours = self.best(true);
        let ours = ours.map(|offer| (offer.saving, Recommendation::Try(offer.name, offer.source)));
        // The sort is stable: of two equal savings, the general allocator comes first, because a
        // change to it needs less work.
        let mut found: Vec<_> = general.into_iter().chain(ours).filter(|one| one.0 >= WORTH).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let assumed = self.best(false);
        let verdict = match (found.first(), assumed) {
            _ if few || small => Recommendation::Keep,
            (Some((_, measured)), _) => measured.clone(),
            (None, Some(best)) => Recommendation::Try(best.name, best.source),
            (None, None) => Recommendation::Keep,
        };
        let measured = found.iter().map(|(saving, verdict)| match verdict {
            Recommendation::General(name, ratio) => context! { saving, name, ratio },
            Recommendation::Try(..) | Recommendation::Keep => {
                context! { saving, offer => self.advised(verdict) }
            }
        });
        let values = context! {
            few,
            small,
            events,
            measured => measured.collect::<Vec<_>>(),
            advised => self.advised(&verdict),
            assumed => Serde(assumed),
            offers => Serde(&self.offers),
            taken => share.map(between),
            source => Serde(self.share.source),
            whole => &self.whole,
            worth => WORTH,
            unsure => share.is_some_and(|share| share.low < WORTH) && replayed.is_none(),
            replayed => replayed.is_some(),
            untrusted => replayed.is_some_and(Replayed::untrusted),
        };
        let reasons = render("reasons.txt", include_str!("reasons.txt"), values);
        (verdict, reasons.lines().map(str::to_owned).collect())
    }

    /// Returns the offer that fits and saves most, or `None` if no offer fits. Considers only
    /// offers with a measured saving if `measured` is set, and only offers with an assumed one
    /// otherwise.
    fn best(&self, measured: bool) -> Option<&Offer> {
        let offers = self.offers.iter().filter(|offer| offer.fits && offer.source.is_measured() == measured);
        offers.max_by(|a, b| a.saving.total_cmp(&b.saving))
    }

    /// Returns the offer of the crate that a verdict recommends, or none.
    fn advised(&self, verdict: &Recommendation) -> Value {
        let recommended =
            |offer: &&Offer| matches!(verdict, Recommendation::Try(name, _) if *name == offer.name);
        Value::from(Serde(self.offers.iter().find(recommended)))
    }
}
