//! The picture of the first page. Each dot is a trusted workload of the recorded run. Each class
//! has three rows: our allocator, the best general allocator, and the crate that ours replaces.
//!
//! The picture uses other colours if the reader's page is dark. It is narrow, so that its text can
//! be read on a phone.

use core::fmt::Write as _;

use ephemera_measure::summary::SummaryTable;

use super::recorded::RecordedBench;
use super::tables::ReadmeClass;

/// The keys of the general allocators, without the reference.
const GENERAL: [&str; 3] = ["mimalloc", "jemalloc", "snmalloc"];

/// The ratios at the two ends of the scale. The dot of a ratio outside of this range lies at the
/// nearer end.
const SCALE: (f64, f64) = (1.0 / 20.0, 20.0);

/// The ratios that have a mark on the scale, each with its label.
const MARKS: [(f64, &str); 5] = [(0.0625, "1/16"), (0.25, "1/4"), (1.0, "glibc"), (4.0, "4"), (16.0, "16")];

/// The width of the picture in pixels, and the x coordinates of the two ends of the scale.
const WIDTH: u32 = 480;
const PLOT: (f64, f64) = (142.0, 428.0);

/// The height of a row in pixels.
const ROW: u32 = 23;

const STYLE: &str = "\
text { font: 15px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: #1f2328 }
.page { fill: #ffffff }
.head { font-weight: 600 }
.faint { fill: #59636e }
.line { stroke: #d1d9e0 }
.one { stroke: #59636e; stroke-width: 1.5 }
.ours { fill: #0969da } .general { fill: #59636e } .peer { fill: #bc4c00 }
circle { fill-opacity: 0.45 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.page { fill: #0d1117 }
.faint { fill: #9198a1 }
.line { stroke: #3d444d }
.one { stroke: #9198a1 }
.ours { fill: #4493f8 } .general { fill: #9198a1 } .peer { fill: #f0883e }
circle { fill-opacity: 0.6 }
}
";

pub(super) fn standing(recorded: &RecordedBench, classes: &[ReadmeClass]) -> String {
    let mut body = String::new();
    let mut y = 86;
    for class in classes {
        let figures = ClassFigures::of(recorded, class);
        if figures.ours.is_empty() {
            continue;
        }
        let workloads = format!("{} workloads", figures.ours.len());
        text(&mut body, 12.0, y, "head", "start", &class.heading);
        text(&mut body, f64::from(WIDTH) - 12.0, y, "faint", "end", &workloads);
        grid(&mut body, y + 8, y + 3 * ROW + 6);
        let rows = [
            ("ours", &*class.ours.1, &figures.ours),
            ("general", "best general", &figures.general),
            ("peer", &*class.peer.1, &figures.peer),
        ];
        let lowest = rows.iter().map(|(.., ratios)| median(ratios)).fold(f64::MAX, f64::min);
        for (kind, name, ratios) in rows {
            y += ROW;
            row(&mut body, y, kind, name, ratios, lowest);
        }
        y += 36;
    }
    let bottom = y - 22;
    let mut scale = String::new();
    for (ratio, mark) in MARKS {
        text(&mut scale, at(ratio), 56, "faint", "middle", mark);
    }
    let height = bottom + 34;
    let title = "Time of an operation, as a ratio to glibc";
    let notes = "Each dot is a workload, the bar is the median. Left is faster.";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>{title}</title>\n<desc>{notes}</desc>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"head\" x=\"12\" y=\"26\">{title}</text>\n{scale}{body}\
         <text class=\"faint\" x=\"12\" y=\"{}\">{notes}</text>\n</svg>\n",
        bottom + 20
    )
}

/// The ratios of one class. All rows have the same workloads, so their medians can be compared.
#[derive(Default)]
struct ClassFigures {
    ours: Vec<f64>,
    general: Vec<f64>,
    peer: Vec<f64>,
}

impl ClassFigures {
    fn of(recorded: &RecordedBench, class: &ReadmeClass) -> Self {
        let mut figures = Self::default();
        for workload in recorded.of(&class.class).filter(|workload| workload.trusted) {
            let all = (workload.ratio(&class.ours.0), general(workload), workload.ratio(&class.peer.0));
            if let (Some(ours), Some(general), Some(peer)) = all {
                figures.ours.push(ours);
                figures.general.push(general);
                figures.peer.push(peer);
            }
        }
        figures
    }
}

/// Returns the lowest ratio of a general allocator, or `None` if no general allocator has a ratio.
fn general(workload: &SummaryTable) -> Option<f64> {
    GENERAL.iter().filter_map(|key| workload.ratio(key)).min_by(f64::total_cmp)
}

/// Draws the lines of the scale between the heights `top` and `bottom`.
fn grid(out: &mut String, top: u32, bottom: u32) {
    for (ratio, _) in MARKS {
        let (x, class) = (at(ratio), if ratio == 1.0 { "one" } else { "line" });
        _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>"
        );
    }
}

/// Draws the dots of one row and their median, and writes the median as a number. The number is
/// bold if it is the `lowest` of the class.
fn row(out: &mut String, y: u32, kind: &str, name: &str, ratios: &[f64], lowest: f64) {
    let middle = y - 5;
    text(out, 24.0, y, "", "start", name);
    for ratio in ratios {
        _ = writeln!(out, "<circle class=\"{kind}\" cx=\"{:.1}\" cy=\"{middle}\" r=\"4\"/>", at(*ratio));
    }
    let median = median(ratios);
    _ = writeln!(
        out,
        "<rect class=\"{kind}\" x=\"{:.1}\" y=\"{}\" width=\"4\" height=\"18\" rx=\"1\"/>",
        at(median) - 2.0,
        middle - 9
    );
    let weight = if median <= lowest { "head" } else { "" };
    text(out, f64::from(WIDTH) - 12.0, y, weight, "end", &format!("{median:.2}"));
}

fn text(out: &mut String, x: f64, y: u32, class: &str, anchor: &str, text: &str) {
    _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Returns the x coordinate of a ratio on the logarithmic scale.
fn at(ratio: f64) -> f64 {
    let part = (ratio.clamp(SCALE.0, SCALE.1) / SCALE.0).ln() / (SCALE.1 / SCALE.0).ln();
    PLOT.0 + part * (PLOT.1 - PLOT.0)
}

/// Returns the median, or 1 without figures. The median of an even number of figures is the
/// geometric mean of the two in the middle.
fn median(ratios: &[f64]) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 1.0,
        even if even % 2 == 0 => (sorted[half - 1] * sorted[half]).sqrt(),
        _ => sorted[half],
    }
}

#[cfg(test)]
mod tests {
    use super::{PLOT, at, median, standing};
    use crate::readme::recorded::{RECORD, RecordedBench};
    use crate::readme::tables::tables;
    use crate::workspace::Workspace;

    #[test]
    fn the_scale_is_logarithmic_and_keeps_outliers_at_its_ends() {
        assert_eq!((at(0.001), at(1000.0)), PLOT);
        let step = at(1.0) - at(0.5);
        assert!((at(4.0) - at(2.0) - step).abs() < 1e-9);
    }

    #[test]
    fn the_median_is_the_middle_of_the_figures() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!((median(&[4.0, 1.0]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_picture_has_a_row_for_each_contender_and_both_colour_schemes() {
        let root = Workspace::load().unwrap().root;
        let classes = tables().unwrap().classes;
        let picture = standing(&RecordedBench::load(&root.join(RECORD)).unwrap(), &classes);
        assert_eq!(picture.matches("height=\"18\"").count(), 3 * classes.len());
        assert!(picture.contains("prefers-color-scheme: dark"));
        // The three rows of a class have the same workloads.
        let dots = |kind: &str| picture.matches(&format!("<circle class=\"{kind}\"")).count();
        assert!(dots("ours") >= 30 && dots("ours") == dots("general") && dots("ours") == dots("peer"));
    }
}
