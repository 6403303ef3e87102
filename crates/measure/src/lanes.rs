//! Spreads work over threads.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};
use std::{io, thread};

/// Calls `work` with each item, on `lanes` threads. `work` also gets the number of its lane.
/// Returns the results in the order in which they were done.
///
/// # Errors
///
/// If `work` fails or panics, its lane stops, and the other lanes process the remaining items.
/// Returns the error of the lowest-numbered lane that stopped.
pub fn in_lanes<I: Send, R: Send>(
    lanes: usize,
    items: Vec<I>,
    work: impl Fn(usize, I) -> io::Result<R> + Sync,
) -> io::Result<Vec<R>> {
    let (todo, done) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let run = |lane| {
        loop {
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(item) = next else { return Ok(()) };
            let result = work(lane, item)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    thread::scope(|scope| {
        let run = &run;
        let lanes: Vec<_> = (0..lanes).map(|lane| scope.spawn(move || run(lane))).collect();
        // Join all lanes: the scope panics if a lane panicked and was not joined.
        let ended: Vec<_> = lanes.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended
            .into_iter()
            .try_for_each(|lane| lane.unwrap_or_else(|_panic| Err(io::Error::other("a lane panicked"))))
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_and_failures_are_reported() {
        let mut done = in_lanes(3, (0..100).collect(), |_, item: u32| Ok(2 * item)).expect("none fails");
        done.sort_unstable();
        assert_eq!(done, (0..100).map(|item| 2 * item).collect::<Vec<_>>());
        let fails = |_, item: u32| if item == 7 { Err(io::Error::other("seven")) } else { Ok(item) };
        assert_eq!(in_lanes(2, (0..10).collect(), fails).expect_err("one fails").to_string(), "seven");
        let panics = |_, ()| -> io::Result<()> { panic!("as the test wants") };
        let error = in_lanes(1, vec![()], panics).expect_err("it panics");
        assert_eq!(error.to_string(), "a lane panicked");
        let both = std::sync::Barrier::new(2);
        let ends_badly = |lane, ()| -> io::Result<()> {
            both.wait();
            if lane == 0 { Err(io::Error::other("zero")) } else { panic!("as the test wants") }
        };
        assert_eq!(in_lanes(2, vec![(), ()], ends_badly).expect_err("both end").to_string(), "zero");
    }
}
