//! The section of the page that shows changes since an earlier run.
#![forbid(unsafe_code)]

use ephemera_measure::page::{elements, escaped, table};

use super::Section;
use crate::report::baseline::{Comparison, LEGEND};

/// Returns the section: how the runs differ, the table of changes, and the rows that one run lacks.
pub(super) fn changes(comparison: &Comparison) -> Section {
    let mut out = String::new();
    let differs = comparison.differs.iter().map(|line| format!("The runs differ in {line}"));
    elements(&mut out, "p class=\"caveat\"", differs);
    out.push_str(&table("changes", &comparison.grid()));
    if !comparison.missing.is_empty() {
        out.push_str("<ul>\n");
        elements(&mut out, "li", comparison.missing.iter().map(|line| format!("Missing: {line}")));
        out.push_str("</ul>\n");
    }
    elements(&mut out, "p", [LEGEND]);
    Section { heading: escaped(&comparison.title()), ..Section::new("changes", "Changes", out) }
}
