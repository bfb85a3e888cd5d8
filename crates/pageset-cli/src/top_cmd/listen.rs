//! Metrics over HTTP, on a loopback address only: the network cannot read them.

use std::net::SocketAddr;

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

/// The server. It answers between looks, one request after the other.
pub(super) struct Scrapes(Server);

impl Scrapes {
    /// # Errors
    /// The address is not available.
    pub(super) fn open(address: SocketAddr) -> Result<Scrapes, Failure> {
        let server = Server::http(address)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}")))?;
        eprintln!("listening on http://{}/metrics", server.server_addr());
        Ok(Scrapes(server))
    }

    /// Answers the next request with new text, or returns after a short time without one.
    ///
    /// # Errors
    /// The text cannot be made.
    pub(super) fn answer(&self, text: &mut dyn FnMut() -> Result<String, Failure>) -> Result<(), Failure> {
        let Some(request) = self.0.recv_timeout(super::STEP)? else { return Ok(()) };
        let path = request.url().split('?').next().unwrap_or_default();
        // A client that has disconnected does not end the server.
        let _ = match (request.method(), path) {
            (Method::Get | Method::Head, "/metrics" | "/") => {
                let response = Response::from_string(text()?);
                request.respond(match Header::from_bytes("Content-Type", CONTENT_TYPE) {
                    Ok(header) => response.with_header(header),
                    Err(()) => response,
                })
            }
            (Method::Get | Method::Head, _) => {
                request.respond(Response::from_string("not found; try /metrics\n").with_status_code(404))
            }
            _ => request.respond(Response::from_string("method not allowed; try GET\n").with_status_code(405)),
        };
        Ok(())
    }
}
