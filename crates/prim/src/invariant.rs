//! Checks that stop a debug build without unwinding.
//!
//! `debug_assert!` unwinds. Code that frees memory must not unwind, because an unwind would leave
//! the free half done. A failed check here calls the panic hook as usual and then ends the process.
//! Under loom, a failed check unwinds, so that the model checker can report the interleaving.

/// Reports `$what` and ends the process, without unwinding, if `$holds` is false. Release builds do
/// not evaluate `$holds`.
///
/// ```
/// let (live, freed) = (3_u32, 1);
/// ephemera_prim::invariant!(freed <= live, "more blocks were freed than were live");
/// ```
#[macro_export]
macro_rules! invariant {
    ($holds:expr, $what:expr $(,)?) => {
        if cfg!(debug_assertions) && !$holds {
            $crate::invariant::broken($what);
        }
    };
}

/// Reports the broken invariant and ends the process, or panics under loom.
#[cold]
#[inline(never)]
#[doc(hidden)]
#[track_caller]
pub fn broken(what: &'static str) -> ! {
    let at = core::panic::Location::caller();
    stop(&format_args!("{at}: broken invariant: {what}"))
}

/// Panics, which ends the process: a panic cannot leave an `extern "C"` function.
#[cfg(not(ephemera_loom))]
extern "C" fn stop(message: &core::fmt::Arguments<'_>) -> ! {
    panic!("{message}")
}

#[cfg(ephemera_loom)]
fn stop(message: &core::fmt::Arguments<'_>) -> ! {
    panic!("{message}")
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use ephemera_testkit::child;

    const SAID: &str = "one and one is three";

    #[test]
    fn invariant_that_holds_is_evaluated_in_debug_builds_only() {
        let mut looked = 0;
        crate::invariant!(
            {
                looked += 1;
                true
            },
            SAID
        );
        assert_eq!(looked, u32::from(cfg!(debug_assertions)));
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "must end its process, and Miri starts no child process: see `ephemera_testkit::child`"
    )]
    fn broken_invariant_is_reported_and_does_not_unwind() {
        if child::part().is_some() {
            child::end_unless_it_ends(|| crate::invariant!(1 + 1 == 3, SAID));
        }
        let ended = child::run("invariant::tests::broken_invariant_is_reported_and_does_not_unwind", "break");
        if cfg!(debug_assertions) {
            assert!(!ended.succeeded() && !ended.panicked(), "{ended:?}");
            assert!(ended.stderr.contains(SAID) && ended.stderr.contains("invariant.rs"), "{ended:?}");
        } else {
            assert!(ended.succeeded(), "{ended:?}");
        }
    }
}
