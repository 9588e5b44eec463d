//! The HTML page at `/`, which lists the served paths.

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

pub(super) async fn serve_index(headers: HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // Clients of the socket have no host name. The host guard already rejects names with markup; this check does not
    // rely on it.
    let host = host.filter(|host| !host.contains(['<', '>', '&', '\"'])).unwrap_or("localhost");
    let safe = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (safe, Html(PAGE.replace("HOST", host))).into_response()
}
