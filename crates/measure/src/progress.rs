//! Progress bars.
#![forbid(unsafe_code)]

use indicatif::{ProgressBar, ProgressStyle};

/// The template of a bar that counts steps.
pub const STEPS: &str = "{bar:30} {pos}/{len}  {elapsed} elapsed, {eta} left  {msg}";

/// Returns a progress bar that does not start a thread, because allocators take other paths in a
/// process with several threads. The bar has the default style if `template` is not valid.
#[must_use]
pub fn progress_bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
