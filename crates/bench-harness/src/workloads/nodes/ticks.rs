//! The rate of the time-stamp counter. The workloads S2-set come from a lecture that states its
//! figures in ticks.

use core::time::Duration;
use std::time::Instant;

/// Returns the ticks of the counter per nanosecond, measured over a few milliseconds, or `None` if
/// the processor has no such counter. Ticks are not cycles: the counter's rate is fixed, and the
/// processor's rate is not.
pub fn ticks_per_ns() -> Option<f64> {
    let (start, first) = (Instant::now(), ticks()?);
    while start.elapsed() < Duration::from_millis(5) {
        core::hint::spin_loop();
    }
    let (last, took) = (ticks()?, start.elapsed());
    Some((last - first) as f64 / (took.as_secs_f64() * 1e9))
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    // SAFETY: every processor of this architecture has the instruction.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_counter_has_the_rate_of_a_processor() {
        let pace = ticks_per_ns().expect("the processor has a counter");
        assert!((0.1..10.0).contains(&pace), "{pace}");
    }
}
