//! Tests of scopes on the multi-thread runtime of tokio, and of the service over a real connection.

extern crate alloc;

use alloc::sync::Arc;
use core::future::pending;

use ephemera_service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, oneshot};
use typed_pool::{PooledAllocator, Scope, ScopeHandle};

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// An upper bound on the bytes of a scope that the runtime's own lists keep. The lists may grow
/// during a poll in the scope. Their new blocks escape from the scope, and each block pins a unit
/// of its class.
const KEPT_BY_TOKIO: usize = 100_000;

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_io().build().expect("a runtime")
}

/// Allocates before and after each of several suspensions.
async fn request(number: usize) -> String {
    let mut words = Vec::new();
    for word in 0..20 {
        words.push(format!("{number}-{word}"));
        tokio::task::yield_now().await;
    }
    words.join(" ")
}

#[test]
fn tasks_on_many_threads_leave_no_blocks_but_those_of_the_runtime() {
    runtime().block_on(async {
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                tokio::spawn(async move {
                    let scope = Scope::builder().name("task").build();
                    let text = scope.run_async(request(number)).await.expect("there is no limit");
                    let right = text.starts_with(&format!("{number}-0 ")) && text.ends_with("-19");
                    drop(text);
                    (right, scope.finish())
                })
            })
            .collect();
        let mut escapes = 0;
        for task in tasks {
            let (right, usage) = task.await.expect("no panic");
            assert!(right);
            assert!(usage.bytes_held < KEPT_BY_TOKIO, "{usage}");
            escapes += usize::from(usage.bytes_held != 0);
        }
        assert!(escapes < 40, "{escapes} of 200 tasks left blocks");
    });
}

#[test]
fn spawned_tasks_inherit_a_scope_by_its_handle() {
    const TASKS: usize = 4;
    async fn child(scope: ScopeHandle, barrier: Arc<Barrier>) -> usize {
        let work = async {
            let kept = vec![1_u8; 100_000];
            // At this point, all tasks hold their blocks at the same time.
            barrier.wait().await;
            kept.len()
        };
        scope.run_async(work).await.expect("within the limit")
    }
    runtime().block_on(async {
        let scope = Scope::builder().name("parent").limit(10 << 20).build();
        let barrier = Arc::new(Barrier::new(TASKS));
        let tasks: Vec<_> =
            (0..TASKS).map(|_| tokio::spawn(child(scope.handle(), Arc::clone(&barrier)))).collect();
        for task in tasks {
            assert_eq!(task.await.expect("no panic"), 100_000);
        }
        let usage = scope.finish();
        assert!(usage.bytes_peak >= TASKS * 100_000, "{usage}");
        assert!(usage.bytes_held < KEPT_BY_TOKIO, "{usage}");
    });
}

#[test]
fn a_task_over_its_limit_is_stopped_and_an_aborted_task_frees_its_blocks() {
    runtime().block_on(async {
        let scope = Scope::builder().name("greedy").limit(1 << 20).build();
        let greedy = scope.run_async(async {
            let mut all = Vec::new();
            loop {
                all.push(vec![1_u8; 100_000]);
                tokio::task::yield_now().await;
            }
        });
        let error: Result<core::convert::Infallible, _> = tokio::spawn(greedy).await.expect("no panic");
        let error = error.expect_err("the loop does not end");
        assert!(error.bytes_peak < 2 << 20, "{error}");
        let usage = scope.finish();
        assert!(usage.bytes_held < KEPT_BY_TOKIO, "{usage}");

        let scope = Scope::builder().name("aborted").build();
        let (started, start) = oneshot::channel();
        let suspended = tokio::spawn(scope.run_async(async move {
            let kept = vec![1_u8; 200_000];
            started.send(()).expect("the test waits");
            pending::<()>().await;
            drop(kept);
        }));
        start.await.expect("the task starts");
        while scope.usage().bytes_held < 200_000 {
            tokio::task::yield_now().await;
        }
        suspended.abort();
        assert!(suspended.await.expect_err("the task was aborted").is_cancelled());
        assert!(scope.finish().bytes_held < 200_000, "the block is freed");
    });
}

async fn get(address: core::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the service listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the service reads the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the answer is text");
    answer
}

#[test]
fn the_service_stops_a_greedy_request_and_shows_what_requests_cost() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(Service::new(4 << 20).serve(listener));
        assert!(get(address, "/words?to+be+or+not").await.ends_with("be not or to"));
        for number in 1..=20 {
            let answer = get(address, &format!("/keep?word-{number}")).await;
            assert!(answer.ends_with(&format!("{number} words")), "{answer}");
        }
        assert!(get(address, "/greedy?2").await.ends_with("2 MiB"));
        let stopped = get(address, "/greedy?100").await;
        assert!(stopped.starts_with("HTTP/1.1 503") && stopped.contains("more than its limit"), "{stopped}");
        let costs = get(address, "/costs").await;
        assert!(costs.contains("/greedy 2 1 ") && costs.contains("/keep 20 0 "), "{costs}");
        server.abort();
    });
}
