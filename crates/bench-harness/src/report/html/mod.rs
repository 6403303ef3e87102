//! `report.html`: the whole report in one file without external resources, for screens of any
//! width, in light and dark, and for paper.
#![forbid(unsafe_code)]

mod alone;
mod changes;
mod curves;
pub(crate) use core::fmt::Write as _;

use ephemera_measure::page::{elements, escaped, page, table};

use super::baseline::Comparison;
use super::matrix::Matrix;
use super::model::{BenchReport, ReportRow, ReportTable};
use super::svg::forest;
use super::text::{LEGEND, UNTRUSTED, bar_grid, grid, host_block, latencies};
use crate::runner::ContenderState;
use crate::stats::Verdict;

struct Section {
    id: &'static str,
    /// The section's name in the list of sections.
    name: &'static str,
    /// The section's heading in HTML.
    heading: String,
    /// The section's contents in HTML.
    body: String,
}

impl Section {
    /// Creates a section whose heading is its name.
    fn new(id: &'static str, name: &'static str, body: String) -> Self {
        Self { id, name, heading: name.to_owned(), body }
    }
}

/// Returns the report as a page. With a `comparison`, the page also shows the changes since an
/// earlier run.
#[must_use]
pub fn html(report: &BenchReport, comparison: Option<&Comparison>) -> String {
    let sections = [
        Some(host(report)),
        comparison.map(changes::changes),
        matrices(report),
        bars(report),
        curves::memory(report),
        curves::tails(report),
        curves::scaling(report),
        alone::alone(report),
        workloads(report),
    ];
    let sections: Vec<Section> = sections.into_iter().flatten().collect();
    let mut out = String::new();
    head(&mut out, report, &sections);
    for Section { id, heading, body, .. } in sections {
        let _ = write!(out, "<section id=\"{id}\">\n<h2>{heading}</h2>\n{body}</section>\n");
    }
    page(&format!("Allocators compared ({})", report.mode), &out)
}

fn head(out: &mut String, report: &BenchReport, sections: &[Section]) {
    let _ = write!(
        out,
        "<header>\n<p class=\"command\"><code>bench-runner --{}</code>, commit <code>{}</code></p>\n\
         <h1>Allocators compared</h1>\n<p>On {}.</p>\n",
        escaped(&report.mode),
        escaped(&report.host.commit),
        escaped(&report.host.cpu)
    );
    out.push_str(&trust(report));
    if sections.len() > 1 {
        out.push_str("<nav aria-label=\"parts of this page\"><ul>\n");
        for Section { id, name, .. } in sections {
            let _ = writeln!(out, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        out.push_str("</ul></nav>\n");
    }
    out.push_str("</header>\n");
}

/// Returns the section with the facts about the host and the run.
fn host(report: &BenchReport) -> Section {
    let mut out = String::from("<dl class=\"facts\">\n");
    for (name, value) in host_block(report) {
        let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(&value));
    }
    out.push_str("</dl>\n");
    Section::new("host", "Host and run", out)
}

/// Returns the paragraph that says whether the reference came out equal to itself.
fn trust(report: &BenchReport) -> String {
    let judged = report.tables.iter().filter(|table| table.aa.is_some()).count();
    let distrusted: Vec<&ReportTable> = report.tables.iter().filter(|table| !table.trusted).collect();
    if judged == 0 {
        return "<p class=\"caveat\">The reference was not compared with itself.</p>\n".to_owned();
    }
    if distrusted.is_empty() {
        return format!(
            "<p class=\"good\">A/A: the reference, entered twice, came out equal to itself in all {judged} tables.</p>\n"
        );
    }
    let links: Vec<String> = distrusted.iter().map(|table| link(table)).collect();
    format!(
        "<p class=\"caveat\">A/A: the reference, entered twice, differed from itself in {} of {judged} tables; do not trust \
         these: {}.</p>\n",
        links.len(),
        links.join(", ")
    )
}

/// Returns the anchor of a table in the page.
fn anchor(table: &ReportTable) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("w-{}", table.spec.id.chars().map(plain).collect::<String>())
}

fn link(table: &ReportTable) -> String {
    format!("<a href=\"#{}\">{}</a>", anchor(table), escaped(&table.spec.id))
}

fn matrices(report: &BenchReport) -> Option<Section> {
    let matrices = Some(Matrix::all(report)).filter(|matrices| !matrices.is_empty())?;
    let mut out = String::from(
        "<p>Time over the reference's: below 1 is faster. Cells without a colour \
         could not be told from the reference. A mean over unlike workloads says little.</p>\n<p class=\"key\">",
    );
    for (class, words) in SHADES {
        let _ = write!(out, "<span class=\"{class}\">{words}</span> ");
    }
    out.push_str("</p>\n");
    for (class, matrix) in &matrices {
        let _ = write!(
            out,
            "<h3>{}</h3>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"ratios, {}\"><table class=\"matrix\">\n\
             <thead><tr><th scope=\"col\">workload</th>",
            capital(class.word()),
            class.word()
        );
        for head in &matrix.heads {
            let _ = write!(out, "<th scope=\"col\"><span>{}</span></th>", escaped(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (table, cells) in &matrix.rows {
            let mark = if table.trusted { "" } else { " <abbr title=\"untrusted\">!</abbr>" };
            let _ = write!(out, "<tr><th scope=\"row\">{}{mark}</th>", link(table));
            cells.iter().for_each(|row| out.push_str(&cell(row)));
            out.push_str("</tr>\n");
        }
        if let Some((count, means)) = &matrix.means {
            let _ = write!(out, "<tr class=\"mean\"><th scope=\"row\">{}</th>", Matrix::mean_name(*count));
            for mean in means {
                let _ = write!(out, "<td>{mean:.3}</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
    Some(Section::new("matrix", "Matrix", out))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The classes of the style sheet for the cells of a matrix, with their meanings, from much faster
/// to much slower.
const SHADES: [(&str, &str); 6] = [
    ("f3", "half or less"),
    ("f2", "to 0.8"),
    ("f1", "faster"),
    ("s1", "slower"),
    ("s2", "from 1.25"),
    ("s3", "twice or more"),
];

fn shade(ratio: f64, verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Faster) if ratio <= 0.5 => "f3",
        Some(Verdict::Faster) if ratio <= 0.8 => "f2",
        Some(Verdict::Faster) => "f1",
        Some(Verdict::Slower) if ratio >= 2.0 => "s3",
        Some(Verdict::Slower) if ratio >= 1.25 => "s2",
        Some(Verdict::Slower) => "s1",
        _ => "same",
    }
}

fn cell(row: &ReportRow) -> String {
    match (&row.state, row.ratio) {
        (ContenderState::Ran, Some(ratio)) => {
            format!("<td class=\"{}\">{:.3}</td>", shade(ratio.mid, row.verdict), ratio.mid)
        }
        (ContenderState::Ran, None) => "<td>–</td>".to_owned(),
        (ContenderState::Missing(why), _) => format!("<td title=\"{}\">–</td>", escaped(why)),
        (ContenderState::Crashed(why) | ContenderState::Wrong(why), _) => {
            format!("<td class=\"bad\" title=\"{}\">{}</td>", escaped(why), row.state.told().0)
        }
    }
}

fn bars(report: &BenchReport) -> Option<Section> {
    let (met, run) = report.bars_met();
    let about = format!("<p>What this workspace's allocators are held to: {met} of {run} met.</p>\n");
    let body = about + &table("bars", &bar_grid(report));
    (!report.bars.is_empty()).then(|| Section::new("bars", "Bars", body))
}

fn workloads(report: &BenchReport) -> Option<Section> {
    let mut out = String::new();
    elements(&mut out, "p", [LEGEND.replace('`', "")]);
    report.tables.iter().for_each(|table| workload(&mut out, table));
    (!report.tables.is_empty()).then(|| Section::new("workloads", "Workloads", out))
}

fn workload(out: &mut String, of: &ReportTable) {
    let aa = of
        .aa
        .map_or("not run".to_owned(), |aa| format!("{:.3}, {:.3} to {:.3}", aa.mid, aa.low95, aa.high95));
    let _ = write!(
        out,
        "<article id=\"{}\">\n<h3>{}</h3>\n<p>{}; ns per {}; A/A {aa}.</p>\n",
        anchor(of),
        escaped(&of.spec.id),
        escaped(&of.spec.title),
        escaped(of.spec.op)
    );
    if !of.trusted {
        let _ = writeln!(out, "<p class=\"caveat\">{UNTRUSTED}.</p>");
    }
    if of.contaminated > 0.2 {
        let _ = writeln!(
            out,
            "<p class=\"caveat\">Something else ran in {:.0} % of the rounds.</p>",
            of.contaminated * 100.0
        );
    }
    let plot = forest(of);
    if !plot.0.is_empty() {
        let title = format!("{}: ratios to the reference, with 95 % intervals", of.spec.id);
        let _ = writeln!(out, "<div class=\"wide picture\">{}</div>", plot.inline(&title));
    }
    let _ = writeln!(out, "<div class=\"noted\">{}</div>", table(&of.spec.id, &grid(of)));
    if let Some((line, grid)) = latencies(of) {
        let _ = write!(out, "<p>{}:</p>\n{}", escaped(&line), table("latencies", &grid));
    }
    out.push_str("</article>\n");
}
