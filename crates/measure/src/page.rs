//! The frame of every HTML page (head, style sheet, body), and the environment of the templates. A
//! page does not contain scripts or fonts, and does not load any file. Its content security policy
//! forbids scripts, fonts and external resources.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, escape_formatter};
use serde::Serialize;

use crate::grid::{aligned, piped};
pub use crate::picture::escaped;

/// The style sheet, with colours and sizes for light and dark screens and for paper.
const STYLE: &str = include_str!("page.css");

/// Returns a whole HTML page with this title and body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(title)
    )
}

/// Returns the environment of templates. In a template whose name ends in `.html`, it escapes texts
/// as [`escaped`] does, unless the template marks a text as `safe`. The function `table` is
/// [`table`], `piped` is [`piped`], and `lines` returns a table as lines for a terminal, with a
/// line of dashes below the head. A template line that contains only a statement produces no line
/// of output.
pub fn environment() -> Environment<'static> {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    let mut environment = Environment::new();
    environment.set_syntax(syntax.build().expect("the constant options are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if matches!(state.auto_escape(), AutoEscape::Html) && !value.is_safe() => {
            Ok(out.write_str(&escaped(text))?)
        }
        _ => escape_formatter(out, state, value),
    });
    environment.add_function("table", |label: &str, grid: Vec<Vec<String>>| {
        Value::from_safe_string(table(label, &grid))
    });
    environment.add_function("lines", |grid: Vec<Vec<String>>| aligned(&grid, |_| false, true));
    environment.add_function("piped", |grid: Vec<Vec<String>>| piped(&grid));
    environment
}

/// Fills in a template. Texts are escaped if `name` ends in `.html`.
///
/// # Panics
///
/// Panics if the template has a fault, or if it uses a variable that `context` lacks, except as a
/// condition. Templates are compiled in, and tests fill them in.
pub fn render(name: &str, template: &str, context: &impl Serialize) -> String {
    let filled = environment().render_named_str(name, template, Serde(context));
    filled.expect("the template fits its context")
}

/// Returns a table in a box that scrolls if the table is wider than the page. The first row of
/// `grid` is the head, and the first cell of each row is the row's name.
pub fn table(label: &str, grid: &[Vec<String>]) -> String {
    let mut out = format!(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
        escaped(label)
    );
    let (head, rows) = grid.split_first().map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
    for cell in head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(cell));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let (open, close) = if column == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            let _ = write!(out, "<{open}>{}</{close}>", escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_heads_have_a_scope() {
        let grid = [["a", "b"], ["x<y", "1 & 2"]].map(|row| row.map(str::to_owned).to_vec());
        let text = table("some \"figures\"", &grid);
        for part in [
            "<th scope=\"col\">a</th>",
            "<th scope=\"row\">x&lt;y</th><td>1 &amp; 2</td>",
            "aria-label=\"some &quot;figures&quot;\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(table("", &[]).ends_with("</table></div>\n"));
    }

    #[test]
    fn a_template_escapes_texts_and_has_tables() {
        let template = "{% for text in texts %}\n<p>{{ text }}</p>{{ text|safe }}\n{% endfor %}\n{{ table(\"a\", grid) }}";
        let grid = [vec!["x<y".to_owned()]];
        let page = render("page.html", template, &serde_json::json!({"texts": ["a/b <i>"], "grid": grid}));
        assert_eq!(page, format!("<p>a/b &lt;i&gt;</p>a/b <i>\n{}", table("a", &grid)));
    }

    #[test]
    fn a_template_of_text_escapes_nothing_and_has_tables() {
        let grid = [vec!["a".to_owned()], vec!["x<y".to_owned()]];
        let text =
            render("page.txt", "{{ lines(grid) }}{{ piped(grid) }}", &serde_json::json!({"grid": grid}));
        assert_eq!(text, "a\n---\nx<y\n| a |\n|---|\n| x<y |\n");
    }
}
