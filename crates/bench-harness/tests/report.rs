//! Tests that the pages are complete, do not need other files, and are not wider than the screen.
//! The tests open the pages in Chromium if it is installed: `chromium`, `chromium-browser` or
//! `google-chrome` in PATH, or the program that CHROMIUM names.

mod browser;
mod pages;

use std::fs;
use std::path::Path;

use browser::Chromium;

#[test]
fn the_report_has_all_its_parts() {
    let page = pages::report();
    for part in [
        "<h2>Host and run</h2>",
        "came out equal to itself in all",
        "class=\"matrix\"",
        "<dt>left to --full</dt><dd>S2/batch/25x16</dd>",
        "<h2>Bars</h2>",
        "<h2>Memory over time</h2>",
        "<h2>Tails</h2>",
        "<h2>Scaling</h2>",
        "<h3>4 threads</h3>",
        "<h2>Resident memory</h2>",
        "resident memory of glibc",
        "while asleep",
        "million calls a second",
        "<td class=\"bad\" title=\"aborted: no &lt;luck&gt;, when timed\">crashed</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Third-party arenas require a feature.
    let arenas = bench_harness::contenders::all().iter().any(|entry| !entry.info.caps.free_individually);
    assert_eq!(page.contains("cannot free block by block"), arenas);
    for spec in pages::specs() {
        assert!(page.contains(&format!("<h3>{}</h3>", spec.id)), "{}", spec.id);
    }
}

#[test]
fn a_reference_that_differs_from_itself_is_reported() {
    assert!(pages::compared(1.0).tables.iter().all(|table| table.trusted));
    // The ratio is too close to 1 for a verdict, but its narrow interval excludes 1.
    let report = pages::compared(1.008);
    assert!(report.tables.iter().all(|table| !table.trusted));
    let told = format!(
        "differed from itself, or its ratio to itself is uncertain, in {0} of {0} tables",
        report.tables.len()
    );
    assert!(bench_harness::report::html(&report, None).contains(&told), "{told}");
}

#[test]
fn pages_are_complete_and_state_their_subject() {
    for page in [pages::report(), pages::advice()] {
        assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">") && page.ends_with("</html>\n"));
        for tag in
            ["svg", "section", "article", "table", "thead", "tbody", "tr", "div", "figure", "ul", "dl", "p"]
        {
            let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
        }
        let pictures = page.matches("<svg ").count();
        assert!(pictures > 3, "{pictures}");
        assert_eq!(page.matches(" role=\"img\">\n<title>").count(), pictures, "every picture has a title");
        assert_eq!(page.matches("<th>").count(), 0, "every head of a row or column says which it is");
    }
}

#[test]
fn pages_need_no_external_resources() {
    for page in [pages::report(), pages::advice()] {
        assert!(page.contains("default-src 'none'"));
        for foreign in ["<script", "<link", "<iframe", "http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}

#[test]
fn a_browser_shows_the_pages_without_faults() {
    let Some(chromium) = Chromium::find() else {
        eprintln!("NOT RUN: Chromium is not installed; only the text of the pages was checked");
        return;
    };
    for (name, page) in [("report", pages::report()), ("advice", pages::advice())] {
        // The file is kept for manual inspection.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        fs::write(path, page).expect("cargo's directory can be written");
        let widths = [1280, 360];
        let (looks, complaints) = chromium.look(page, name, &widths);
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
        for (width, [light, dark]) in widths.into_iter().zip(looks) {
            for look in [&light, &dark] {
                assert_eq!(look.width, width, "the frame is as wide as asked for");
                assert_eq!(look.scroll_width, width, "{name}: the page scrolls sideways: {}", look.wide);
                assert_eq!(look.wide, "", "{name}: wider than the page at {width}");
                assert_eq!(look.faint, "", "{name}: hard to read, on {}", look.ground);
                assert!(look.pictures > 3, "{name}: pictures without a size: {look:?}");
            }
            assert_ne!(light.ground, dark.ground, "{name}: the same in light and dark");
        }
    }
}

#[test]
fn the_browser_check_detects_faults() {
    let Some(chromium) = Chromium::find() else { return };
    let bad = "<main><img src=\"http://localhost:9/none.png\"><p style=\"width: 900px; color: #ccc\">x</p>";
    let (looks, complaints) = chromium.look(&pages::advice().replace("<main>", bad), "bad", &[360]);
    let [look, _] = &looks[0];
    assert!(look.scroll_width > 360 && look.wide.contains('P') && look.faint.contains('P'), "{look:?}");
    assert!(!complaints.is_empty(), "a request to elsewhere");
}
