//! Prints samples of single operations of a scope as JSON: nanoseconds for each row.

#[global_allocator]
static ALLOCATOR: typed_pool::PooledAllocator = typed_pool::PooledAllocator;

fn main() {
    println!("{}", ephemera_programs::scope_costs::samples());
}
