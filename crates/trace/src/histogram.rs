//! Defines a histogram over powers of two.
#![forbid(unsafe_code)]

/// A histogram with a bucket for each power of two. Bucket 0 counts the value 0, and bucket `b`
/// counts the values from `2^(b-1)` to `2^b - 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    counts: [u64; 65],
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self { counts: [0; 65] }
    }
}

impl LogHistogram {
    fn bucket(value: u64) -> usize {
        64 - value.leading_zeros() as usize
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[Self::bucket(value)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the smallest value of a bucket.
    #[must_use]
    pub fn low(bucket: usize) -> u64 {
        if bucket == 0 { 0 } else { 1 << (bucket - 1) }
    }

    /// Returns the smallest value and the count of each bucket, from the first non-empty bucket
    /// to the last.
    #[must_use]
    pub fn rows(&self) -> Vec<(u64, u64)> {
        let used = |count: &u64| *count > 0;
        let (Some(first), Some(last)) =
            (self.counts.iter().position(used), self.counts.iter().rposition(used))
        else {
            return Vec::new();
        };
        (first..=last).map(|bucket| (Self::low(bucket), self.counts[bucket])).collect()
    }

    /// Returns the largest value of the bucket that contains the quantile `share`; `None` if
    /// there are no values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.total();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        (0..65)
            .find(|&bucket| {
                seen += self.counts[bucket];
                total > 0 && seen >= wanted
            })
            .map(|bucket| if bucket == 0 { 0 } else { (Self::low(bucket) - 1) * 2 + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_between_powers_of_two() {
        let mut histogram = LogHistogram::default();
        for value in [0, 1, 2, 3, 4, 7, 8, u64::MAX] {
            histogram.add(value);
        }
        let rows = histogram.rows();
        assert_eq!(rows[..5], [(0, 1), (1, 1), (2, 2), (4, 2), (8, 1)]);
        assert_eq!(rows.last(), Some(&(1 << 63, 1)));
        assert_eq!(histogram.quantile(0.5), Some(3));
        assert_eq!(histogram.quantile(0.0), Some(0));
        assert_eq!(histogram.quantile(1.0), Some(u64::MAX));
        assert_eq!(LogHistogram::default().quantile(0.5), None);
        assert!(LogHistogram::default().rows().is_empty());
    }
}
