//! Checks that stop a debug build without unwinding.
//!
//! `debug_assert!` unwinds, and nothing that frees memory may: a caller's `Drop` that runs while another panic
//! unwinds would leave half a free behind it. What fails here is said by the panic hook, as ever, and then
//! ends the process. Under loom it unwinds, so that the model checker can say how it came to it.

/// Stops a debug build if `$holds` is false. Release builds do not evaluate it. Never unwinds.
///
/// ```
/// let (more, less) = (3_u32, 1);
/// ephemera_prim::invariant!(more >= less, "more was taken than there is");
/// ```
#[macro_export]
macro_rules! invariant {
    ($holds:expr, $what:expr $(,)?) => {
        if cfg!(debug_assertions) && !$holds {
            $crate::invariant::broken($what);
        }
    };
}

/// Says what is broken, and ends the process.
#[cold]
#[inline(never)]
#[doc(hidden)]
#[track_caller]
pub fn broken(what: &'static str) -> ! {
    let site = Site { what, at: core::panic::Location::caller() };
    #[cfg(ephemera_loom)]
    site.say();
    #[cfg(not(ephemera_loom))]
    stop(&site);
}

/// What is broken, and where that was seen.
struct Site {
    what: &'static str,
    at: &'static core::panic::Location<'static>,
}

impl Site {
    fn say(&self) -> ! {
        panic!("{}: broken invariant: {}", self.at, self.what);
    }
}

/// A panic does not leave a function of this calling convention: it ends the process.
#[cfg(not(ephemera_loom))]
extern "C" fn stop(site: &Site) -> ! {
    site.say()
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use ephemera_testkit::child;

    const SAID: &str = "one and one is three";

    #[test]
    fn what_holds_is_passed_over() {
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
        ignore = "must end its process, and Miri starts none to see that: `ephemera_testkit::child`"
    )]
    fn what_is_broken_is_said_and_not_unwound() {
        if child::part().is_some() {
            child::end_unless_it_ends(|| crate::invariant!(1 + 1 == 3, SAID));
        }
        let ended = child::run("invariant::tests::what_is_broken_is_said_and_not_unwound", "break");
        if cfg!(debug_assertions) {
            assert!(!ended.well() && !ended.unwound(), "{ended:?}");
            assert!(ended.said.contains(SAID) && ended.said.contains("invariant.rs"), "{ended:?}");
        } else {
            assert!(ended.well(), "{ended:?}");
        }
    }
}
