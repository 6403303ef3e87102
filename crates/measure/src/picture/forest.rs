//! Forest plots. Each contender has a line from the lower to the upper end of its interval, on a
//! scale of powers of two. The vertical line at 1 is the reference.

use plotters::prelude::*;

use super::{Canvas, Drawn, FASTER, INK, QUIET, RULE, SLOWER, inline, text};
use crate::stats::{Estimate, Verdict};

/// The height of a line in pixels.
const LINE: i32 = 22;
/// The height of the scale in pixels.
const HEAD: i32 = 24;
/// The width of a picture in a page, in pixels.
const WIDTH: u32 = 640;
/// The width of the column of names in pixels.
const NAMES: i32 = 190;
/// The width of the column of figures in pixels, if there is one.
const FIGURES: i32 = 180;

/// A line of the plot.
#[derive(Clone, Debug)]
pub struct ForestLine<'a> {
    /// The name beside the line.
    pub name: &'a str,
    /// The ratio and its interval.
    pub ratio: Estimate,
    /// The verdict on the ratio. It decides the colour of the line.
    pub verdict: Option<Verdict>,
}

/// A plot, with its lines from top to bottom.
#[derive(Clone, Debug)]
pub struct Forest<'a>(pub Vec<ForestLine<'a>>);

impl Forest<'_> {
    /// Returns the exponents of the two powers of two that enclose 1/2, 2 and all intervals.
    /// Intervals are cut off at 1/1000 and 1000.
    pub fn range(&self) -> (i32, i32) {
        let ratios = || self.0.iter().map(|line| line.ratio);
        let low = ratios().map(|ratio| ratio.low95.max(1e-3)).fold(0.5, f64::min);
        let high = ratios().map(|ratio| ratio.high95.min(1e3)).fold(2.0, f64::max);
        (low.log2().floor() as i32, high.log2().ceil() as i32)
    }

    /// Returns the height of the plot in pixels.
    pub fn height(&self) -> i32 {
        HEAD + LINE * self.0.len() as i32 + 4
    }

    /// Returns the plot as a part of a page.
    pub fn inline(&self, title: &str) -> String {
        let shortest = |line: &ForestLine<'_>| format!("{} {:.3}", line.name, line.ratio.mid);
        let description = self.0.iter().map(shortest).collect::<Vec<_>>().join(", ");
        let size = (WIDTH, self.height().unsigned_abs());
        inline(size, title, &description, |area| self.draw(area, 0, WIDTH as i32, self.range(), false))
    }

    /// Draws the plot from `top` downwards over the whole width. `range` contains the exponents of
    /// the two ends of the scale. If `figures` is set, each line ends with its figures, for a
    /// picture without a table beside it.
    pub fn draw(&self, area: &Canvas<'_>, top: i32, width: i32, range: (i32, i32), figures: bool) -> Drawn {
        let right = width - if figures { FIGURES } else { 16 };
        let place = |ratio: f64| {
            let share = (ratio.max(1e-6).log2() - f64::from(range.0)) / f64::from(range.1 - range.0);
            NAMES + (share.clamp(0.0, 1.0) * f64::from(right - NAMES)).round() as i32
        };
        let bottom = top + self.height();
        // Label only every `step`-th power, so that the labels do not overlap.
        let step = 1 + (range.1 - range.0) / 9;
        for power in range.0..=range.1 {
            let x = place(f64::from(power).exp2());
            let style = if power == 0 { QUIET.stroke_width(2) } else { RULE.stroke_width(1) };
            area.draw(&PathElement::new(vec![(x, top + HEAD - 6), (x, bottom)], style))?;
            if power % step == 0 {
                let middle = text(11, QUIET).pos(centre());
                area.draw(&Text::new(f64::from(power).exp2().to_string(), (x, top + 4), middle))?;
            }
        }
        for (index, line) in self.0.iter().enumerate() {
            let y = top + HEAD + LINE * index as i32 + LINE / 2;
            let ratio = line.ratio;
            let ink = match line.verdict {
                Some(Verdict::Faster) => FASTER,
                Some(Verdict::Slower) => SLOWER,
                _ => INK,
            };
            let ends = vec![(place(ratio.low95), y), (place(ratio.high95), y)];
            let name = text(13, INK).pos(beside());
            area.draw(&Text::new(line.name, (NAMES - 10, y), name))?;
            area.draw(&PathElement::new(ends, ink.stroke_width(3)))?;
            area.draw(&Circle::new((place(ratio.mid), y), 4, ink.filled()))?;
            if figures {
                area.draw(&Text::new(ratio.to_string(), (right + 12, y - 7), text(12, INK)))?;
            }
        }
        Ok(())
    }
}

fn centre() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Center, VPos::Top)
}

fn beside() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Right, VPos::Center)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, mid: f64) -> ForestLine<'_> {
        let ratio =
            Estimate { mid, low95: mid / 1.1, high95: mid * 1.1, low99: mid / 1.2, high99: mid * 1.2 };
        ForestLine { name, ratio, verdict: Some(if mid < 1.0 { Verdict::Faster } else { Verdict::Slower }) }
    }

    #[test]
    fn the_scale_contains_every_interval_and_the_ratio_1() {
        assert_eq!(Forest(Vec::new()).range(), (-1, 1));
        assert_eq!(Forest(vec![line("a", 0.1), line("b", 30.0)]).range(), (-4, 6));
        assert_eq!(Forest(vec![line("a", 1e-9), line("b", f64::INFINITY)]).range(), (-10, 10));
    }

    #[test]
    fn colours_show_verdicts_and_every_name_is_drawn() {
        let svg = Forest(vec![line("quick", 0.5), line("slow & old", 3.0)]).inline("ratios");
        for part in ["quick", "slow &amp; old", "var(--faster)", "var(--slower)", "<desc>quick 0.500, slow"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }
}
