//! Chooses one of two values, preferably without a branch.

/// Returns `yes` if `condition` is true, and `no` otherwise. Asks the compiler for a conditional
/// move, but the compiler may still emit a branch.
///
/// Use this only for conditions that the processor cannot predict: a predicted branch does not wait
/// for its condition, but a conditional move does. Compilers before Rust 1.88 have no such hint, so
/// they may emit a branch.
#[inline]
#[must_use]
#[cfg_attr(
    ephemera_select,
    expect(clippy::incompatible_msrv, reason = "the build script has found the function")
)]
pub fn select<T: Copy>(condition: bool, yes: T, no: T) -> T {
    #[cfg(ephemera_select)]
    return core::hint::select_unpredictable(condition, yes, no);
    #[cfg(not(ephemera_select))]
    return if condition { yes } else { no };
}

#[cfg(test)]
mod tests {
    use super::select;

    #[test]
    fn the_condition_selects_the_value() {
        assert_eq!((select(true, 1, 2), select(false, 1, 2)), (1, 2));
    }
}
