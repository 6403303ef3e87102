//! An HTTP service that answers each request in a scope. The service can therefore limit the memory
//! of a request, and one of its pages shows how much memory requests held.
//!
//! The program must have `PooledAllocator` as its global allocator. `examples/costs.rs` is such a
//! program.

extern crate alloc;

mod costs;

pub use costs::RequestCosts;

use alloc::sync::Arc;
use core::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use typed_pool::Scope;

/// The service: its limit, the costs of past requests, and the queries that it keeps.
#[derive(Debug)]
pub struct Service {
    /// The limit on the memory of a request, in bytes.
    limit: usize,
    costs: Mutex<RequestCosts>,
    /// The queries that requests asked the service to keep.
    kept: Mutex<Vec<String>>,
}

type HtmlPage = Response<Full<Bytes>>;

fn page(status: StatusCode, text: String) -> HtmlPage {
    let mut page = Response::new(Full::new(Bytes::from(text)));
    *page.status_mut() = status;
    page
}

impl Service {
    /// Creates a service in which each request may hold at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, costs: Mutex::default(), kept: Mutex::default() })
    }

    /// Accepts and serves connections until the returned future is dropped.
    ///
    /// # Errors
    /// Returns an error if the listener fails to accept a connection.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let service = Arc::clone(&self);
            tokio::spawn(async move {
                let answer = service_fn(|request| service.answer(request));
                // A client that closes its connection early is not an error of the service.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }

    /// Answers a request in a new scope, or with status 503 if the request exceeds the limit. A
    /// request for the page of costs is answered outside of all scopes.
    async fn answer(&self, request: Request<Incoming>) -> Result<HtmlPage, Infallible> {
        if request.uri().path() == "/costs" {
            let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(page(StatusCode::OK, costs.page()));
        }
        let kind = Kind::of(request.uri().path());
        let scope = Scope::builder().name(kind.name()).limit(self.limit).build();
        let answer = scope.run_async(self.handle(kind, request)).await;
        let usage = scope.finish();
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).add(&usage);
        Ok(answer.unwrap_or_else(|error| page(StatusCode::SERVICE_UNAVAILABLE, error.to_string())))
    }

    /// Handles a request. This is the code of the application, which does not know about scopes.
    async fn handle(&self, kind: Kind, request: Request<Incoming>) -> HtmlPage {
        let query = request.uri().query().unwrap_or("").to_owned();
        match kind {
            Kind::Words => {
                let mut words: Vec<_> = query.split('+').map(str::to_owned).collect();
                words.sort();
                tokio::task::yield_now().await;
                page(StatusCode::OK, words.join(" "))
            }
            Kind::Keep => {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push(query);
                page(StatusCode::OK, format!("{} words", kept.len()))
            }
            Kind::Greedy => {
                let mut all = Vec::new();
                for _ in 0..query.parse().unwrap_or(0_usize) {
                    all.push(vec![1_u8; 1 << 20]);
                    tokio::task::yield_now().await;
                }
                page(StatusCode::OK, format!("{} MiB", all.len()))
            }
            Kind::Unknown => page(StatusCode::NOT_FOUND, "no such page".to_owned()),
        }
    }
}

/// The kinds of requests that the service answers in a scope.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Sorts the words of the query.
    Words,
    /// Keeps the query in the service's memory. The string of the query escapes from the scope.
    Keep,
    /// Allocates as many MiB as the query says.
    Greedy,
    Unknown,
}

impl Kind {
    fn of(path: &str) -> Self {
        match path {
            "/words" => Self::Words,
            "/keep" => Self::Keep,
            "/greedy" => Self::Greedy,
            _ => Self::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Words => "/words",
            Self::Keep => "/keep",
            Self::Greedy => "/greedy",
            Self::Unknown => "unknown",
        }
    }
}
