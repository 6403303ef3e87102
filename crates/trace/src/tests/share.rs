//! Tests of the allocator's share of time, with traces whose share is known.

use crate::advise::{Advice, Recommendation};
use crate::format::Clocks;
use crate::share::Interval;

use super::*;

/// Nanoseconds that the clock adds to each measured interval.
const CLOCK: u64 = 20;

/// The number of blocks that each program allocates and frees.
const BLOCKS: u64 = 20_000;

/// A program of one thread that calls its allocator in a loop.
#[derive(Clone, Copy)]
struct Run {
    /// The nanoseconds per call that the program spends in the allocator, in the recorder, in its
    /// own code, and waiting.
    call: [u64; 4],
    /// Whether every 31st call is measured.
    measured: bool,
    /// Whether the program exits.
    exits: bool,
}

impl Run {
    fn new(call: [u64; 4]) -> Self {
        Self { call, measured: true, exits: true }
    }

    /// Returns the program's trace, with a note of the clocks after every thousand calls.
    fn script(self) -> Script {
        let [allocator, recorder, own, waiting] = self.call;
        let processor = allocator + recorder + own;
        let mut script = Script { pace: processor + waiting, ..Script::new() };
        let mut since = 0;
        for block in 0..BLOCKS {
            for free in [false, true] {
                let calls = script.calls;
                if calls.is_multiple_of(1000) {
                    let clocks = Clocks {
                        time: calls * script.pace,
                        thread: calls * processor,
                        process: 7_000_000 + calls * processor,
                        recorder: 0,
                    };
                    script.writer.clocks(1, &clocks);
                }
                if free {
                    script.free(1, block);
                } else {
                    script.alloc(1, block, 64);
                }
                since += 1;
                if self.measured && since == 31 {
                    script.writer.took(1, allocator + CLOCK, recorder + CLOCK);
                    since = 0;
                }
            }
        }
        let calls = script.calls;
        let end = RunEnd { time: calls * script.pace, processor: calls * processor };
        script.writer.start(CLOCK as f64, 7_000_000);
        if self.exits {
            script.writer.end(&end);
        }
        script
    }

    fn advice(self) -> Advice {
        Advice::of(&self.script().profile(), None)
    }
}

fn contains(range: Option<Interval>, share: f64) -> bool {
    range.is_some_and(|range| range.low <= share && share <= range.high && range.low <= range.mid)
}

#[test]
fn a_recorder_that_takes_nine_tenths_of_the_time_does_not_hide_the_share() {
    let advice = Run::new([80, 900, 20, 0]).advice();
    let share = advice.share.of_processor();
    assert!(contains(share, 0.8), "{share:?}");
    assert!(share.is_some_and(|share| share.low > 0.3), "{share:?}: the recorder is subtracted");
    assert_eq!(advice.share.source, CostSource::Sampled);
    assert!(advice.share.reasons.iter().any(|why| why.contains("the recorder took about 9")));
    // A cheap recorder leaves a narrow range.
    let share = Run::new([80, 5, 20, 0]).advice().share.of_processor();
    assert!(contains(share, 0.8), "{share:?}");
    assert!(share.is_some_and(|share| share.low > 0.6), "{share:?}");
}

#[test]
fn shares_are_right_for_slow_calls_and_for_rare_calls() {
    for (call, known) in [
        ([300, 50, 100, 0], 0.75),
        ([40, 60, 360, 0], 0.1),
        ([40, 60, 1960, 0], 0.02),
        ([15, 60, 1485, 0], 0.01),
    ] {
        let share = Run::new(call).advice().share.of_processor();
        assert!(contains(share, known), "{call:?}: {share:?}");
        let mid = share.map_or(0.0, |share| share.mid);
        assert!((mid / known - 1.0).abs() < 0.34, "{call:?}: {mid}");
    }
}

#[test]
fn waiting_counts_as_wall_time_only() {
    let advice = Run::new([80, 60, 20, 840]).advice();
    assert!(contains(advice.share.of_processor(), 0.8), "{:?}", advice.share);
    assert!(contains(advice.share.of_wall(), 80.0 / 940.0), "{:?}", advice.share);
    let said = text::verdict(&advice);
    assert!(said.contains("processor time") && said.contains("of the wall time"), "{said}");
    assert!(advice.whole.contains("processor time"), "savings are a share of processor time");
    let page = page::page(&Run::new([80, 60, 20, 840]).script().profile(), &advice, None);
    assert!(page.contains("processor time") && page.contains("waiting included"));
}

#[test]
fn the_processor_time_of_a_killed_programs_last_packet_is_estimated() {
    let run = Run { exits: false, ..Run::new([80, 60, 20, 0]) };
    let advice = run.advice();
    let recorded = advice.share.recorded.expect("the trace contains the clocks");
    assert!(recorded.low < recorded.high && recorded.low <= recorded.mid, "{recorded:?}");
    assert!(contains(Some(recorded), (2 * BLOCKS - 1) as f64 * 160.0), "{recorded:?}");
    assert!(contains(advice.share.of_processor(), 0.8), "{:?}", advice.share);
    assert!(advice.share.reasons.iter().any(|why| why.contains("lacks the end of the program")));
}

/// An assumed or sampled figure is not a bound, and no sentence may call it a bound.
#[test]
fn no_verdict_claims_a_bound() {
    let measured = Run::new([15, 60, 4985, 0]);
    let assumed = Run { measured: false, ..measured };
    for (run, source) in [(measured, CostSource::Sampled), (assumed, CostSource::Table)] {
        let advice = run.advice();
        assert_eq!(
            (advice.verdict.clone(), advice.share.source),
            (Recommendation::Keep, source),
            "{:?}",
            advice.reasons
        );
        let said = text::verdict(&advice);
        for claim in ["save no more", "no more than", "no time would"] {
            assert!(!said.contains(claim), "{said}");
        }
        assert!(said.contains("between"), "{said}");
        let words = serde_json::to_value(source).expect("the source is a string");
        assert!(said.contains(words.as_str().expect("the source is a string")), "{said}");
    }
}

/// A share is too small only if its high end, which assumes cold caches, is below the bar.
#[test]
fn a_range_of_assumed_costs_that_contains_the_bar_decides_nothing() {
    let run = Run { measured: false, ..Run::new([60, 60, 2_000, 0]) };
    let advice = run.advice();
    let share = advice.share.of_processor().expect("the trace contains the clocks");
    assert!(share.low < 0.02 && share.high > 0.02 && contains(Some(share), 60.0 / 2060.0), "{share:?}");
    assert!(advice.reasons.iter().any(|why| why.contains("replay")), "{:?}", advice.reasons);
    assert!(!advice.reasons.iter().any(|why| why.contains("too little")), "{:?}", advice.reasons);
}

#[test]
fn the_busiest_threads_are_listed_with_their_processor_time() {
    let mut script = Script::new();
    for (thread, busy) in [(1, 5_000), (2, 90_000), (3, 40_000)] {
        script.alloc(thread, thread.into(), 64);
        script.writer.clocks(thread, &Clocks { time: 100_000, thread: busy, process: 140_000, recorder: 0 });
    }
    let profile = script.profile();
    let said = text::report(&profile, &Advice::of(&profile, None));
    assert!(said.contains("90.0 us by thread 2, 40.0 us by thread 3, 5.0 us by thread 1"), "{said}");
}

#[test]
fn nearness_allows_a_third_at_the_middle_and_at_each_end() {
    let range = Interval { low: 0.1, mid: 0.3, high: 0.5 };
    for (known, near) in [(0.3, true), (0.23, true), (0.44, true), (0.22, false), (0.46, false)] {
        assert_eq!(range.is_near(known), near, "{known}");
    }
    let narrow = Interval { low: 0.3, mid: 0.3, high: 0.3 };
    assert!(
        narrow.is_near(0.39) && !narrow.is_near(0.41),
        "the range is stretched by a third and no further"
    );
}
