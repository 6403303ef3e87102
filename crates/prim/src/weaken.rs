//! The switches of the negative controls.
//!
//! A weakening is a variant of the code that breaks one ordering, bound or step, so that a test
//! which guards it must fail. A build with `--cfg ephemera_weaken` contains all weakenings, and the
//! environment variable `EPHEMERA_WEAKEN` names the one that the process uses. Other builds contain
//! none: [`weakened!`](crate::weakened) is the constant `false` there.

/// Returns whether the process uses one of the named weakenings.
#[cfg(not(ephemera_weaken))]
#[doc(hidden)]
#[macro_export]
macro_rules! weakened {
    ($($control:literal)|+) => {
        false
    };
}

/// Returns whether the process uses one of the named weakenings.
#[cfg(ephemera_weaken)]
#[doc(hidden)]
#[macro_export]
macro_rules! weakened {
    ($($control:literal)|+) => {
        false $(|| {
            static SWITCH: $crate::weaken::Switch = $crate::weaken::Switch::new($control);
            SWITCH.is_on()
        })+
    };
}

/// Defines a function that returns the ordering of an atomic operation. A weakening replaces the
/// ordering by a weaker one.
#[doc(hidden)]
#[macro_export]
macro_rules! ordering {
    ($vis:vis $name:ident = $sound:ident, $($weak:ident if $control:literal),+) => {
        #[inline(always)]
        $vis fn $name() -> Ordering {
            $(if $crate::weakened!($control) {
                return Ordering::$weak;
            })+
            Ordering::$sound
        }
    };
}

/// Whether the process uses one weakening. The first query reads the environment. Queries neither
/// allocate nor call the operating system, because allocators make them.
#[cfg(ephemera_weaken)]
#[derive(Debug)]
pub struct Switch {
    control: &'static str,
    state: core::sync::atomic::AtomicU8,
}

#[cfg(ephemera_weaken)]
impl Switch {
    const OFF: u8 = 1;
    const ON: u8 = 2;

    /// Creates the switch of the weakening named `control`.
    pub const fn new(control: &'static str) -> Self {
        Self { control, state: core::sync::atomic::AtomicU8::new(0) }
    }

    /// Returns whether the environment variable names this weakening.
    pub fn is_on(&self) -> bool {
        // The state guards no other memory, and every thread that computes it gets the same value.
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        let mut state = self.state.load(relaxed);
        if state == 0 {
            state = if self.is_chosen() { Self::ON } else { Self::OFF };
            self.state.store(state, relaxed);
        }
        state == Self::ON
    }

    #[cold]
    fn is_chosen(&self) -> bool {
        // SAFETY: the argument is a C string. A test under control does not change its environment
        // while other threads run.
        let chosen = unsafe { libc::getenv(c"EPHEMERA_WEAKEN".as_ptr()) };
        // SAFETY: `getenv` returns null or a C string, which stays valid while the environment is
        // not changed.
        !chosen.is_null()
            && unsafe { core::ffi::CStr::from_ptr(chosen) }.to_bytes() == self.control.as_bytes()
    }
}
