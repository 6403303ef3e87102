//! Runs the programs of this package with the C library's allocator as the global allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

fn main() -> ExitCode {
    ephemera_programs::main()
}
