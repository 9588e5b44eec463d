//! Tests the HTTP interface of `toolcrib serve` for untrusted clients.

mod bodies;
mod body_memory;
mod browser;
mod connections;
mod dialogs;

use serde_json::Value;

use super::ServeProcess;
use crate::TestWorkspace;
use crate::server_commands::{demo_server, native_workspace};

/// A response of the host.
#[derive(Debug)]
struct ApiResponse {
    status: u16,
    /// In lower case.
    head: String,
    body: String,
}

impl ApiResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// The status and the error code.
    fn failure(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl ServeProcess {
    /// Sends one request over TCP with only these headers, `Host` and the length.
    async fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> ApiResponse {
        let mut head = format!("{line} HTTP/1.1");
        for (name, value) in headers {
            head += &format!("\r\n{name}: {value}");
        }
        if !body.is_empty() {
            head += &format!("\r\nContent-Length: {}", body.len());
        }
        let text = self.send(&head, body).await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        ApiResponse { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Sends one request with a JSON body and an optional token.
    async fn send_json(&self, line: &str, token: Option<&str>, body: &Value) -> ApiResponse {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        self.request(line, &headers, &body.to_string()).await
    }
}

/// The secret of a new token.
fn new_token(workspace: &TestWorkspace, args: &[&str]) -> String {
    let made = workspace.json(&[&["token", "new"], args].concat());
    made["token"].as_str().unwrap().to_owned()
}
