//! Pictures, drawn with plotters. A picture is a file, or a part of an HTML page whose style sheet
//! defines the colours.
#![forbid(unsafe_code)]

mod forest;
mod panel;

use core::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

pub use self::forest::{Forest, ForestLine};
pub use self::panel::{Curve, Panel, SMALL, Scales, WIDE};

/// The area that a picture is drawn in.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing: an error if plotters cannot draw the picture or write its file.
pub type Drawn = Result<(), Box<dyn Error>>;

/// The colour of names and of measured values.
pub const INK: RGBColor = RGBColor(29, 33, 37);
/// The colour of the labels of axes, and of the line at ratio 1.
pub const QUIET: RGBColor = RGBColor(92, 102, 112);
/// The colour of axes and grids.
pub const RULE: RGBColor = RGBColor(217, 220, 223);
/// The colour of a curve.
pub const MARK: RGBColor = RGBColor(26, 106, 168);
/// The colour of the curve with which the main curve is compared.
pub const BESIDE: RGBColor = RGBColor(154, 161, 168);
/// The colour of contenders that are faster than the reference. Colour-blind readers can tell it
/// from [`SLOWER`].
pub const FASTER: RGBColor = RGBColor(0, 114, 178);
/// The colour of contenders that are slower than the reference.
pub const SLOWER: RGBColor = RGBColor(184, 76, 0);

/// The style-sheet variable of each colour.
const VARIABLES: [(RGBColor, &str); 7] = [
    (INK, "--text"),
    (QUIET, "--quiet"),
    (RULE, "--line"),
    (MARK, "--mark"),
    (BESIDE, "--o4"),
    (FASTER, "--faster"),
    (SLOWER, "--slower"),
];

/// Returns a style for text of this height in pixels.
pub fn text(height: i32, ink: RGBColor) -> TextStyle<'static> {
    // Plotters divides the height of a line by 1.24 to get the font size.
    ("sans-serif", f64::from(height) * 1.24).into_font().color(&ink)
}

/// Returns text with `&`, `<`, `>` and `"` escaped for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws an `svg` element for a page, in the page's colours. If `draw` fails, returns a paragraph
/// with the error instead. The title and the description tell screen readers what the picture
/// shows.
pub fn inline(
    size: (u32, u32),
    title: &str,
    description: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> String {
    let mut svg = String::new();
    let drawn = draw(&SVGBackend::with_string(&mut svg, size).into_drawing_area());
    if let Err(error) = drawn {
        return format!(
            "<p class=\"caveat\">{}: not drawn: {}</p>\n",
            escaped(title),
            escaped(&error.to_string())
        );
    }
    // Drop the opening tag that plotters wrote. The tag below has a role, a title and a
    // description.
    let inner = svg.split_once('>').map_or("", |(_, inner)| inner);
    let inner = inner.trim().trim_end_matches("</svg>");
    let mut out = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n{}</svg>\n",
        size.0,
        size.1,
        escaped(title),
        escaped(description),
        inner.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "")
    );
    for (RGBColor(red, green, blue), variable) in VARIABLES {
        out = out.replace(&format!("\"#{red:02X}{green:02X}{blue:02X}\""), &format!("\"var({variable})\""));
    }
    out
}

/// Draws a picture of this size in pixels into a file, on white.
pub fn file(path: &Path, size: (u32, u32), draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Drawn {
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_in_a_page_has_the_pages_colours_and_a_description() {
        let svg = inline((40, 20), "a <b>", "what & why", |area| {
            area.draw(&PathElement::new(vec![(0, 0), (9, 9)], MARK.stroke_width(1)))?;
            Ok(area.draw(&Text::new("x<y", (1, 1), text(12, INK)))?)
        });
        assert!(
            svg.starts_with("<svg viewBox=\"0 0 40 20\" role=\"img\">\n<title>a &lt;b&gt;</title>"),
            "{svg}"
        );
        assert!(svg.contains("<desc>what &amp; why</desc>") && svg.contains("x&lt;y"), "{svg}");
        assert!(svg.contains("\"var(--mark)\"") && svg.contains("\"var(--text)\""), "{svg}");
        assert!(!svg.contains("\"#") && svg.matches("</svg>").count() == 1, "{svg}");
    }

    #[test]
    fn a_failure_to_draw_is_reported_in_the_page() {
        let text = inline((40, 20), "title", "", |_| Err("no ink".into()));
        assert_eq!(text, "<p class=\"caveat\">title: not drawn: no ink</p>\n");
    }
}
