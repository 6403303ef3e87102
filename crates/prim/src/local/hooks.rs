//! The exit hooks of one thread.

use core::cell::Cell;

/// The maximum number of exit hooks of one thread, and so of allocators that can register one.
pub(super) const HOOKS: usize = 8;

/// The error of [`at_exit`](super::at_exit) if the thread's exit guard does not accept a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

type Hook = Cell<Option<fn()>>;

/// The hooks that allocators registered. The type has no destructor.
pub(super) struct ExitHooks([Hook; HOOKS]);

impl ExitHooks {
    pub(super) const fn new() -> Self {
        Self([const { Cell::new(None) }; HOOKS])
    }

    /// Adds `hook`, unless there are [`HOOKS`] hooks already.
    pub(super) fn add(&self, hook: fn()) -> Result<(), Gone> {
        self.0.iter().find(|place| place.get().is_none()).ok_or(Gone)?.set(Some(hook));
        Ok(())
    }

    /// Removes all hooks, and calls each.
    pub(super) fn run(&self) {
        self.0.iter().filter_map(Cell::take).for_each(|hook| hook());
    }
}
