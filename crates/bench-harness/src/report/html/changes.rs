//! The section of the page that shows changes since an earlier run.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use ephemera_measure::page::{elements, escaped, table};

use crate::report::baseline::{Comparison, LEGEND};

/// Returns the comparison with a baseline, if there is one.
pub(super) fn changes(out: &mut String, comparison: Option<&Comparison>) {
    let Some(comparison) = comparison else { return };
    let _ = writeln!(out, "<section id=\"changes\">\n<h2>{}</h2>", escaped(&comparison.title()));
    let differs = comparison.differs.iter().map(|line| format!("The runs differ in {line}"));
    elements(out, "p class=\"caveat\"", differs);
    out.push_str(&table("changes", &comparison.grid()));
    if !comparison.missing.is_empty() {
        out.push_str("<ul>\n");
        elements(out, "li", comparison.missing.iter().map(|line| format!("Missing: {line}")));
        out.push_str("</ul>\n");
    }
    let _ = writeln!(out, "<p>{}</p>\n</section>", escaped(LEGEND));
}
