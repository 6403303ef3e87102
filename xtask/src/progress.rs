//! A spinner for the terminal while a command runs without output.

use core::time::Duration;

use ephemera_measure::progress::progress_bar;
use indicatif::ProgressBar;

/// A spinner with the elapsed time. It disappears when this value is dropped, and is hidden if
/// standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Creates a spinner that shows the message `doing` until it is dropped.
    pub(crate) fn start(doing: &str) -> Self {
        let bar = progress_bar(0, "{spinner} {msg} [{elapsed}]").with_message(doing.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
