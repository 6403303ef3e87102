//! Measures single operations inside and outside of a scope, and prints the samples of each
//! operation as JSON, in nanoseconds per call.

#[global_allocator]
static ALLOCATOR: typed_pool::PooledAllocator = typed_pool::PooledAllocator;

fn main() {
    println!("{}", ephemera_programs::scope_costs::samples());
}
