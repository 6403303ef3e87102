//! `InScope`: the future that polls another future in a scope.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::{OverLimit, Scope, ScopeHandle};

/// The future of [`Scope::run_async`]. It polls and drops another future in a scope. If there is no
/// memory for the scope's heaps when this value is dropped, it drops the other future outside of
/// the scope.
///
/// Between two polls, no thread is in the scope on behalf of the future.
#[must_use = "a future does nothing unless it is polled"]
pub struct InScope<F> {
    scope: ScopeHandle,
    /// The inner future, or `None` after it has been dropped. It is pinned if this value is.
    future: Option<F>,
}

impl Scope {
    /// Returns a future that polls `future` in this scope, on any thread. The scope does not end
    /// before the returned future is dropped.
    ///
    /// Each poll checks whether the scope has ever exceeded its limit, even if the scope now holds
    /// less than the limit. The check happens at the start of the poll, and again at its end if
    /// `future` is still pending. If the scope has exceeded its limit, `future` is dropped in the
    /// scope, and the output of the returned future is `Err` with an [`OverLimit`]. A waiting
    /// future is not woken when another future of its scope exceeds the limit.
    ///
    /// # Aborts
    /// A poll calls `handle_alloc_error` if there is no memory for the scope's heaps.
    pub fn run_async<F: Future>(&self, future: F) -> InScope<F> {
        self.handle.run_async(future)
    }
}

impl ScopeHandle {
    /// Returns a future that polls `future` in the scope, like [`Scope::run_async`].
    ///
    /// # Aborts
    /// A poll calls `handle_alloc_error` if there is no memory for the scope's heaps.
    pub fn run_async<F: Future>(&self, future: F) -> InScope<F> {
        InScope { scope: self.clone(), future: Some(future) }
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = Result<F::Output, OverLimit>;

    /// # Panics
    /// Panics if the future is polled again after it has returned `Ready`.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the scope's heaps.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: this function does not move the inner future out of the value.
        let Self { scope, future } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the inner future is pinned because this value is pinned. `InScope` only polls it
        // and drops it in place, and is `Unpin` only if the inner future is.
        let mut slot = unsafe { Pin::new_unchecked(future) };
        let _entered = scope.heaps.enter();
        let Some(future) = slot.as_mut().as_pin_mut() else {
            panic!("a future of a scope was polled after it had returned `Ready`");
        };
        let output = if scope.is_over_limit() { Poll::Pending } else { future.poll(context) };
        let output = match output {
            Poll::Ready(value) => Ok(value),
            Poll::Pending if scope.is_over_limit() => Err(scope.over_limit()),
            Poll::Pending => return Poll::Pending,
        };
        slot.set(None);
        Poll::Ready(output)
    }
}

impl<F> Drop for InScope<F> {
    fn drop(&mut self) {
        if self.future.is_some() {
            // If there is no memory for the scope's heaps, this drops the inner future outside of
            // the scope, because a destructor must not end the process.
            let _entered = self.scope.heaps.try_enter();
            self.future = None;
        }
    }
}

impl<F> fmt::Debug for InScope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InScope").field("scope", &self.scope).finish_non_exhaustive()
    }
}
