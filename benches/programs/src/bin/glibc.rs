//! The programs over the C library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

fn main() -> ExitCode {
    ephemera_programs::main()
}
