//! Decides which change of allocator the advice recommends, if any. Measured savings come before
//! assumed ones. `reasons.txt` contains the words of the reasons.
//!
//! A program with few calls, or with a small share of its time in the allocator, keeps its
//! allocator. Otherwise, the verdict names the allocator with the largest saving in a replay: a
//! general one, or one of our crates. If no measured saving is worth a change, the verdict names
//! the crate that fits and has the largest assumed saving.
#![forbid(unsafe_code)]

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::advise::{Advice, Offer, WORTH};
use super::costs::CostSource;
use super::render::render;
use super::replay::Replayed;
use super::share::between;

/// The number of calls below which a program keeps its allocator.
const FEW: u64 = 10_000;

/// The change of allocator that the advice recommends, if any.
#[derive(Clone, Debug, PartialEq)]
pub enum Recommendation {
    /// Keep the present allocator.
    Keep,
    /// Try another general allocator: its name and its ratio.
    General(String, f64),
    /// Try one of our crates: its name and the origin of its saving.
    Try(&'static str, CostSource),
}

impl Advice {
    /// Returns the verdict and its reasons. Few calls or a small share mean `Keep`. Otherwise,
    /// recommends the allocator with the largest measured saving. If no measured saving is worth a
    /// change, recommends the crate with the largest assumed saving among those that fit, if any.
    pub(super) fn decide(&self, events: u64, replayed: Option<&Replayed>) -> (Recommendation, Vec<String>) {
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

    /// Returns the offer that fits and saves most; `None` if no offer fits. `measured` selects the
    /// offers to consider: those with a measured saving, or those with an assumed one.
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
