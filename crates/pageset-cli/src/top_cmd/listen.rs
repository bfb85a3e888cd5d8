//! Metrics over HTTP, on a loopback address only: the network cannot read them.

use std::net::SocketAddr;

use tiny_http::{Header, Method, Response, Server};

use super::look::Machine;
use super::metrics;
use super::view::View;
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

/// Answers each request with a new look, until `ended`.
///
/// # Errors
/// The address is not available, or `/proc` is not readable.
pub(super) fn serve(address: SocketAddr, machine: &mut Machine, ended: &dyn Fn() -> bool) -> Result<(), Failure> {
    let server = Server::http(address)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}")))?;
    eprintln!("listening on http://{}/metrics", server.server_addr());
    while !ended() {
        let Some(request) = server.recv_timeout(super::STEP)? else { continue };
        let path = request.url().split('?').next().unwrap_or_default();
        // A client that has disconnected does not end the server.
        let _ = match (request.method(), path) {
            (Method::Get | Method::Head, "/metrics" | "/") => {
                let view = View::new(&machine.look()?, None);
                let text = metrics::text(&view);
                let header = Header::from_bytes("Content-Type", CONTENT_TYPE);
                let response = Response::from_string(text);
                request.respond(match header {
                    Ok(header) => response.with_header(header),
                    Err(()) => response,
                })
            }
            (Method::Get | Method::Head, _) => {
                request.respond(Response::from_string("not found; try /metrics\n").with_status_code(404))
            }
            _ => request.respond(Response::from_string("method not allowed; try GET\n").with_status_code(405)),
        };
    }
    Ok(())
}
