//! Renders the profile and the advice as one HTML page. The page does not load other files, and
//! works on light, dark and narrow screens and on paper.
#![forbid(unsafe_code)]

use ephemera_measure::picture::{Curve, Forest, ForestLine, Panel, Scales, WIDE};
use minijinja::context;
use minijinja::value::Serde;

use crate::advise::Advice;
use crate::profile::TraceProfile;
use crate::render::render;
use crate::replay::{ReplayRow, Replayed};
use crate::text::values;
use crate::units::{bytes, grouped};

/// Returns one self-contained HTML page.
pub fn page(profile: &TraceProfile, advice: &Advice, replayed: Option<&Replayed>) -> String {
    let body = context! {
        alive => alive(profile),
        replayed => Serde(replayed),
        untrusted => replayed.is_some_and(Replayed::untrusted),
        ratios => replayed.map(|replayed| ratios(&replayed.rows)),
        ..values(profile, advice)
    };
    let program = profile.command.split(' ').next().unwrap_or("a program");
    let body = render("page.html", include_str!("page.html"), body);
    ephemera_measure::page::page(&format!("The allocations of {program}"), &body)
}

/// Returns a picture of the live bytes over the calls.
fn alive(profile: &TraceProfile) -> String {
    let peaks = &profile.alive.peaks;
    let each = profile.events as f64 / peaks.len().max(1) as f64;
    let most = profile.peak_bytes.max(1);
    // Each stretch of calls is a step as high as its peak.
    let step =
        |(i, &peak): (usize, &u64)| [(i as f64 * each, peak as f64), ((i + 1) as f64 * each, peak as f64)];
    let curve: Curve = peaks.iter().enumerate().flat_map(step).collect();
    let panel = Panel {
        size: WIDE,
        x: 0.0..profile.events.max(1) as f64,
        y: 0.0..most as f64,
        scales: Scales::Even,
        x_label: |calls| format!("{} calls", grouped(calls as u64)),
        y_label: |value| bytes(value as u64),
        filled: true,
    };
    panel.inline("live bytes over the calls", &format!("at most {}", bytes(most)), &curve, &curve)
}

/// Returns a picture of the ratios with their intervals.
fn ratios(rows: &[ReplayRow]) -> String {
    let lines =
        rows.iter().map(|row| ForestLine { name: &row.name, ratio: row.ratio, verdict: Some(row.verdict) });
    Forest(lines.collect()).inline("time against the reference, with intervals")
}
