//! Metrics over HTTP, on a loopback address only: the network cannot read them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tiny_http::{Header, Method, Response, Server};

use crate::error::{Exit, Failure};

/// The content type that OpenMetrics requires.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Parses a loopback address with a port.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "allowed: 127.0.0.1:PORT or [::1]:PORT".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("not a loopback address; allowed: 127.0.0.1:PORT or [::1]:PORT".to_owned()),
    }
}

/// The most answers on their way. A guess: a scraper has one.
const ANSWERS: usize = 8;

/// The server. It makes answers between looks, one after the other.
pub(super) struct Scrapes {
    server: Server,
    /// Has a clone for each answer on its way.
    answers: Arc<()>,
}

impl Scrapes {
    pub(super) fn open(address: SocketAddr) -> Result<Scrapes, Failure> {
        let server = Server::http(address)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}")))?;
        eprintln!("listening on http://{}/metrics", server.server_addr());
        Ok(Scrapes { server, answers: Arc::new(()) })
    }

    /// Answers the next request with new text, or returns after a short time without one. A client that does not read its answer holds
    /// up other clients at most.
    pub(super) fn answer(&self, text: &mut dyn FnMut() -> Result<String, Failure>) -> Result<(), Failure> {
        if Arc::strong_count(&self.answers) > ANSWERS {
            thread::sleep(super::STEP);
            return Ok(());
        }
        // No connection that fails ends the server.
        let Some(request) = self.server.recv_timeout(super::STEP).unwrap_or_default() else { return Ok(()) };
        let path = request.url().split('?').next().unwrap_or_default();
        let response = match (request.method(), path) {
            (Method::Get | Method::Head, "/metrics" | "/") => {
                let response = Response::from_string(text()?);
                match Header::from_bytes("Content-Type", CONTENT_TYPE) {
                    Ok(header) => response.with_header(header),
                    Err(()) => response,
                }
            }
            (Method::Get | Method::Head, _) => Response::from_string("not found; try /metrics\n").with_status_code(404),
            _ => Response::from_string("method not allowed; try GET\n").with_status_code(405),
        };
        let answer = Arc::clone(&self.answers);
        // Without a thread there is no answer.
        let _ = thread::Builder::new().spawn(move || {
            // The client may have disconnected.
            let _ = request.respond(response);
            drop(answer);
        });
        Ok(())
    }
}
