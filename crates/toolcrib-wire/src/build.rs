//! Builds complete JSON-RPC messages around raw params and results.

use crate::id::Id;
use crate::json::Json;
use crate::meta::PROGRESS_TOKEN;
use crate::quoting::quote;
use crate::raw_json::RawJson;
use crate::rpc_error::RpcError;
use crate::splice::push_with_member;

/// Capacity for the message members around params and results.
const SMALL: usize = 112;

/// Builds a request.
pub fn request(id: &Id, method: &str, params: Option<Json<'_>>) -> RawJson {
    let mut out = start_request(id, method, params.map_or(0, |params| params.text().len()));
    push_params(params, &mut out);
    finish(out)
}

/// Builds a request that asks for progress and uses its own id as the progress token. The params must not have
/// `_meta`. Params that are not an object are sent unchanged.
pub fn request_for_progress(id: &Id, method: &str, params: Json<'_>) -> RawJson {
    let mut out = start_request(id, method, params.text().len() + SMALL);
    out.push_str(r#","params":"#);
    push_with_member(params, "_meta", &mut out, |out| {
        out.push('{');
        quote(PROGRESS_TOKEN, out);
        out.push(':');
        id.write(out);
        out.push('}');
    });
    finish(out)
}

/// Builds a notification.
pub fn notification(method: &str, params: Option<Json<'_>>) -> RawJson {
    let size = method.len() + params.map_or(0, |params| params.text().len());
    let mut out = String::with_capacity(size + SMALL);
    out.push_str(r#"{"jsonrpc":"2.0","method":"#);
    quote(method, &mut out);
    push_params(params, &mut out);
    finish(out)
}

/// Builds a response. If the result's buffer has a single owner and enough room, the result is not copied: it came in
/// a response itself.
pub fn response(id: &Id, result: RawJson) -> RawJson {
    let mut before = start_with_id(id, 0);
    before.push_str(r#","result":"#);
    result.surround_with(&before, "}")
}

/// Builds an error response. Without an id it writes `null`, which JSON-RPC requires when the request's id is
/// unreadable.
pub fn error(id: Option<&Id>, error: &RpcError) -> RawJson {
    let error = error.to_raw();
    let mut out = match id {
        Some(id) => start_with_id(id, error.text().len()),
        None => r#"{"jsonrpc":"2.0","id":null"#.to_owned(),
    };
    out.push_str(r#","error":"#);
    out.push_str(error.text());
    finish(out)
}

/// Builds a batch. Only one protocol version has batches.
pub fn batch<'m>(messages: impl IntoIterator<Item = &'m RawJson>) -> RawJson {
    let mut out = String::from("[");
    for message in messages {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(message.text());
    }
    out.push(']');
    RawJson::from_trusted(out)
}

fn start_request(id: &Id, method: &str, size: usize) -> String {
    let mut out = start_with_id(id, method.len() + size);
    out.push_str(r#","method":"#);
    quote(method, &mut out);
    out
}

fn start_with_id(id: &Id, size: usize) -> String {
    let mut out = String::with_capacity(size + SMALL);
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    id.write(&mut out);
    out
}

fn push_params(params: Option<Json<'_>>, out: &mut String) {
    let Some(params) = params else { return };
    out.push_str(r#","params":"#);
    out.push_str(params.text());
}

fn finish(mut out: String) -> RawJson {
    out.push('}');
    RawJson::from_trusted(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_writer::ObjectWriter;

    #[test]
    fn built_messages_match_the_protocol() {
        let id = Id::from(3);
        let params = ObjectWriter::new().string("name", "x").finish();
        for (built, expected) in [
            (
                request(&id, "tools/call", Some(params.json())),
                r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}"#,
            ),
            (
                request_for_progress(&id, "m", params.json()),
                r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"_meta":{"progressToken":3},"name":"x"}}"#,
            ),
            (
                request_for_progress(&Id::from("a"), "m", Json::EMPTY),
                r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"_meta":{"progressToken":"a"}}}"#,
            ),
            (
                request_for_progress(&id, "m", Json::NULL),
                r#"{"jsonrpc":"2.0","id":3,"method":"m","params":null}"#,
            ),
            (request(&id, "ping", None), r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#),
            (notification("n", None), r#"{"jsonrpc":"2.0","method":"n"}"#),
            (
                response(&Id::from("a"), Json::EMPTY.into()),
                r#"{"jsonrpc":"2.0","id":"a","result":{}}"#,
            ),
            (
                error(None, &RpcError::new(-1, "no")),
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#,
            ),
            (batch([&Json::EMPTY.into(), &Json::NULL.into()]), "[{},null]"),
        ] {
            assert_eq!(built.text(), expected);
        }
    }
}
