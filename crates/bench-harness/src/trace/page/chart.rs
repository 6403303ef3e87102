//! The pictures of the page, as inline SVG: each bar and each point says its figures in a title.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use super::escaped;
use crate::trace::profile::{Profile, part};
use crate::trace::replay::Row;
use crate::trace::text::{bytes, grouped, percent};

/// Width of a picture; the page scales it.
const WIDTH: f64 = 720.0;
/// Height of a row of bars.
const ROW: f64 = 22.0;
/// Room for names.
const NAMES: f64 = 90.0;

fn begin(width: f64, height: f64, label: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n<title>{}</title>\n",
        escaped(label),
        escaped(label)
    )
}

/// Bytes alive over the calls.
pub(super) fn alive(profile: &Profile) -> String {
    const HEIGHT: f64 = 220.0;
    let (left, bottom, top) = (70.0, HEIGHT - 26.0, 12.0);
    let peaks = profile.alive.peaks();
    let most = profile.peak_bytes.max(1);
    let mut out = begin(WIDTH, HEIGHT, &format!("bytes alive over the calls, at most {}", bytes(most)));
    let x = |i: usize| left + (WIDTH - left - 8.0) * i as f64 / peaks.len().max(1) as f64;
    let y = |value: u64| bottom - (bottom - top) * value as f64 / most as f64;
    for share in [0.0, 0.5, 1.0] {
        let value = (most as f64 * share) as u64;
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\n<text x=\"{1:.0}\" y=\"{2:.1}\" \
             text-anchor=\"end\">{3}</text>\n",
            y(value),
            left - 6.0,
            y(value) + 4.0,
            bytes(value)
        );
    }
    let mut path = format!("M{left:.1} {bottom:.1}");
    for (i, &peak) in peaks.iter().enumerate() {
        let _ = write!(path, "L{:.1} {:.1}L{:.1} {:.1}", x(i), y(peak), x(i + 1), y(peak));
    }
    let _ = write!(path, "L{:.1} {bottom:.1}Z", x(peaks.len()));
    let _ = write!(
        out,
        "<path class=\"area\" d=\"{path}\"/>\n<text x=\"{left}\" y=\"{0:.0}\">0 calls</text>\n<text x=\"{WIDTH}\" y=\"{0:.0}\" \
         text-anchor=\"end\">{1} calls</text>\n</svg>\n",
        HEIGHT - 8.0,
        grouped(profile.events)
    );
    out
}

/// Blocks by size, each bar cut by how they went.
pub(super) fn sizes(rows: &[(String, [u64; 5])]) -> String {
    const WORDS: [&str; 5] = ["at once", "LIFO", "FIFO", "no order", "left at the end"];
    let height = ROW * (rows.len() as f64 + 1.5);
    let mut out = begin(WIDTH, height, "blocks by size, and how they go");
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

/// Counts between powers of two.
pub(super) fn histogram(rows: &[(String, u64)]) -> String {
    const STEP: f64 = 18.0;
    // Two of them stand side by side.
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

/// Ratios with their intervals.
pub(super) fn ratios(rows: &[Row]) -> String {
    const LEFT: f64 = 190.0;
    let most = rows.iter().map(|row| row.ratio.high95.min(4.0)).fold(1.2, f64::max);
    let x = |ratio: f64| LEFT + (WIDTH - LEFT - 20.0) * ratio.clamp(0.0, most) / most;
    let height = ROW * (rows.len() as f64 + 1.0);
    let mut out = begin(WIDTH, height, "time against the reference, with intervals");
    let _ = write!(
        out,
        "<line class=\"axis\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1:.0}\"/>\n<text x=\"{0:.1}\" y=\"{2:.0}\" \
         text-anchor=\"middle\">1</text>\n<text x=\"{LEFT}\" y=\"{2:.0}\">0</text>\n",
        x(1.0),
        height - ROW,
        height - 6.0
    );
    for (i, row) in rows.iter().enumerate() {
        let y = ROW * (i as f64 + 0.5);
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n<line class=\"range\" x1=\"{:.1}\" \
             x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n<circle class=\"bar\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\">\
             <title>{:.3}, from {:.3} to {:.3}</title></circle>\n",
            LEFT - 10.0,
            y + 4.0,
            escaped(&row.name),
            x(row.ratio.low95),
            x(row.ratio.high95),
            x(row.ratio.mid),
            row.ratio.mid,
            row.ratio.low95,
            row.ratio.high95
        );
    }
    out.push_str("</svg>\n");
    out
}
