//! What a terminal shows while a command works in silence; elsewhere nothing moves.

use core::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A spinner with the time gone by, taken away when dropped. Hidden where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Shows `doing` until dropped.
    pub(crate) fn start(doing: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(doing.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
