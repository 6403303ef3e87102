//! Panels: small charts. Each panel has one curve and a second curve to compare it with.
//! Neighbouring panels have the same scales, so a dozen panels need neither a legend nor a dozen
//! colours.

use core::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::{BESIDE, Canvas, Drawn, MARK, QUIET, RULE, inline, text};

/// The size, in pixels, of a panel in a row of panels.
pub const SMALL: (u32, u32) = (300, 170);
/// The size in pixels of a panel that stands alone.
pub const WIDE: (u32, u32) = (720, 220);

/// The points of a curve, from left to right.
pub type Curve = Vec<(f64, f64)>;

/// The spacing of the values on the two axes: linear, or by powers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// Both axes are linear.
    Even,
    /// The horizontal axis is linear, and the vertical axis has powers of two.
    PowersUp,
    /// Both axes have powers of ten.
    Powers,
}

/// The size, scales and labels of a panel. Neighbouring panels share them.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// The range from left to right.
    pub x: Range<f64>,
    /// The range from bottom to top.
    pub y: Range<f64>,
    /// The spacing of the values on the axes.
    pub scales: Scales,
    /// The function that returns the label of a value on the horizontal axis.
    pub x_label: fn(f64) -> String,
    /// The function that returns the label of a value on the vertical axis.
    pub y_label: fn(f64) -> String,
    /// Whether the area below the second curve is filled.
    pub filled: bool,
}

impl Panel {
    /// Returns the panel as a part of an HTML page. `beside` is the second curve.
    pub fn inline(&self, title: &str, description: &str, curve: &Curve, beside: &Curve) -> String {
        inline(self.size, title, description, |area| {
            let (x, y) = (self.x.clone(), self.y.clone());
            match self.scales {
                Scales::Even => self.draw(area, x, y, curve, beside),
                Scales::PowersUp => self.draw(area, x, y.log_scale().base(2.0), curve, beside),
                Scales::Powers => self.draw(area, x.log_scale(), y.log_scale(), curve, beside),
            }
        })
    }

    fn draw<X, Y>(&self, area: &Canvas<'_>, x: X, y: Y, curve: &Curve, beside: &Curve) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(14)
            .x_label_area_size(22)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_labels(4)
            .y_labels(4)
            .max_light_lines(0)
            .bold_line_style(RULE)
            .axis_style(RULE)
            .label_style(text(11, QUIET))
            .x_label_formatter(&|value| (self.x_label)(*value))
            .y_label_formatter(&|value| (self.y_label)(*value))
            .draw()?;
        if self.filled {
            let mut outline = beside.clone();
            if let (Some(first), Some(last)) = (beside.first(), beside.last()) {
                outline.extend([(last.0, self.y.start), (first.0, self.y.start)]);
            }
            chart.draw_series([Polygon::new(outline, BESIDE.mix(0.5).filled())])?;
        } else {
            chart.draw_series([PathElement::new(beside.clone(), BESIDE.stroke_width(2))])?;
        }
        chart.draw_series([PathElement::new(curve.clone(), MARK.stroke_width(2))])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(scales: Scales) -> Panel {
        Panel {
            size: SMALL,
            x: 1.0..1000.0,
            y: 0.001..1.0,
            scales,
            x_label: |value| format!("{value} µs"),
            y_label: |value| format!("{value}"),
            filled: scales != Scales::Powers,
        }
    }

    #[test]
    fn both_curves_are_drawn_on_every_scale() {
        for scales in [Scales::Even, Scales::PowersUp, Scales::Powers] {
            let svg = panel(scales).inline(
                "tail",
                "",
                &vec![(1.0, 1.0), (900.0, 0.01)],
                &vec![(1.0, 1.0), (500.0, 0.01)],
            );
            assert!(svg.contains("var(--mark)") && svg.contains("var(--o4)") && svg.contains("µs"), "{svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_panel() {
        let svg = panel(Scales::Even).inline("empty", "", &Vec::new(), &Vec::new());
        assert!(svg.starts_with("<svg"), "{svg}");
    }
}
