//! Defines [`LiveCurve`], the live bytes over the run in a bounded number of points.
#![forbid(unsafe_code)]

/// The maximum number of points of a curve.
const POINTS: usize = 1024;

/// The live bytes over the run, as the peak of each stretch of events. When the number of stretches
/// reaches its limit, each pair of neighbouring stretches is merged into one.
#[derive(Clone, Debug, Default)]
pub struct LiveCurve {
    /// The highest value of each stretch.
    pub peaks: Vec<u64>,
    /// The base-2 logarithm of the number of events in a stretch.
    stretch_log2: u32,
    /// The number of events in the last stretch, or 0 if the stretch is complete.
    filled: u64,
}

impl LiveCurve {
    /// Adds the value after the next event.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.filled == 0 {
            self.peaks.push(0);
        }
        if let Some(last) = self.peaks.last_mut() {
            *last = value.max(*last);
        }
        self.filled = (self.filled + 1) % (1 << self.stretch_log2);
        if self.filled == 0 && self.peaks.len() == POINTS {
            self.peaks = self.peaks.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.stretch_log2 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_peak_and_few_points() {
        let mut curve = LiveCurve::default();
        for i in 0..1_000_000_u64 {
            curve.add(if i == 777_777 { 9_999 } else { i % 100 });
        }
        assert!((POINTS / 2..POINTS).contains(&curve.peaks.len()));
        assert_eq!(curve.peaks.iter().max(), Some(&9_999));
        let at =
            curve.peaks.iter().position(|&peak| peak == 9_999).expect("the curve contains its peak") as u64;
        assert_eq!(at, 777_777 >> curve.stretch_log2);
    }
}
