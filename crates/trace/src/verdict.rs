//! Decides which change of allocator the advice recommends, if any. Measured savings come before
//! assumed ones.
//!
//! A replay measures general allocators and some of our crates. The verdict names the allocator
//! that saves most. If none of these saves enough, the verdict names the crate whose saving is
//! assumed to be the largest.
#![forbid(unsafe_code)]

use super::advise::Advice;
use super::costs::CostSource;
use super::offer::{Offer, WORTH, percent};
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
    /// change, recommends the crate that fits with the largest assumed saving, if any.
    pub(super) fn decide(&self, events: u64, replayed: Option<&Replayed>) -> (Recommendation, Vec<String>) {
        let mut reasons = Vec::new();
        if events < FEW {
            reasons.push(format!("{events} calls are too few to matter"));
            return (Recommendation::Keep, reasons);
        }
        let whole = &self.whole;
        match self.share.known() {
            Some(share) if share.high < WORTH => {
                reasons.push(format!(
                    "the allocator takes {} of {whole}, by {}: too little to change anything",
                    between(share),
                    self.share.source.said()
                ));
                return (Recommendation::Keep, reasons);
            }
            Some(share) => {
                reasons.push(format!("the allocator takes {} of {whole}", between(share)));
                if share.low < WORTH && replayed.is_none() {
                    reasons.push(format!(
                        "that may be less than the {} that justify a change: `cargo xtask replay` narrows the range",
                        percent(WORTH)
                    ));
                }
            }
            None => reasons.push(
                "the trace has no times, so the allocator's share of the run is unknown: measure it first"
                    .to_owned(),
            ),
        }
        if replayed.is_some_and(Replayed::untrusted) {
            reasons.push("the replay is marked untrusted: repeat it before you act on it".to_owned());
        }
        let measured = self.measured(replayed, &mut reasons);
        let verdict = measured.unwrap_or_else(|| self.assumed(replayed.is_some(), &mut reasons));
        (verdict, reasons)
    }

    /// Returns the offer that fits and saves most. `measured` selects the offers to consider:
    /// those with a measured saving, or those with an assumed one.
    fn best(&self, measured: bool) -> Option<&Offer> {
        let offers = self.offers.iter().filter(|offer| offer.fits && offer.source.is_measured() == measured);
        offers.max_by(|a, b| a.saving.total_cmp(&b.saving))
    }

    fn measured(&self, replayed: Option<&Replayed>, reasons: &mut Vec<String>) -> Option<Recommendation> {
        let whole = &self.whole;
        let general = replayed.and_then(Replayed::best_general).map(|row| {
            let saving = self.share.known().map_or(1.0, |share| share.mid) * (1.0 - row.ratio.mid);
            let said = format!(
                "measured: {} replayed this trace in {:.2} of the time: some {} of {whole}, for one line of code",
                row.name,
                row.ratio.mid,
                percent(saving)
            );
            (saving, Recommendation::General(row.name.clone(), row.ratio.mid), said)
        });
        let ours = self.best(true).map(|offer| {
            let said = format!(
                "measured: {} could serve {} of the blocks and saves {} of {whole}",
                offer.name,
                percent(offer.blocks),
                percent(offer.saving)
            );
            (offer.saving, Recommendation::Try(offer.name, offer.source), said)
        });
        // The sort is stable: of two equal savings, the general allocator comes first, because a
        // change to it needs less work.
        let mut found: Vec<_> = general.into_iter().chain(ours).filter(|one| one.0 >= WORTH).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (saving, verdict) = found.first().map(|one| (one.0, one.1.clone()))?;
        reasons.extend(found.into_iter().map(|one| one.2));
        if let Recommendation::Try(name, _) = &verdict {
            self.explain(name, reasons);
        }
        if let Some(more) = self.best(false).filter(|offer| offer.saving > saving) {
            reasons.push(format!(
                "{} might save {} of {whole}, but this figure is assumed, not measured",
                more.name,
                percent(more.saving)
            ));
        }
        Some(verdict)
    }

    fn assumed(&self, replayed: bool, reasons: &mut Vec<String>) -> Recommendation {
        let verdict = if let Some(best) = self.best(false) {
            reasons.push(format!(
                "{} could serve {} of the blocks and is assumed to save {} of {}: this trace was not replayed with it",
                best.name,
                percent(best.blocks),
                percent(best.saving),
                self.whole
            ));
            self.explain(best.name, reasons);
            Recommendation::Try(best.name, best.source)
        } else {
            for offer in &self.offers {
                reasons.extend(offer.reasons.last().map(|why| format!("{}: {why}", offer.name)));
            }
            Recommendation::Keep
        };
        reasons.push(if replayed {
            format!("no replayed allocator that fits saves {}", percent(WORTH))
        } else {
            "a general allocator such as mimalloc may help as well or more: `cargo xtask replay` measures that"
                .to_owned()
        });
        verdict
    }

    fn explain(&self, name: &str, reasons: &mut Vec<String>) {
        let offer = self.offers.iter().find(|offer| offer.name == name);
        reasons.extend(offer.into_iter().flat_map(|offer| offer.reasons.iter().cloned()));
    }
}
