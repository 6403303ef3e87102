//! Tests of profiles, advice and programs, with traces whose figures are known.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::advise::Advice;
use super::replay::{Action, Candidate, Lane, REFERENCE, ReplayProgram, TWIN, time};
use super::*;

mod advice;
mod share;

/// The builder of a trace. The address of a block is its number times 16.
struct Script {
    writer: Writer,
    calls: u64,
    /// Nanoseconds between two calls.
    pace: u64,
}

impl Script {
    fn new() -> Self {
        Self { writer: Writer::new("a script"), calls: 0, pace: 64 }
    }

    fn call(&mut self, thread: u32, what: What) {
        self.writer.push(&TraceEvent { sequence: self.calls, time: self.calls * self.pace, thread, what });
        self.calls += 1;
    }

    fn alloc(&mut self, thread: u32, block: u64, size: u64) {
        self.call(thread, What::Alloc { address: block * 16, size, align_log2: 0, zeroed: false });
    }

    fn free(&mut self, thread: u32, block: u64) {
        self.call(thread, What::Free { address: block * 16 });
    }

    fn resize(&mut self, thread: u32, block: u64, to: u64, size: u64) {
        self.call(thread, What::Resize { address: block * 16 });
        self.call(thread, What::Resized { address: to * 16, size });
    }

    fn read<T>(&self, read: impl FnOnce(&Trace) -> Result<T, TraceError>) -> T {
        let file = tempfile::NamedTempFile::new().expect("the directory for temporary files is writable");
        self.writer.save(file.path()).expect("the directory for temporary files is writable");
        Trace::open(file.path()).and_then(|trace| read(&trace)).expect("a whole trace")
    }

    fn profile(&self) -> TraceProfile {
        self.read(|trace| TraceProfile::of(trace, |_| ()))
    }

    fn program(&self) -> ReplayProgram {
        self.read(ReplayProgram::of)
    }
}

/// Returns a trace of a window of blocks, in which each new block replaces the oldest.
fn queue(blocks: u64, window: u64, size: u64) -> Script {
    let mut script = Script::new();
    for i in 0..blocks {
        if i >= window {
            script.free(1, i % window);
        }
        script.alloc(1, i % window, size);
    }
    script
}

/// Returns a trace of a stack of blocks that is filled and emptied repeatedly.
fn stacks(rounds: u64, depth: u64, size: u64) -> Script {
    let mut script = Script::new();
    for _ in 0..rounds {
        (0..depth).for_each(|i| script.alloc(1, i, size));
        (0..depth).rev().for_each(|i| script.free(1, i));
    }
    script
}

/// Returns a trace in which each new block replaces a random one.
fn slots(blocks: u64, count: u64, size: u64) -> Script {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut script = Script::new();
    (0..count).for_each(|i| script.alloc(1, i, size));
    for _ in 0..blocks {
        let slot = rng.random_range(0..count);
        script.free(1, slot);
        script.alloc(1, slot, size);
    }
    script
}

#[test]
fn a_queue_is_first_in_first_out() {
    let profile = queue(50_000, 100, 200).profile();
    let all = profile.all();
    assert_eq!((all.blocks, all.freed, profile.left), (50_000, 49_900, 100));
    assert!(all.share(&[FreeOrder::Fifo]) > 0.999, "{:?}", all.orders);
    assert_eq!(profile.peak_bytes, 100 * 200);
    assert_eq!(profile.peak_blocks, 100);
    assert_eq!(profile.threads, 1);
    // While a block is live, 100 blocks are allocated, the block itself included.
    assert_eq!(all.lives.rows(), [(64, 49_900)]);
    let class = profile.classes.iter().position(|class| class.blocks > 0).expect("a class has blocks");
    assert_eq!(text::class_name(class), "to 256 B");
    assert_eq!(profile.sizes, [(200, 50_000)]);
    assert!(profile.ring_peak <= 4 * (32 << 10), "{}", profile.ring_peak);
}

#[test]
fn a_queue_with_long_lived_blocks_is_still_a_queue() {
    let mut script = Script::new();
    for i in 0..20_000_u64 {
        script.alloc(1, i, 64);
        // One block in fifty is never freed, and neither are the last hundred.
        if i >= 100 && (i - 100) % 50 != 0 {
            script.free(1, i - 100);
        }
    }
    let all = script.profile().all();
    assert!(all.share(&[FreeOrder::Fifo]) > 0.98, "{:?}", all.orders);
}

#[test]
fn a_stack_is_last_in_first_out() {
    let all = stacks(1000, 20, 48).profile().all();
    assert_eq!(all.freed, 20_000);
    assert_eq!(all.of(FreeOrder::AtOnce), 1000, "the block on top is freed before another is allocated");
    assert_eq!(all.of(FreeOrder::Lifo), 19_000);
}

#[test]
fn pairs_are_freed_at_once() {
    let profile = stacks(10_000, 1, 48).profile();
    let all = profile.all();
    assert_eq!(all.of(FreeOrder::AtOnce), 10_000);
    assert_eq!(all.lives.rows(), [(1, 10_000)]);
    assert_eq!(all.times.rows(), [(64, 10_000)]);
    assert_eq!(profile.ring_peak, 32 << 10);
}

#[test]
fn random_frees_have_no_order() {
    let all = slots(50_000, 200, 48).profile().all();
    assert!(all.share(&[FreeOrder::None]) > 0.97, "{:?}", all.orders);
}

#[test]
fn remote_frees_are_counted_with_their_order() {
    let mut script = Script::new();
    for i in 0..10_000_u64 {
        script.alloc(1, i, 64);
        if i >= 32 {
            script.free(2, i - 32);
        }
    }
    let profile = script.profile();
    let all = profile.all();
    assert_eq!((all.elsewhere, all.freed, profile.threads), (9_968, 9_968, 2));
    assert!(all.share(&[FreeOrder::Fifo]) > 0.999, "a queue between threads: {:?}", all.orders);
}

#[test]
fn odd_calls_are_counted_and_change_no_other_figure() {
    let mut script = Script::new();
    script.alloc(1, 1, 100);
    script.free(1, 99);
    script.free(1, 1);
    script.free(1, 1);
    script.alloc(1, 2, 10);
    script.alloc(1, 2, 20);
    script.resize(1, 2, 3, 5000);
    script.resize(1, 77, 78, 8);
    script.resize(1, 3, 3, 0);
    script.call(1, What::Resized { address: 160, size: 4 });
    script.free(1, 3);
    let profile = script.profile();
    assert_eq!((profile.unknown, profile.twice, profile.lost), (3, 1, 1));
    assert_eq!(profile.left, 2, "the results of `realloc` of unknown blocks");
    assert_eq!(profile.peak_bytes, 5000 + 8 + 4);
    let all = profile.all();
    assert_eq!((all.freed, all.resizes), (2, 1));
    let program = script.program();
    assert_eq!((program.left().len(), program.peak_live), (2, 5012));
    let (mut profile, advice) = (profile.clone(), Advice::of(&profile, None));
    profile.caveats.push("a caveat".to_owned());
    let report = text::report(&profile, &advice);
    for line in ["note: a caveat", "3 calls for blocks that were allocated before", "1 blocks freed twice"] {
        assert!(report.contains(line), "{line}: {report}");
    }
    assert!(page::page(&profile, &advice, None).contains("a caveat"));
}

#[test]
fn a_trace_without_calls_has_a_report_and_a_page() {
    let profile = Script::new().profile();
    let advice = Advice::of(&profile, None);
    assert!(text::report(&profile, &advice).contains("Keep your allocator."));
    assert!(page::page(&profile, &advice, None).ends_with("</html>\n"));
}

#[test]
fn the_page_is_complete_and_loads_nothing() {
    let mut script = queue(5000, 100, 200);
    script.writer = Writer::new("cc <script>alert(1)</script>");
    (0..100).for_each(|i| script.alloc(1, 10_000 + i, 64));
    let profile = script.profile();
    let page = page::page(&profile, &Advice::of(&profile, None), None);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for needed in
        ["<svg", "prefers-color-scheme: dark", "@media print", "width=device-width", "&lt;script&gt;"]
    {
        assert!(page.contains(needed), "{needed}");
    }
    for foreign in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for tag in ["svg", "section", "table", "div", "article", "ul"] {
        let (open, close) =
            (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count());
        assert_eq!(open, close, "<{tag}>");
    }
}

/// Returns a trace of four threads that free and resize each other's blocks, and leave some of them
/// live.
fn crowd(calls: u64) -> Script {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut script = Script::new();
    let mut alive: Vec<u64> = Vec::new();
    for next in 0..calls {
        let thread = rng.random_range(1..=4);
        match rng.random_range(0..5) {
            0 | 1 => {
                script.alloc(thread, next, rng.random_range(1..=3000));
                alive.push(next);
            }
            2 if !alive.is_empty() => {
                let at = rng.random_range(0..alive.len());
                let block = core::mem::replace(&mut alive[at], next);
                script.resize(thread, block, next, rng.random_range(1..=3000));
            }
            _ if !alive.is_empty() => {
                let block = alive.swap_remove(rng.random_range(0..alive.len()));
                script.free(thread, block);
            }
            _ => {}
        }
    }
    script
}

#[test]
fn a_program_has_the_calls_of_its_trace() {
    let script = crowd(20_000);
    let (profile, program) = (script.profile(), script.program());
    assert_eq!(program.lanes().len(), 4);
    assert_eq!(program.peak_live, profile.peak_bytes);
    assert_eq!(program.left().len() as u64, profile.left);
    let ops = || program.lanes().iter().flat_map(Lane::ops);
    let count = |action: Action| ops().filter(|op| op.action == action).count() as u64;
    let all = profile.all();
    assert_eq!((count(Action::Alloc), count(Action::Free)), (all.blocks, all.freed));
    assert_eq!(count(Action::Resize), all.resizes);
    let waits = ops().filter(|op| op.wait > 0).count();
    let published = ops().filter(|op| op.publish).count();
    assert_eq!(waits, published, "each wait is for a published operation");
    assert!(waits as u64 >= all.elsewhere);
    assert!(program.slots < 2 * profile.peak_blocks as usize + 4 * 64, "slots are reused");
}

#[test]
fn conc_every_candidate_plays_in_every_round() {
    let single = slots(500, 50, 100).program();
    let crowd = crowd(2000).program();
    for program in [&single, &crowd] {
        let candidates =
            [REFERENCE, TWIN, "another"].map(|key| Candidate::new::<std::alloc::System>(key, key));
        let mut rounds = 0;
        let figures =
            time(program, &candidates, 2, 1, |_| rounds += 1).expect("the reference replays the trace");
        assert_eq!((figures.len(), rounds), (candidates.len(), 3));
        assert_eq!(figures[0].ratio.mid, 1.0, "the reference against itself");
        assert!(figures.iter().all(|timed| timed.ratio.mid > 0.0 && timed.ns > 0.0));
        let error = time(program, &candidates[1..], 1, 1, |_| ()).expect_err("the reference is missing");
        assert!(error.to_string().contains("glibc"), "{error}");
    }
}

#[test]
fn a_replay_without_rounds_is_an_error() {
    let program = stacks(10, 1, 48).program();
    let error = time(&program, &[Candidate::new::<std::alloc::System>(REFERENCE, "")], 0, 1, |_| ());
    assert!(error.expect_err("there is no figure").contains("at least one round"));
}

/// `u32::MAX` rounds and the warm-up are more than a `u32` can count.
#[test]
#[should_panic(expected = "round 2 has ended")]
fn the_largest_number_of_rounds_does_not_overflow() {
    let program = stacks(10, 1, 48).program();
    let reference = Candidate::new::<std::alloc::System>(REFERENCE, "");
    let figures = time(&program, &[reference], u32::MAX, 1, |round| assert!(round < 2, "round 2 has ended"));
    assert!(figures.is_err(), "some rounds have been played");
}

#[test]
fn sums_saturate_at_the_largest_number() {
    let mut script = Script::new();
    let size = (1 << 56) - 1;
    (0..300).for_each(|i| script.alloc(1, i, size));
    script.resize(1, 0, 0, size - 1);
    (0..300).for_each(|i| script.free(1, i));
    // Twenty more threads each live for most of the longest time that a trace can express.
    (0..20).for_each(|i| script.alloc(2 + i, 1000 + u64::from(i), 64));
    script.pace = u64::MAX / 800;
    (0..20).for_each(|i| script.free(2 + i, 1000 + u64::from(i)));
    let profile = script.profile();
    let all = profile.all();
    assert_eq!((profile.peak_bytes, all.bytes, profile.ring_peak), (u64::MAX, u64::MAX, u64::MAX));
    assert_eq!((all.blocks, all.freed, profile.threads_time), (320, 320, u64::MAX));
    let advice = Advice::of(&profile, None);
    assert!(text::report(&profile, &advice).contains("a script"));
    assert!(page::page(&profile, &advice, None).ends_with("</html>\n"));
}

#[test]
fn every_size_has_a_class() {
    let classes = [0, 1, 16, 17, 32, 33, 1 << 26, 1 << 27, u64::MAX / 2 + 2, u64::MAX];
    assert_eq!(classes.map(profile::class_of), [0, 0, 0, 1, 1, 2, 22, 23, 23, 23]);
}
