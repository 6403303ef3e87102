//! Renders the profile and the advice as one HTML page. The page does not load other files, and
//! works on light, dark and narrow screens and on paper.
#![forbid(unsafe_code)]

mod chart;

use core::fmt::Write as _;

use super::advise::Advice;
use super::histogram::LogHistogram;
use super::profile::{BlockCounts, TraceProfile};
use super::replay::{ReplayRow, Replayed};
use super::text::{self, class_name, headline, shares};
use super::units::{bytes, duration, grouped, percent};
use ephemera_measure::grid::grid;
use ephemera_measure::page::{elements, escaped, table};

/// The element for a paragraph that says which figures a reader should not trust.
const CAVEAT: &str = "p class=\"caveat\"";

/// Returns one self-contained HTML page.
#[must_use]
pub fn page(profile: &TraceProfile, advice: &Advice, replayed: Option<&Replayed>) -> String {
    let mut out = String::new();
    head(&mut out, profile, advice);
    let all = profile.all();
    figures(&mut out, profile, &all);
    let _ = write!(
        out,
        "<section>\n<h2>Live bytes</h2>\n<div class=\"wide picture\">{}</div></section>\n",
        chart::alive(profile)
    );
    sizes(&mut out, profile, &all);
    lifetimes(&mut out, &all);
    offers(&mut out, advice);
    if let Some(replayed) = replayed {
        replay(&mut out, replayed);
    }
    let program = profile.command.split(' ').next().unwrap_or("a program");
    ephemera_measure::page::page(&format!("The allocations of {program}"), &out)
}

fn head(out: &mut String, profile: &TraceProfile, advice: &Advice) {
    let _ = write!(
        out,
        "<header>\n<p class=\"command\"><code>{}</code></p>\n<h1>{}</h1>\n<ul>\n",
        escaped(&profile.command),
        escaped(&headline(advice))
    );
    elements(out, "li", &advice.reasons);
    out.push_str("</ul>\n");
    elements(out, CAVEAT, &profile.caveats);
    out.push_str("</header>\n");
}

fn figures(out: &mut String, profile: &TraceProfile, all: &BlockCounts) {
    out.push_str("<dl class=\"figures\">\n");
    let life = text::median(&all.lives, grouped, "–");
    for (name, value, more) in [
        ("calls", grouped(profile.events), format!("in {}", duration(profile.time))),
        ("blocks", grouped(all.blocks), bytes(all.bytes)),
        ("threads", grouped(profile.threads), format!("{} % remote frees", percent(all.share_elsewhere()))),
        ("peak", bytes(profile.peak_bytes), format!("{} blocks", grouped(profile.peak_blocks))),
        ("median life", life, "allocations".to_owned()),
        ("left at the end", grouped(profile.left), "blocks".to_owned()),
    ] {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>");
    }
    out.push_str("</dl>\n");
}

fn sizes(out: &mut String, profile: &TraceProfile, all: &BlockCounts) {
    let rows: Vec<(String, [u64; 5])> = profile
        .classes
        .iter()
        .enumerate()
        .filter(|(_, class)| class.blocks > 0)
        .map(|(index, class)| {
            let [at_once, lifo, fifo, none] = class.orders;
            let left = class.blocks - class.freed.min(class.blocks);
            (class_name(index), [at_once, lifo, fifo, none, left])
        })
        .collect();
    const HEAD: [&str; 12] = [
        "size",
        "blocks",
        "% of blocks",
        "% of bytes",
        "% at once",
        "% LIFO",
        "% FIFO",
        "% no order",
        "% remote",
        "resized",
        "median life",
        "in time",
    ];
    let row = |name: String, counts: &BlockCounts| {
        core::iter::once(name).chain(text::figures(counts, all, "–")).collect()
    };
    let classes = profile.classes.iter().enumerate().filter(|(_, counts)| counts.blocks > 0);
    let classes = classes.map(|(class, counts)| row(class_name(class), counts));
    let grid = grid(HEAD, classes.chain([row("all".to_owned(), all)]));
    let _ = write!(
        out,
        "<section>\n<h2>Sizes and orders of frees</h2>\n<div class=\"wide picture\">{}</div>\n{}</section>\n",
        chart::sizes(&rows),
        table("sizes", &grid)
    );
}

fn lifetimes(out: &mut String, all: &BlockCounts) {
    let bars = |histogram: &LogHistogram, show: fn(u64) -> String| {
        let rows: Vec<(String, u64)> =
            histogram.rows().into_iter().map(|(low, count)| (show(low), count)).collect();
        chart::histogram(&rows)
    };
    let _ = write!(
        out,
        "<section class=\"pair\">\n<div><h2>Lifetimes in blocks</h2>\n<p>The number of allocations while a block was live: from \
         this number to the next.</p>\n{}</div>\n<div><h2>Lifetimes in time</h2>\n<p>As recorded, with \
         the recorder's own time.</p>\n{}</div>\n</section>\n",
        bars(&all.lives, grouped),
        bars(&all.times, duration)
    );
}

fn offers(out: &mut String, advice: &Advice) {
    out.push_str("<section>\n<h2>The allocator's share</h2>\n<ul>\n");
    elements(out, "li", shares(advice));
    out.push_str("</ul>\n</section>\n<section>\n<h2>What each crate could do</h2>\n<div class=\"cards\">\n");
    for offer in &advice.offers {
        let (word, class) = if offer.fits { ("fits", "fits") } else { ("does not fit", "not") };
        let _ = write!(
            out,
            "<article class=\"{class}\"><h3>{}<span>{word}</span></h3>\n<p>{} % of the blocks, {} % of the bytes; would save \
             {:.1} % of {}.</p>\n<ul>\n",
            offer.name,
            escaped(&percent(offer.blocks)),
            escaped(&percent(offer.bytes)),
            offer.saving * 100.0,
            escaped(&advice.whole)
        );
        elements(out, "li", &offer.reasons);
        let _ = write!(out, "<li>saving from {}</li>\n</ul></article>\n", escaped(offer.source.said()));
    }
    out.push_str("</div>\n</section>\n");
}

fn replay(out: &mut String, replayed: &Replayed) {
    let _ = writeln!(
        out,
        "<section>\n<h2>Replayed</h2>\n<p>{} calls on {} threads, {} rounds. Ratios are to the first row: below 1 is \
         faster.</p>",
        grouped(replayed.ops),
        replayed.lanes,
        replayed.rounds
    );
    elements(out, CAVEAT, &replayed.notes);
    let untrusted = "Untrusted: the reference differs from itself, because the machine was busy.";
    elements(out, CAVEAT, replayed.untrusted().then_some(untrusted));
    let head = ["allocator", "ratio", "95 % interval", "verdict", "ns a call", "peak", "peak / live"];
    let times = |peak: u64| format!("{:.2}", peak as f64 / replayed.peak_live.max(1) as f64);
    let row = |row: &ReplayRow| {
        vec![
            row.name.clone(),
            format!("{:.3}", row.ratio.mid),
            format!("{:.3} to {:.3}", row.ratio.low95, row.ratio.high95),
            row.verdict.word().to_owned(),
            format!("{:.1}", row.ns),
            row.peak.map_or_else(|| "–".to_owned(), bytes),
            row.peak.map_or_else(|| "–".to_owned(), times),
        ]
    };
    let grid = grid(head, replayed.rows.iter().map(row));
    let _ = write!(
        out,
        "<div class=\"wide picture\">{}</div>\n{}",
        chart::ratios(&replayed.rows),
        table("replayed", &grid)
    );
    let left_out = replayed.left_out.iter().map(|(key, why)| format!("left out: {key}: {why}"));
    elements(out, "p class=\"small\"", left_out);
    out.push_str("</section>\n");
}
