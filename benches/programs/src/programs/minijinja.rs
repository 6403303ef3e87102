//! A template engine: minijinja renders the repository's Markdown files as one HTML listing.

use std::path::Path;

use minijinja::value::Value;
use minijinja::{Environment, context};

use crate::checksum::{Checksum, ProgramResult};
use crate::files;

/// The template. Its name ends in `.html`, so values are escaped.
const TEMPLATE: &str = r##"<!doctype html>
{% macro cell(line, number) %}<td id="l{{ number }}" class="{{ 'long' if line|length > 80 else 'short' }}">{{ line }}</td>{% endmacro %}
<h1>{{ title|upper }}</h1>
{% for page in pages %}
<h2>{{ loop.index }}. {{ page.name|replace("#", "")|trim }}</h2>
<table>
{% for line in page.lines if line|trim %}
<tr>{{ cell(line, loop.index) }}<td>{{ line|split(" ")|length }} words, the first is {{ line|trim|split(" ")|first|lower }}</td></tr>
{% else %}
<tr><td>empty</td></tr>
{% endfor %}
</table>
{% endfor %}
"##;

/// The number of times that the listing is rendered.
const PASSES: usize = 20;

/// Renders the listing [`PASSES`] times, from new values each time.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let mut pages = files::texts(&root.join("docs"), "md")?;
    pages.extend(files::texts(&root.join("crates"), "md")?);
    let mut environment = Environment::new();
    environment.add_template("listing.html", TEMPLATE)?;
    let template = environment.get_template("listing.html")?;
    let mut checksum = Checksum::new();
    for pass in 0..PASSES {
        let listed: Value = pages.iter().map(|page| listed(page)).collect();
        let html = template.render(context! { title => format!("Pages, pass {pass}"), pages => listed })?;
        checksum.bytes(html.as_bytes());
    }
    Ok(checksum)
}

/// Returns a page as a value with its lines and a name, which is its first line.
fn listed(page: &str) -> Value {
    let lines: Value = page.lines().map(str::to_owned).collect();
    context! { name => page.lines().next().unwrap_or_default(), lines => lines }
}
