//! Formats the profile, the advice and the figures of a replay as text.
#![forbid(unsafe_code)]

use core::cmp::Reverse;

use minijinja::value::Serde;
use minijinja::{Value, context};

use crate::advise::{Advice, Recommendation};
use crate::profile::{TraceProfile, class_end};
use crate::render::render;
use crate::replay::Replayed;
use crate::share::{between, times};

/// Returns the name of a size class.
pub fn class_name(class: usize) -> String {
    match class_end(class) {
        Some(end) if end < 1024 => format!("to {end} B"),
        Some(end) if end < 1 << 20 => format!("to {} KiB", end >> 10),
        Some(end) => format!("to {} MiB", end >> 20),
        None => "larger".to_owned(),
    }
}

/// Returns the values that the templates of the report and of the page have in common.
pub(super) fn values(profile: &TraceProfile, advice: &Advice) -> Value {
    let all = profile.all();
    let classes = profile.used().map(|(class, counts)| (class_name(class), counts));
    context! {
        profile => Serde(profile),
        classes => Serde(classes.collect::<Vec<_>>()),
        lives => Serde(all.lives.rows()),
        times => Serde(all.times.rows()),
        all => Serde(all),
        ..advised(advice)
    }
}

/// Returns the values that the template of the verdict uses.
fn advised(advice: &Advice) -> Value {
    context! { advice => Serde(advice), headline => headline(advice), shares => shares(advice) }
}

/// Returns the whole report for a terminal.
pub fn report(profile: &TraceProfile, advice: &Advice) -> String {
    let threads = profile.timing.threads.iter();
    let mut busiest: Vec<(u64, u32)> =
        threads.map(|(number, thread)| (thread.last.thread, *number)).collect();
    busiest.sort_unstable_by_key(|&(time, number)| (Reverse(time), number));
    let values = context! {
        busiest => Serde(busiest),
        ..values(profile, advice)
    };
    render("report.txt", include_str!("report.txt"), values) + "\n" + &verdict(advice)
}

/// Returns the verdict as one line.
pub fn headline(advice: &Advice) -> String {
    match &advice.verdict {
        Recommendation::Keep => "Keep your allocator.".to_owned(),
        Recommendation::General(name, ratio) => {
            format!("Keep your code, and try {name} as its allocator: {ratio:.2} of the time in the replay.")
        }
        Recommendation::Try(name, source) if source.is_measured() => {
            format!("Try {name}: the replay measured its saving.")
        }
        Recommendation::Try(name, _) => {
            format!("{name} may help: its saving is assumed. Measure it with `cargo xtask replay`.")
        }
    }
}

/// Returns the allocator's share in sentences.
fn shares(advice: &Advice) -> Vec<String> {
    let share = &advice.share;
    let values = context! {
        advice => Serde(advice),
        of_processor => share.of_processor().map(between),
        of_wall => share.of_wall().map(between),
        heap => times(share.heap),
        recorder => times(share.recorder),
        processor => share.processor.map(times),
        recorded => share.recorded.map(times),
        wall => share.wall.map(times),
    };
    render("shares.txt", include_str!("shares.txt"), values).lines().map(str::to_owned).collect()
}

/// Returns the advice as text, without the profile.
pub fn verdict(advice: &Advice) -> String {
    render("verdict.txt", include_str!("verdict.txt"), advised(advice))
}

/// Returns the figures of a replay as a table.
pub(super) fn replay(replayed: &Replayed) -> String {
    let values = context! {
        replayed => Serde(replayed),
        untrusted => replayed.untrusted(),
    };
    render("replay.txt", include_str!("replay.txt"), values)
}
