//! Formats figures as the cells of tables.
#![forbid(unsafe_code)]

/// Returns a number of bytes as text, in a readable unit.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{} KiB", count / 1024),
        _ => format!("{} MiB", count / (1024 * 1024)),
    }
}

/// Returns a cost in nanoseconds as text. Larger costs have fewer decimals.
pub(super) fn ns(cost: f64) -> String {
    match cost.abs() {
        0.0..100.0 => format!("{cost:.2}"),
        100.0..10_000.0 => format!("{cost:.0}"),
        _ => format!("{:.1}k", cost / 1000.0),
    }
}

/// Returns a value as `show` prints it, or a dash if there is none.
pub(super) fn dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_significant_digits() {
        assert_eq!([ns(1.234), ns(123.4), ns(12_345.0), ns(-0.1)], ["1.23", "123", "12.3k", "-0.10"]);
        assert_eq!([bytes(100), bytes(20_480), bytes(50 << 20)], ["100 B", "20 KiB", "50 MiB"]);
    }
}
