//! Turns samples into tables. The terminal output, the HTML and Markdown pages, the JSON files and
//! the pictures share one model.

mod alone;
mod bars;
pub mod baseline;
mod cells;
mod html;
mod json;
mod model;
mod pairs;
mod svg;
mod text;

pub use self::bars::{Bar, BarLimit, JUDGED_AT, bars, judge};
pub use self::html::html;
pub use self::json::{summary, write_samples};
pub use self::model::{BenchReport, ReportRow, ReportTable};
pub use self::pairs::Rounds;
pub use self::svg::write_pictures;
pub use self::text::{host_block, markdown, terminal_end, terminal_table};
