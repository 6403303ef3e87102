//! Samples of single operations of a scope, for `cargo xtask bench --scopes`.

use core::future::{Future, poll_fn};
use core::hint::black_box;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::time::Instant;

use serde_json::{Value, json};
use typed_pool::Scope;

/// The number of calls in a sample of an operation that takes a few nanoseconds.
const CALLS: u32 = 20_000;

/// The number of rounds. Each round takes one sample of every operation, so slow drifts cancel in
/// the ratio of two operations.
const ROUNDS: usize = 60;

/// The number of blocks that were allocated and freed in the scope whose end is timed.
const BLOCKS: usize = 1_000;
/// The number of different sizes of the [`BLOCKS`] blocks.
const SIZES: usize = 50;

/// The number of scopes that run before the first sample. A thread that runs many scopes keeps
/// units for later scopes. After these runs, the samples resemble the samples of a service that has
/// run for a while.
const EARLIER: usize = 1_000;

/// An operation: its name, and a function that takes a sample in nanoseconds per call.
type CostRow = (&'static str, fn() -> f64);

const ROWS: [CostRow; 7] = [
    ("pair outside", pairs),
    ("pair inside", || Scope::builder().build().run(pairs)),
    ("enter", entered),
    ("enter with a block", entered_with_a_block),
    ("poll outside", || polls(counted())),
    ("poll inside", || polls(Scope::builder().build().run_async(counted()))),
    ("end", ends),
];

/// Takes all samples. Returns an object with the samples of each operation, in nanoseconds per
/// call.
pub fn samples() -> Value {
    for _ in 0..EARLIER {
        used().finish();
    }
    let mut taken = vec![Vec::with_capacity(ROUNDS); ROWS.len()];
    for round in 0..ROUNDS {
        // Each round begins with the next operation.
        for turn in 0..ROWS.len() {
            let row = (round + turn) % ROWS.len();
            taken[row].push(ROWS[row].1());
        }
    }
    let rows = ROWS.iter().zip(taken);
    Value::Object(rows.map(|((name, _), samples)| ((*name).to_owned(), json!(samples))).collect())
}

/// Calls `work` [`CALLS`] times, and returns the mean time of a call in nanoseconds.
fn each(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        work();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(size)))
}

fn pairs() -> f64 {
    each(|| drop(block(64)))
}

fn entered() -> f64 {
    let scope = Scope::builder().build();
    each(|| scope.run(|| black_box(())))
}

fn entered_with_a_block() -> f64 {
    let scope = Scope::builder().build();
    each(|| scope.run(|| drop(block(64))))
}

/// Returns a future that is ready when it is polled for the [`CALLS`]th time.
fn counted() -> impl Future {
    let mut left = CALLS;
    poll_fn(move |_| {
        left -= 1;
        if black_box(left) == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
}

fn polls<F: Future>(future: F) -> f64 {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    each(|| {
        black_box(future.as_mut().poll(&mut context).is_ready());
    })
}

/// Returns a scope in which [`BLOCKS`] blocks were allocated and freed.
fn used() -> Scope {
    let scope = Scope::builder().build();
    scope.run(|| {
        let blocks: Vec<_> = (0..BLOCKS).map(|number| block(16 * (1 + number % SIZES))).collect();
        drop(black_box(blocks));
    });
    scope
}

/// Returns the time in nanoseconds of the end of one scope, including one reading of the clock.
fn ends() -> f64 {
    let scope = used();
    let start = Instant::now();
    black_box(scope.finish());
    start.elapsed().as_secs_f64() * 1e9
}
