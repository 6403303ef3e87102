//! Runs the programs of this package with `PooledAllocator` as the global allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: typed_pool::PooledAllocator = typed_pool::PooledAllocator;

fn main() -> ExitCode {
    ephemera_programs::main()
}
