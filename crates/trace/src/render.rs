//! Renders the templates of the page and of the texts.
#![forbid(unsafe_code)]

use ephemera_measure::grid::aligned;
use ephemera_measure::page::table;
use ephemera_measure::picture::escaped;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, escape_formatter};

use crate::profile::part;
use crate::units::{bytes, duration, grouped, percent};

/// Renders a template, which is compiled in. Values are escaped if `name` ends in `.html`.
///
/// # Panics
///
/// Panics if the template is malformed, or if it uses a value that is missing.
pub(crate) fn render(name: &str, template: &str, values: Value) -> String {
    let mut syntax = SyntaxConfig::builder();
    // A line that contains only a statement leaves no line in the output.
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    let mut environment = Environment::new();
    environment.set_syntax(syntax.build().expect("the delimiters are the usual ones"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if matches!(state.auto_escape(), AutoEscape::Html) && !value.is_safe() => {
            Ok(out.write_str(&escaped(text))?)
        }
        _ => escape_formatter(out, state, value),
    });
    environment.add_filter("bytes", bytes);
    environment.add_filter("duration", duration);
    environment.add_filter("grouped", grouped);
    environment.add_filter("part", part);
    environment.add_filter("percent", percent);
    environment.add_function("aligned", |grid: Vec<Vec<String>>| aligned(&grid, |column| column > 0, false));
    environment.add_function("table", |label: &str, grid: Vec<Vec<String>>| {
        Value::from_safe_string(table(label, &grid))
    });
    environment.render_named_str(name, template, values).expect("the template fits its values")
}
