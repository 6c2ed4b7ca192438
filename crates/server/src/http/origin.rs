//! Refuses requests that a browser sends on behalf of a foreign web page. The browser can reach
//! servers that the author of the page cannot, and most servers on loopback require no login.
//!
//! 1. `Origin` and `Sec-Fetch-Site` show that a page of another origin sent the request. Only
//!    browsers send these headers.
//! 2. Where no login is required, `Host` must be an IP address, localhost or a name from the option
//!    `hosts`. A page can point its own name at 127.0.0.1 and is then of the same origin (DNS
//!    rebinding), but it does not have a password of this server.

use super::HttpError;
use crate::server::Shared;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use std::net::IpAddr;

/// Refuses a request that a foreign page sends.
pub(super) fn check(shared: &Shared, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
    let refused = |what: String| Err(HttpError::new(StatusCode::FORBIDDEN, what));
    let hosts = &shared.config.hosts;
    if headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site") {
        return refused("requests from other sites are refused (Sec-Fetch-Site: cross-site)".to_owned());
    }
    let asked: Vec<&str> = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("")).collect();
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("");
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        let is_asked = |host: &&str| host.eq_ignore_ascii_case(authority);
        let is_own = !authority.is_empty() && !asked.is_empty() && asked.iter().all(is_asked);
        if !is_own && !is_among(hosts, host_of(authority)) {
            return refused(format!(
                "requests from other sites are refused: Origin '{origin}' is not in the option hosts"
            ));
        }
    }
    if !shared.access.requires_login()? {
        let of_uri = uri.authority().map(|authority| authority.as_str());
        if let Some(host) = asked.into_iter().chain(of_uri).find(|host| !is_known(hosts, host_of(host))) {
            return refused(format!(
                "Host '{host}' is refused: without authentication it must be an IP address, localhost, or a name in \
                 the option hosts"
            ));
        }
    }
    Ok(())
}

/// The host without its port.
fn host_of(authority: &str) -> &str {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => host,
        _ => authority,
    }
}

fn is_known(hosts: &[String], host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_local =
        |host: &str| host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    address.parse::<IpAddr>().is_ok() || is_local(host) || is_among(hosts, host)
}

fn is_among(hosts: &[String], host: &str) -> bool {
    !host.is_empty() && hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
