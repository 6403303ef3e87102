//! Pictures, drawn with plotters: as a file of their own, or inside a page, whose style sheet then gives the colours.
#![forbid(unsafe_code)]

mod forest;
mod panel;

use core::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

pub use self::forest::{Forest, Line};
pub use self::panel::{Curve, Panel, SMALL, Scales, WIDE};

/// Where pictures are drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Whether that worked; it does not where a file cannot be written.
pub type Drawn = Result<(), Box<dyn Error>>;

/// Names, and what is measured.
pub const INK: RGBColor = RGBColor(29, 33, 37);
/// Figures on axes.
pub const QUIET: RGBColor = RGBColor(92, 102, 112);
/// Axes and grids.
pub const RULE: RGBColor = RGBColor(217, 220, 223);
/// A curve.
pub const MARK: RGBColor = RGBColor(26, 106, 168);
/// What a curve is compared with.
pub const BESIDE: RGBColor = RGBColor(154, 161, 168);
/// Faster than the reference. With the next one, a pair that all readers can tell apart.
pub const FASTER: RGBColor = RGBColor(0, 114, 178);
/// Slower than the reference.
pub const SLOWER: RGBColor = RGBColor(184, 76, 0);

/// The variable of the style sheet that stands for an ink.
const VARIABLES: [(RGBColor, &str); 7] = [
    (INK, "--text"),
    (QUIET, "--quiet"),
    (RULE, "--line"),
    (MARK, "--mark"),
    (BESIDE, "--o4"),
    (FASTER, "--faster"),
    (SLOWER, "--slower"),
];

/// Text of a height in pixels.
pub fn text(height: i32, ink: RGBColor) -> TextStyle<'static> {
    // Plotters divides by this to get from a line's height to a font's size.
    ("sans-serif", f64::from(height) * 1.24).into_font().color(&ink)
}

/// Text that may stand in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws for a page: an `svg` element that says what it shows, in the page's colours.
pub fn inline(
    size: (u32, u32),
    title: &str,
    description: &str,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
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
    // Behind the tag that plotters begins with; ours says more.
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

/// Draws into a file, on white.
pub fn file(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn {
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
    fn a_picture_of_a_page_takes_the_pages_colours_and_says_what_it_shows() {
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
    fn what_cannot_be_drawn_is_said() {
        let text = inline((40, 20), "title", "", |_| Err("no ink".into()));
        assert_eq!(text, "<p class=\"caveat\">title: not drawn: no ink</p>\n");
    }
}
