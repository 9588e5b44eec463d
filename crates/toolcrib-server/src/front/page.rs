//! The plain page at `/`: what is served, and where.

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

const PAGE: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Toolcrib</title>
<h1>Toolcrib</h1>
<p>Every MCP server of this host, as one. Clients connect to:</p>
<ul>
<li><code>http://HOST/mcp</code>: Streamable HTTP; <code>/mcp/SERVER</code> is one server by itself
<li><code>http://HOST/sse</code>: the older HTTP+SSE
<li><code>ws://HOST/ws</code>: WebSocket
</ul>
<p>For programs and people:</p>
<ul>
<li><a href=\"/api/v1/status\">/api/v1</a>: the control API,
<a href=\"/api/v1/openapi.json\">described</a>
<li><a href=\"/metrics\">/metrics</a>, <a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a>
</ul>
</html>
";

pub(super) async fn show(headers: HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // Whoever uses the socket has no name for it. A name that came so far has nothing in it to be escaped, but
    // that is decided elsewhere.
    let host = host.filter(|host| !host.contains(['<', '>', '&', '\"'])).unwrap_or("localhost");
    let safe = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (safe, Html(PAGE.replace("HOST", host))).into_response()
}
