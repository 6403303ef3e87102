//! A Markdown renderer: pulldown-cmark turns the repository's pages into HTML.

use std::path::Path;

use pulldown_cmark::{Options, Parser, html};

use crate::checksum::{Checksum, ProgramResult};
use crate::files;

/// The number of times that the pages are rendered.
const PASSES: usize = 200;

/// Renders every page [`PASSES`] times. All HTML of a pass lives until the end of the pass.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let mut pages = files::texts(&root.join("docs"), "md")?;
    pages.extend(files::texts(&root.join("crates"), "md")?);
    let mut checksum = Checksum::new();
    for _ in 0..PASSES {
        let rendered: Vec<_> = pages.iter().map(|page| render(page)).collect();
        checksum.number(rendered.iter().map(|html| html.len() as u64).sum());
        rendered.iter().for_each(|html| checksum.bytes(html.as_bytes()));
    }
    Ok(checksum)
}

fn render(page: &str) -> String {
    let mut html = String::new();
    html::push_html(&mut html, Parser::new_ext(page, Options::all()));
    html
}
