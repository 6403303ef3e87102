//! Serves requests on a port of this machine until the program is interrupted.
//!
//! ```text
//! cargo run -p ephemera-service --example costs
//! curl 'http://127.0.0.1:8080/words?to+be+or+not'
//! curl 'http://127.0.0.1:8080/greedy?100'
//! curl 'http://127.0.0.1:8080/costs'
//! ```
#![expect(clippy::print_stdout, reason = "the example says where it listens")]

use ephemera_service::Service;
use tokio::net::TcpListener;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:8080").await?;
        println!("http://{}/costs", listener.local_addr()?);
        Service::new(16 << 20).serve(listener).await
    })
}
