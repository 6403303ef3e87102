//! Prints what a scope costs by itself, as JSON: samples in nanoseconds for each row.

#[global_allocator]
static ALLOCATOR: typed_pool::PooledAllocator = typed_pool::PooledAllocator;

fn main() {
    println!("{}", ephemera_programs::scope_costs::samples());
}
