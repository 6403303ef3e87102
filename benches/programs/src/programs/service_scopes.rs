//! The service of `service`, with each request in its own scope if `PooledAllocator` is the global
//! allocator.

use std::path::Path;

use super::service::{BURSTS, LONG, SHORT, serve};
use crate::checksum::ProgramResult;

/// The limit on the memory of a request's scope, in bytes.
#[cfg(feature = "over-pooled-allocator")]
const LIMIT: usize = 64 << 20;

/// Runs the program `service-scopes`, which answers its requests one after another. Does not read
/// files of the repository. The commands of xtask run only the variants below.
pub(crate) fn run(_root: &Path) -> ProgramResult {
    serve(&SHORT, |request| in_scope(request))
}

/// Runs the program `service-scopes-long` of `cargo xtask bench --scopes`.
pub(crate) fn run_long(_root: &Path) -> ProgramResult {
    serve(&LONG, |request| in_scope(request))
}

/// Runs the program `service-scopes-bursts`.
pub(crate) fn run_bursts(_root: &Path) -> ProgramResult {
    serve(&BURSTS, |request| in_scope(request))
}

/// Runs a request in a scope. The request runs without a scope if none can be created, for example
/// because another allocator is the global one.
#[cfg(feature = "over-pooled-allocator")]
fn in_scope<R>(request: impl FnOnce() -> R) -> R {
    match typed_pool::Scope::builder().name("request").limit(LIMIT).try_build() {
        Ok(scope) => scope.run(request),
        Err(_) => request(),
    }
}

/// Runs a request without a scope, because this build does not have scopes.
#[cfg(not(feature = "over-pooled-allocator"))]
fn in_scope<R>(request: impl FnOnce() -> R) -> R {
    request()
}
