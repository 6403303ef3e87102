//! The client of R3: one thread with a fixed number of connections and a fixed amount of memory.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::bodies::PAGES;
use super::server::{HEAD, head};
use crate::tally;
use crate::workloads::{Load, load, mix};

/// The time that the open loop waits for the last answers after the end of its load.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request whose answer is not complete.
struct Waiting {
    page: usize,
    due: Duration,
}

struct Connection {
    stream: TcpStream,
    waiting: VecDeque<Waiting>,
    /// The number of received bytes of the answer to the first waiting request.
    got: usize,
}

/// The client: its connections, the pages that it expects, and its requests.
pub(super) struct Client {
    connections: Vec<Connection>,
    pages: Arc<Vec<Vec<u8>>>,
    requests: Vec<String>,
    scratch: Vec<u8>,
    /// Whether the client compares every received byte with the expected answer.
    checked: bool,
    /// Whether the client has its own processor, and so spins while it waits.
    alone: bool,
    sum: u64,
}

impl Connection {
    fn send(&mut self, request: &str, page: usize, due: Duration) -> io::Result<()> {
        self.stream.write_all(request.as_bytes())?;
        self.waiting.push_back(Waiting { page, due });
        Ok(())
    }

    /// Reads once. Returns the request whose answer is complete after this read, if any.
    fn receive(
        &mut self,
        scratch: &mut [u8],
        pages: &[Vec<u8>],
        checked: bool,
    ) -> io::Result<Option<Waiting>> {
        let Some(first) = self.waiting.front() else { return Ok(None) };
        let body = &pages[first.page];
        let whole = HEAD + body.len();
        let room = (whole - self.got).min(scratch.len());
        let count = self.stream.read(&mut scratch[..room])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if checked {
            let head = head(body.len());
            let mut expected = head.iter().chain(body).skip(self.got);
            if !scratch[..count].iter().all(|byte| expected.next() == Some(byte)) {
                tally::damaged();
            }
        }
        self.got += count;
        if self.got < whole {
            return Ok(None);
        }
        self.got = 0;
        Ok(self.waiting.pop_front())
    }
}

impl Client {
    /// Creates a client that sends its requests through `streams`.
    pub(super) fn new(
        streams: Vec<TcpStream>,
        pages: Arc<Vec<Vec<u8>>>,
        checked: bool,
        alone: bool,
    ) -> io::Result<Self> {
        let open = |stream: TcpStream| {
            stream.set_nodelay(true)?;
            Ok(Connection { stream, waiting: VecDeque::with_capacity(1024), got: 0 })
        };
        let request = |page| {
            format!("GET /{page} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: client\r\n\r\n")
        };
        Ok(Self {
            connections: streams.into_iter().map(open).collect::<io::Result<_>>()?,
            pages,
            requests: (0..PAGES).map(request).collect(),
            scratch: vec![0; 64 * 1024],
            checked,
            alone,
            sum: 0,
        })
    }

    /// Waits for the answer to the first waiting request of a connection, if there is one.
    fn answer(&mut self, connection: usize) -> io::Result<()> {
        let connection = &mut self.connections[connection];
        while !connection.waiting.is_empty() {
            if let Some(done) = connection.receive(&mut self.scratch, &self.pages, self.checked)? {
                self.sum = mix(self.sum, done.page as u64 + 1);
                break;
            }
        }
        Ok(())
    }

    /// Sends `requests` requests, each after the previous answer on its connection. Returns a
    /// checksum that depends on the order of the answers.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection breaks.
    pub(super) fn closed_loop(&mut self, requests: u64) -> io::Result<u64> {
        self.sum = 0;
        let connections = self.connections.len();
        for index in 0..requests as usize {
            let page = index % PAGES;
            self.answer(index % connections)?;
            self.connections[index % connections].send(&self.requests[page], page, Duration::ZERO)?;
        }
        for index in 0..connections {
            self.answer((requests as usize + index) % connections)?;
        }
        Ok(self.sum)
    }

    /// Sends requests at a steady rate, however long the answers take. Returns the latencies in
    /// nanoseconds, each from the time at which its request was due.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection breaks, or if answers do not arrive.
    pub(super) fn open_loop(&mut self, load: &Load) -> io::Result<Histogram<u64>> {
        let mut latencies = load::latencies();
        let requests = load.requests();
        for connection in &self.connections {
            connection.stream.set_nonblocking(true)?;
        }
        let start = Instant::now();
        let mut sent = 0;
        while latencies.len() < requests {
            let now = start.elapsed();
            if now > load.length + PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let due = load.due(sent);
            let mut idle = true;
            if sent < requests && due <= now {
                let (page, connection) = (sent as usize % PAGES, sent as usize % self.connections.len());
                // Requests are short, and few of them wait for the server, so this request fits
                // into the socket's buffer.
                self.connections[connection].send(&self.requests[page], page, due)?;
                sent += 1;
                idle = false;
            }
            for connection in &mut self.connections {
                match connection.receive(&mut self.scratch, &self.pages, self.checked) {
                    Ok(Some(done)) => {
                        latencies.saturating_record((start.elapsed() - done.due).as_nanos() as u64);
                        idle = false;
                    }
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if idle {
                if self.alone {
                    core::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
        for connection in &self.connections {
            connection.stream.set_nonblocking(false)?;
        }
        Ok(latencies)
    }
}
