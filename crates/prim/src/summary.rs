//! Displays numbers of bytes, and writes the statistics of an allocator as one line, for all crates
//! in the same form.
#![forbid(unsafe_code)]

use core::fmt;

/// A number of bytes, displayed in the largest unit that is not larger than the number.
#[derive(Debug, Clone, Copy)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.into_iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Writes how many bytes an allocator holds and how many the program uses. Adds the limit on the
/// held bytes unless it is `usize::MAX`: `1.5 KiB held, 144 B live, limit 4.0 MiB`.
pub fn write(f: &mut fmt::Formatter<'_>, held: usize, live: usize, limit: usize) -> fmt::Result {
    let [held, live, most] = [held, live, limit].map(|bytes| ByteCount(bytes as u64));
    write!(f, "{held} held, {live} live")?;
    if limit == usize::MAX { Ok(()) } else { write!(f, ", limit {most}") }
}

#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests {
    use alloc::string::ToString;
    use core::fmt;

    struct Summary(usize, usize, usize);

    impl fmt::Display for Summary {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            super::write(f, self.0, self.1, self.2)
        }
    }

    #[test]
    fn bytes_have_the_largest_unit_that_fits() {
        assert_eq!(Summary(1_536, 144, usize::MAX).to_string(), "1.5 KiB held, 144 B live");
        assert_eq!(Summary(1_023, 0, 4 << 20).to_string(), "1023 B held, 0 B live, limit 4.0 MiB");
        assert_eq!(Summary(5 << 29, 1 << 20, 0).to_string(), "2.5 GiB held, 1.0 MiB live, limit 0 B");
    }
}
