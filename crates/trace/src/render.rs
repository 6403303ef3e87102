//! Renders the crate's templates: the HTML page of a report, and the texts for a terminal.
#![forbid(unsafe_code)]

use ephemera_measure::grid::aligned;
use ephemera_measure::page::environment;
use minijinja::{UndefinedBehavior, Value};

use crate::profile::part;
use crate::units::{bytes, duration, grouped, percent, share};

/// Renders a template, which is compiled in. Values are escaped if `name` ends in `.html`.
///
/// # Panics
///
/// Panics if the template is malformed, or if it uses a value that is missing.
pub(crate) fn render(name: &str, template: &str, values: Value) -> String {
    let mut environment = environment();
    // These templates test only values that are always present, so a misspelt name is an error.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("bytes", bytes);
    environment.add_filter("duration", duration);
    environment.add_filter("grouped", grouped);
    environment.add_filter("part", part);
    environment.add_filter("percent", percent);
    environment.add_filter("share", share);
    environment.add_function("aligned", |grid: Vec<Vec<String>>| aligned(&grid, |column| column > 0, false));
    environment.render_named_str(name, template, values).expect("the template fits its values")
}
