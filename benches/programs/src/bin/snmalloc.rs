//! Runs the programs of this package with snmalloc as the global allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

fn main() -> ExitCode {
    ephemera_programs::main()
}
