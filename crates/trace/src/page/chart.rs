//! Draws the pictures of the page as inline SVG. The title of each bar contains its figures.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use crate::profile::{TraceProfile, part};
use crate::replay::ReplayRow;
use crate::units::{bytes, grouped, percent};
use ephemera_measure::picture::{Curve, Forest, ForestLine, Panel, Scales, WIDE, escaped};

/// The width of a picture, in SVG units. The page scales the picture.
const WIDTH: f64 = 720.0;
/// The height of a row of bars, in SVG units.
const ROW: f64 = 22.0;
/// The width of the column of names, in SVG units.
const NAMES: f64 = 90.0;

fn begin(width: f64, height: f64, label: &str) -> String {
    format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{}</title>\n",
        escaped(label)
    )
}

/// Draws live bytes over the calls.
pub(super) fn alive(profile: &TraceProfile) -> String {
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

/// Draws a bar for each size, divided by the order of frees.
pub(super) fn sizes(rows: &[(String, [u64; 5])]) -> String {
    const WORDS: [&str; 5] = ["at once", "LIFO", "FIFO", "no order", "left at the end"];
    let height = ROW * (rows.len() as f64 + 1.5);
    let mut out = begin(WIDTH, height, "blocks by size and order of frees");
    for (i, word) in WORDS.iter().enumerate() {
        let x = NAMES + i as f64 * 110.0;
        let _ = writeln!(
            out,
            "<rect class=\"o{i}\" x=\"{x}\" y=\"4\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"{}\" y=\"14\">{word}</text>",
            x + 17.0
        );
    }
    let total: u64 = rows.iter().flat_map(|(_, counts)| counts).sum();
    let most = rows.iter().map(|(_, counts)| counts.iter().sum::<u64>()).max().unwrap_or(1).max(1);
    for (i, (name, counts)) in rows.iter().enumerate() {
        let y = ROW * (i as f64 + 1.2);
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 8.0,
            y + 14.0,
            escaped(name)
        );
        let mut x = NAMES;
        for (order, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let width = (WIDTH - NAMES - 60.0) * count as f64 / most as f64;
            let _ = writeln!(
                out,
                "<rect class=\"o{order}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.0}\">\
                 <title>{}, {}: {} blocks</title></rect>",
                ROW - 4.0,
                escaped(name),
                WORDS[order],
                grouped(count)
            );
            x += width;
        }
        let share = escaped(&percent(part(counts.iter().sum(), total)));
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{share} %</text>", x + 6.0, y + 14.0);
    }
    out.push_str("</svg>\n");
    out
}

/// Draws a histogram over powers of two, with a row for each bucket.
pub(super) fn histogram(rows: &[(String, u64)]) -> String {
    const STEP: f64 = 18.0;
    // Two of these pictures stand side by side.
    const HALF: f64 = 460.0;
    let mut out = begin(HALF, STEP * rows.len() as f64 + 4.0, "a histogram");
    let total: u64 = rows.iter().map(|(_, count)| count).sum();
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    for (i, (name, count)) in rows.iter().enumerate() {
        let y = STEP * i as f64;
        let width = (HALF - NAMES - 50.0) * *count as f64 / most as f64;
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n<rect class=\"bar\" x=\"{NAMES}\" \
             y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.0}\"><title>from {}: {} blocks</title></rect>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{} %</text>\n",
            NAMES - 8.0,
            y + 13.0,
            escaped(name),
            y + 2.0,
            STEP - 3.0,
            escaped(name),
            grouped(*count),
            NAMES + width + 6.0,
            y + 13.0,
            escaped(&percent(part(*count, total)))
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Draws ratios with their intervals.
pub(super) fn ratios(rows: &[ReplayRow]) -> String {
    let lines =
        rows.iter().map(|row| ForestLine { name: &row.name, ratio: row.ratio, verdict: Some(row.verdict) });
    Forest(lines.collect()).inline("time against the reference, with intervals")
}
