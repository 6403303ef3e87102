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
    use std::process::Command;

    /// Tells the child of the test below that it is the child.
    const CHILD: &str = "EPHEMERA_PRIM_BROKEN_INVARIANT";
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
    #[cfg_attr(miri, ignore = "starts a process, which Miri cannot")]
    fn what_is_broken_is_said_and_not_unwound() {
        if std::env::var_os(CHILD).is_some() {
            let caught = std::panic::catch_unwind(|| crate::invariant!(1 + 1 == 3, SAID));
            // Only a release build, which does not look, or a panic that unwound gets here.
            std::process::exit(if caught.is_ok() { 0 } else { 3 });
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "invariant::tests::what_is_broken_is_said_and_not_unwound", "--nocapture"]);
        let output = child.env(CHILD, "1").output().unwrap();
        if cfg!(debug_assertions) {
            assert!(!output.status.success());
            assert_ne!(output.status.code(), Some(3), "it unwound");
            let said = alloc::string::String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(SAID) && said.contains("invariant.rs"), "said only: {said}");
        } else {
            assert_eq!(output.status.code(), Some(0));
        }
    }
}
