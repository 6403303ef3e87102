//! Formats numbers with their units, as tables print them.
#![forbid(unsafe_code)]

use ephemera_prim::summary::ByteCount;
pub use ephemera_recorder::grouped;

/// Returns a number of bytes in a unit that keeps it short.
pub fn bytes(count: u64) -> String {
    ByteCount(count).to_string()
}

/// Returns a number of nanoseconds in a unit that keeps it short.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Returns a share in whole per cent. A share that is above zero is never shown as 0.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share <= 0.005 { "<1".to_owned() } else { format!("{:.0}", share * 100.0) }
}

/// Returns a share in per cent with one decimal and the sign.
pub fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
