//! The borrow models that Miri can check.

use clap::ValueEnum;

/// The borrow model that Miri checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BorrowModel {
    /// Stacked Borrows.
    Stacked,
    /// Tree Borrows.
    Tree,
    /// Both, one after the other.
    Both,
}

impl BorrowModel {
    /// Returns the model's name in the name of a step.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stacked => "stacked",
            Self::Tree => "tree",
            Self::Both => "both",
        }
    }

    /// Returns the name of the model.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Stacked => "Stacked Borrows",
            Self::Tree => "Tree Borrows",
            Self::Both => "both borrow models",
        }
    }
}
