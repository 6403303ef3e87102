//! Tests of the advice, with and without a replay.

use crate::advise::{Advice, Offer, Recommendation};
use crate::replay::{ReplayRow, Replayed};
use ephemera_measure::stats::{self, Estimate};

use super::*;

fn offer(advice: &Advice, name: &str) -> Offer {
    advice.offers.iter().find(|offer| offer.name == name).cloned().expect("the advice has this offer")
}

#[test]
fn few_calls_or_little_time_change_nothing() {
    let advice = Advice::of(&queue(100, 10, 64).profile(), None);
    assert_eq!(advice.verdict, Recommendation::Keep);
    assert!(advice.reasons[0].contains("too few"), "{:?}", advice.reasons);
    let mut slow = Script { pace: 100_000, ..Script::new() };
    (0..20_000).for_each(|i| {
        slow.alloc(1, i, 64);
        slow.free(1, i);
    });
    let advice = Advice::of(&slow.profile(), None);
    assert_eq!(advice.verdict, Recommendation::Keep);
    assert!(advice.reasons[0].contains("too little to change"), "{:?}", advice.reasons);
    assert!(text::verdict(&advice).contains("Keep your allocator."));
}

/// Covers a trace without times, and a trace that is shorter than the assumed time of its calls.
#[test]
fn no_saving_exceeds_the_total_time() {
    for (pace, said) in [(0, "no times"), (1, "100.0 %")] {
        let mut script = Script { pace, ..Script::new() };
        (0..20_000).for_each(|i| {
            script.alloc(1, i, 64);
            script.free(1, i);
        });
        let advice = Advice::of(&script.profile(), None);
        assert!(advice.offers.iter().all(|offer| (0.0..=1.0).contains(&offer.saving)), "{:?}", advice.offers);
        assert!(text::verdict(&advice).contains(said), "{}", text::verdict(&advice));
        assert!(advice.reasons[0].contains(said), "{:?}", advice.reasons);
    }
}

#[test]
fn a_queue_of_buffers_fits_and_scattered_long_lived_blocks_do_not() {
    let advice = Advice::of(&queue(50_000, 100, 200).profile(), None);
    assert!(offer(&advice, "ringal").fits && offer(&advice, "ring-alloc").fits, "{:?}", advice.offers);
    assert!(matches!(advice.verdict, Recommendation::Try(_, CostSource::Table)), "{:?}", advice.verdict);
    let headline = text::headline(&advice);
    assert!(headline.contains("assumed") && headline.contains("`cargo xtask replay`"), "{headline}");
    let said = offer(&advice, "ring-alloc").reasons.join("; ");
    assert!(said.contains("can name an allocator") && said.contains(", and "), "{said}");
    assert!(!said.contains(" times the "), "{said}: the chunks are small");

    // 300 blocks exceed a chunk, and one block in 300 is never freed.
    let mut script = Script::new();
    for round in 0..200 {
        let blocks = round * 300..(round + 1) * 300;
        blocks.clone().for_each(|block| script.alloc(1, block, 128));
        blocks.skip(1).for_each(|block| script.free(1, block));
    }
    let profile = script.profile();
    assert!(profile.ring_peak >= 200 * (32 << 10), "{}", profile.ring_peak);
    let ring = offer(&Advice::of(&profile, None), "ring-alloc");
    assert!(!ring.fits && ring.reasons.iter().any(|why| why.contains("hold chunks")), "{:?}", ring.reasons);
    assert!(ring.reasons.iter().any(|why| why.contains(" times the ")), "{:?}", ring.reasons);
}

/// Returns the figures of a replay in which the reference takes 20 ns a call.
fn replayed(profile: &TraceProfile, ratios: &[(&str, f64)]) -> Replayed {
    let exactly = |mid| Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid };
    let row = |&(key, mid): &(&str, f64)| ReplayRow {
        key: key.to_owned(),
        name: key.to_owned(),
        ratio: exactly(mid),
        verdict: match mid {
            ..1.0 => stats::Verdict::Faster,
            1.0 => stats::Verdict::Same,
            _ => stats::Verdict::Slower,
        },
        ns: 20.0 * mid,
        peak: None,
    };
    Replayed {
        digest: String::new(),
        command: String::new(),
        ops: profile.events,
        lanes: 1,
        threads: 1,
        huge: 0,
        peak_live: profile.peak_bytes,
        rounds: 9,
        seed: 1,
        rows: [("glibc", 1.0)].iter().chain(ratios).map(row).collect(),
        left_out: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn the_figures_of_a_replay_are_used() {
    let profile = slots(50_000, 5000, 4000).profile();
    let replayed = replayed(&profile, &[("mimalloc", 0.5), ("one-ring", 2.0)]);
    let advice = Advice::of(&profile, Some(&replayed));
    assert_eq!(advice.share.source, CostSource::Replay);
    assert!((advice.share.heap.mid - 20.0 * profile.events as f64).abs() < 1.0);
    assert_eq!(advice.offers[0].saving, 0.0, "slower saves nothing");
    assert_eq!(advice.verdict, Recommendation::General("mimalloc".to_owned(), 0.5), "{:?}", advice.reasons);
    assert!(!replayed.untrusted());
    let page = page::page(&profile, &advice, Some(&replayed));
    assert!(page.contains("Replayed") && page.contains("try mimalloc"));
    let json = serde_json::to_string(&replayed).expect("plain data");
    assert_eq!(serde_json::from_str::<Replayed>(&json).expect("the JSON is valid").rows.len(), 3);
}

/// Reaches every part of the templates of a replay.
#[test]
fn the_notes_of_a_replay_are_in_its_table_and_in_the_page() {
    let profile = slots(5000, 500, 64).profile();
    let mut replayed = replayed(&profile, &[(TWIN, 2.0), ("mimalloc", 0.5)]);
    replayed.huge = 1234;
    replayed.rows[2].peak = Some(1 << 20);
    replayed.notes.push("1 < 2".to_owned());
    replayed.left_out.push(("slab".to_owned(), "one & two".to_owned()));
    let table = text::replay(&replayed);
    for part in ["note: 1,234 blocks", "note: 1 < 2\n", "UNTRUSTED", "1.0 MiB", "left out: slab: one & two\n"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    let page = page::page(&profile, &Advice::of(&profile, Some(&replayed)), Some(&replayed));
    for part in [">1 &lt; 2</p>", "Untrusted", ">1.0 MiB<", ">left out: slab: one &amp; two</p>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn the_largest_measured_saving_wins() {
    let profile = slots(50_000, 500, 64).profile();
    let advise = |ratios: &[(&str, f64)]| Advice::of(&profile, Some(&replayed(&profile, ratios)));

    // At least one crate fits by assumption, and a general allocator was measured.
    let advice = advise(&[("snmalloc", 0.9)]);
    assert!(advice.offers.iter().any(|offer| offer.fits && !offer.source.is_measured()));
    assert_eq!(advice.verdict, Recommendation::General("snmalloc".to_owned(), 0.9), "{:?}", advice.reasons);
    let said = advice.reasons.join("; ");
    assert!(said.contains("measured: snmalloc") && said.contains("assumed, not measured"), "{said}");

    // Measured crates of ours compete with measured general allocators.
    let advice = advise(&[("snmalloc", 0.45), ("one-ring", 0.6), ("pooled-allocator", 0.5)]);
    assert_eq!(advice.verdict, Recommendation::General("snmalloc".to_owned(), 0.45), "{:?}", advice.reasons);
    assert_eq!(offer(&advice, "typed-pool").source, CostSource::Replay);
    assert_eq!(offer(&advice, "shared_arena").source, CostSource::Table);
    let advice = advise(&[("snmalloc", 0.45), ("one-ring", 0.6), ("pooled-allocator", 0.4)]);
    assert_eq!(advice.verdict, Recommendation::Try("typed-pool", CostSource::Replay), "{:?}", advice.reasons);
    assert!(text::headline(&advice).contains("measured"), "{}", text::headline(&advice));
    let reasons = offer(&advice, "typed-pool").reasons;
    assert!(reasons.iter().any(|why| why.contains("#[global_allocator]")), "{reasons:?}");
    assert!(advice.reasons.iter().any(|why| why.contains("snmalloc")), "{:?}", advice.reasons);
    let saved = offer(&advice, "typed-pool").saving / advice.share.known().expect("the trace has times").mid;
    assert!((saved - 0.6).abs() < 1e-9, "{saved}: the measured ratio applies to the allocator's whole share");

    // A measured ratio of 1 or more overrides an assumed saving.
    let advice = advise(&[("one-ring", 1.2), ("pooled-allocator", 1.0)]);
    for name in ["ring-alloc", "typed-pool"] {
        assert!(!offer(&advice, name).fits && offer(&advice, name).saving == 0.0, "{name}");
    }
}

/// The allocator's time is a sum over threads, so the time that it is divided by must be a sum
/// over threads too.
#[test]
fn the_share_of_several_threads_divides_by_the_time_of_all() {
    let run = |threads: u32| {
        let mut script = Script { pace: 0, ..Script::new() };
        for i in 0..80_000_u64 {
            // Each thread calls once in 2 us.
            let now = i / u64::from(threads) * 2_000;
            let what = if i / u64::from(threads) % 2 == 0 {
                What::Alloc { address: i * 16, size: 64, align_log2: 0, zeroed: false }
            } else {
                What::Free { address: (i - u64::from(threads)) * 16 }
            };
            let thread = 1 + (i % u64::from(threads)) as u32;
            script.writer.push(&TraceEvent { sequence: i, time: now, thread, what });
        }
        Advice::of(&script.profile(), None)
    };
    let (one, eight) = (run(1), run(8));
    let share = |advice: &Advice| advice.share.known().expect("the trace has times").mid;
    assert!(share(&one) < 0.02 && one.verdict == Recommendation::Keep, "{}", share(&one));
    assert!((share(&eight) / share(&one) - 1.0).abs() < 0.01, "{} {}", share(&eight), share(&one));
    let said = text::verdict(&eight);
    assert!(said.contains("of the time of its 8 threads, each counted"), "{said}");
    assert_eq!(eight.verdict, Recommendation::Keep);
}
