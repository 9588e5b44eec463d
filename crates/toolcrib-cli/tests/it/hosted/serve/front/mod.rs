//! The HTTP surface of `toolcrib serve` as strangers meet it: pages, bodies, names of dialogs, connections.

mod bodies;
mod browser;
mod connections;
mod dialogs;
mod memory;

use serde_json::Value;

use super::Served;
use crate::Place;
use crate::hosted::{demo, native};

/// An answer of the host.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// In lower case.
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// The status, and the code of the error.
    fn failure(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Served {
    /// One request over TCP, with just these headers besides `Host` and the length.
    async fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
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
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// One request with a JSON body, and with a token where there is one.
    async fn send_json(&self, line: &str, token: Option<&str>, body: &Value) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        self.request(line, &headers, &body.to_string()).await
    }
}

/// The secret of a new token.
fn new_token(place: &Place, args: &[&str]) -> String {
    let made = place.json(&[&["token", "new"], args].concat());
    made["token"].as_str().unwrap().to_owned()
}
