//! Defines a histogram over powers of two.
#![forbid(unsafe_code)]

use super::grown;

/// A histogram with a bucket for each power of two. Bucket 0 counts the value 0, and bucket `b`
/// counts the values from `2^(b-1)` to `2^b - 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHistogram {
    /// The count of each bucket up to the last non-empty one.
    counts: Vec<u64>,
}

impl LogHistogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = u64::BITS - value.leading_zeros();
        *grown(&mut self.counts, bucket as usize) += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in other.counts.iter().enumerate() {
            *grown(&mut self.counts, bucket) += count;
        }
    }

    /// Returns the smallest value and the count of each bucket, from the first non-empty bucket
    /// to the last.
    pub fn rows(&self) -> Vec<(u64, u64)> {
        let low = |bucket: usize| if bucket == 0 { 0 } else { 1 << (bucket - 1) };
        let rows = self.counts.iter().enumerate().map(|(bucket, count)| (low(bucket), *count));
        rows.skip_while(|(_, count)| *count == 0).collect()
    }

    /// Returns the largest value of the bucket that contains the quantile `share`, or `None` if
    /// there are no values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(u64::MAX.checked_shr(u64::BITS - bucket as u32).unwrap_or(0))
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
