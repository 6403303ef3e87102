//! The programs over `PooledAllocator`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: typed_pool::PooledAllocator = typed_pool::PooledAllocator;

fn main() -> ExitCode {
    ephemera_programs::main()
}
