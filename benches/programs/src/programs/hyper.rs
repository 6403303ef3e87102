//! A service: hyper and tokio answer the requests of clients in the same process.

use core::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, client, server};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::checksum::{Checksum, ProgramResult};

/// An error that a task can return to another thread.
type TaskError = Box<dyn Error + Send + Sync>;

const WORKERS: usize = 2;
/// The number of connections that are open at the same time.
const CLIENTS: u64 = 24;
/// The number of requests on each connection.
const REQUESTS: u64 = 400;

/// Starts the service and its clients, and returns the checksum of all answers. Does not read files
/// of the repository.
pub(crate) fn run(_root: &Path) -> ProgramResult {
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let service = tokio::spawn(accept(listener));
        let clients: Vec<_> = (0..CLIENTS).map(|client| tokio::spawn(requests(address, client))).collect();
        let mut checksum = Checksum::new();
        for client in clients {
            let sum = client.await?.map_err(|error| error.to_string())?;
            checksum.bytes(sum.to_string().as_bytes());
        }
        service.abort();
        Ok(checksum)
    })
}

/// Serves each connection in its own task. Returns only if a connection cannot be accepted.
async fn accept(listener: TcpListener) -> Result<(), TaskError> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(
            server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

/// Answers an order with its total price and its items, sorted by price. Answers anything else with
/// status 400.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let answer = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).map(|order| priced(&path, order)),
        Err(_) => Ok(None),
    };
    let (status, body) = match answer {
        Ok(Some(answer)) => (StatusCode::OK, answer.to_string()),
        Ok(None) | Err(_) => (StatusCode::BAD_REQUEST, "{}".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    Ok(response)
}

/// Returns the answer to an order, or `None` if `order` has no array `items`.
fn priced(path: &str, mut order: Value) -> Option<Value> {
    let mut items: Vec<Map<String, Value>> = order
        .get_mut("items")?
        .as_array_mut()?
        .drain(..)
        .filter_map(|item| if let Value::Object(item) = item { Some(item) } else { None })
        .collect();
    let number = |item: &Map<String, Value>, key: &str| item.get(key).and_then(Value::as_u64).unwrap_or(0);
    items.sort_by_key(|item| number(item, "price"));
    let total: u64 = items.iter().map(|item| number(item, "price") * number(item, "pieces")).sum();
    Some(json!({ "path": path, "total": total, "items": items, "of": order.get("client") }))
}

/// Sends the requests of one client, one after another, and returns the checksum of the answers.
async fn requests(address: SocketAddr, client: u64) -> Result<Checksum, TaskError> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut checksum = Checksum::new();
    for number in 0..REQUESTS {
        let body = Full::new(Bytes::from(order(client, number).to_string()));
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/orders/{client}/{number}"))
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(body)?;
        let response = sender.send_request(request).await?;
        checksum.number(u64::from(response.status().as_u16()));
        checksum.bytes(&response.into_body().collect().await?.to_bytes());
    }
    drop(sender);
    connection.await??;
    Ok(checksum)
}

/// Returns an order of one to sixty items.
fn order(client: u64, number: u64) -> Value {
    let item = |item: u64| {
        let price = (client * 7919 + number * 104_729 + item * 1_299_709) % 10_007;
        json!({ "name": format!("article {price} of shelf {item}"), "price": price, "pieces": item % 5 + 1,
            "tags": ["new", format!("row {}", price % 17)] })
    };
    json!({ "client": client, "number": number, "items": (0..number % 60 + 1).map(item).collect::<Vec<_>>() })
}
