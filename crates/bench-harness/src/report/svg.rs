//! Forest plots: a picture per family of workloads, a panel per workload, a line per contender from the lower to the upper
//! end of its interval. Read against the line at 1.

use core::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use super::model::{Report, Row, Table};
use crate::contenders::{REFERENCE, VOID};
use crate::stats::Verdict;

const WIDTH: u32 = 900;
const LINE: i32 = 20;
const HEAD: i32 = 44;
/// Where the scale begins and ends.
const LEFT: i32 = 230;
const RIGHT: i32 = 730;
const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(205, 208, 214);
const FASTER: RGBColor = RGBColor(0, 114, 178);
const SLOWER: RGBColor = RGBColor(213, 94, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn shown(table: &Table) -> Vec<&Row> {
    let rows = table.rows.iter().enumerate();
    rows.filter(|(index, row)| ![VOID, REFERENCE].contains(index) && row.ratio.is_some())
        .map(|(_, row)| row)
        .collect()
}

/// The range of a picture's scale: powers of two around all intervals.
fn range(tables: &[&Table]) -> (f64, f64) {
    let ratios = || tables.iter().flat_map(|table| shown(table)).filter_map(|row| row.ratio);
    let low = ratios().map(|ratio| ratio.low95.max(1e-3)).fold(0.5, f64::min);
    let high = ratios().map(|ratio| ratio.high95).fold(2.0, f64::max);
    (low.log2().floor(), high.log2().ceil())
}

fn place(ratio: f64, (low, high): (f64, f64)) -> i32 {
    let share = ((ratio.max(1e-6).log2() - low) / (high - low)).clamp(0.0, 1.0);
    LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
}

fn draw(area: &Area<'_>, tables: &[&Table]) -> Result<(), Box<dyn Error>> {
    area.fill(&WHITE)?;
    let range = range(tables);
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let mut top = 10;
    for table in tables {
        let rows = shown(table);
        let bottom = top + HEAD + LINE * rows.len() as i32;
        let title = if table.trusted { table.title.clone() } else { format!("{} (UNTRUSTED)", table.title) };
        area.draw(&Text::new(format!("{}: {title}", table.id), (10, top), text(14)))?;
        let mut power = range.0;
        while power <= range.1 {
            let x = place(power.exp2(), range);
            let style = if power == 0.0 { INK.stroke_width(1) } else { FAINT.stroke_width(1) };
            area.draw(&PathElement::new(vec![(x, top + HEAD - 8), (x, bottom)], style))?;
            area.draw(&Text::new(power.exp2().to_string(), (x - 8, top + HEAD - 22), text(11)))?;
            power += 1.0;
        }
        for (line, row) in rows.iter().enumerate() {
            let y = top + HEAD + LINE * line as i32 + LINE / 2;
            let Some(ratio) = row.ratio else { continue };
            let colour = match row.verdict {
                Some(Verdict::Faster) => FASTER,
                Some(Verdict::Slower) => SLOWER,
                _ => INK,
            };
            let ends = vec![(place(ratio.low95, range), y), (place(ratio.high95, range), y)];
            area.draw(&Text::new(row.name, (10, y - 5), text(13)))?;
            area.draw(&PathElement::new(ends, colour.stroke_width(3)))?;
            area.draw(&Circle::new((place(ratio.mid, range), y), 4, colour.filled()))?;
            let figures = format!("{:.3} [{:.3}, {:.3}]", ratio.mid, ratio.low95, ratio.high95);
            area.draw(&Text::new(figures, (RIGHT + 12, y - 5), text(12)))?;
        }
        top = bottom + 16;
    }
    area.present()?;
    Ok(())
}

/// Writes a picture for each family into `directory`; the paths.
///
/// # Errors
///
/// Where drawing or writing fails.
pub fn write_pictures(report: &Report, directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    let family = |table: &Table| table.id.split('/').next().unwrap_or_default().to_owned();
    let mut families: Vec<String> = report.tables.iter().map(family).collect();
    families.dedup();
    let mut written = Vec::new();
    for name in families {
        let tables: Vec<&Table> = report.tables.iter().filter(|table| family(table) == name).collect();
        let lines: usize = tables.iter().map(|table| shown(table).len()).sum();
        let height = 20 + tables.len() as i32 * (HEAD + 16) + lines as i32 * LINE;
        let path = directory.join(format!("{name}.svg"));
        draw(&SVGBackend::new(&path, (WIDTH, height.unsigned_abs())).into_drawing_area(), &tables)?;
        written.push(path);
    }
    Ok(written)
}
