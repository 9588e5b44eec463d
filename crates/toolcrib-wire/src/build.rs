//! Building whole messages around raw params and results.

use crate::id::Id;
use crate::json::Json;
use crate::meta::PROGRESS_TOKEN;
use crate::raw::Raw;
use crate::rpc_error::RpcError;
use crate::splice::push_with;
use crate::text::quote;

/// Room for what stands around params and results.
const SMALL: usize = 112;

pub fn request(id: &Id, method: &str, params: Option<Json<'_>>) -> Raw {
    let mut out = start_request(id, method, params.map_or(0, |params| params.text().len()));
    push_params(params, &mut out);
    finish(out)
}

/// The same, asking for progress under the request's own id. The params are known to have no `_meta`; what is no object
/// has no members.
pub fn request_for_progress(id: &Id, method: &str, params: Json<'_>) -> Raw {
    let mut out = start_request(id, method, params.text().len() + SMALL);
    out.push_str(r#","params":"#);
    push_with(params, "_meta", &mut out, |out| {
        out.push('{');
        quote(PROGRESS_TOKEN, out);
        out.push(':');
        id.write(out);
        out.push('}');
    });
    finish(out)
}

pub fn notification(method: &str, params: Option<Json<'_>>) -> Raw {
    let size = method.len() + params.map_or(0, |params| params.text().len());
    let mut out = String::with_capacity(size + SMALL);
    out.push_str(r#"{"jsonrpc":"2.0","method":"#);
    quote(method, &mut out);
    push_params(params, &mut out);
    finish(out)
}

/// An answer. A result that nobody else has is not copied where there is room around it: it came in an answer, too.
pub fn response(id: &Id, result: Raw) -> Raw {
    let mut before = start_with_id(id, 0);
    before.push_str(r#","result":"#);
    result.between(&before, "}")
}

/// An error answer. Without an id it says null, as JSON-RPC asks where the request's own could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Raw {
    let error = error.to_raw();
    let mut out = match id {
        Some(id) => start_with_id(id, error.text().len()),
        None => r#"{"jsonrpc":"2.0","id":null"#.to_owned(),
    };
    out.push_str(r#","error":"#);
    out.push_str(error.text());
    finish(out)
}

/// Several messages as one batch, for the one version that has them.
pub fn batch<'m>(messages: impl IntoIterator<Item = &'m Raw>) -> Raw {
    let mut out = String::from("[");
    for message in messages {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(message.text());
    }
    out.push(']');
    Raw::trusted(out)
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

fn finish(mut out: String) -> Raw {
    out.push('}');
    Raw::trusted(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectWriter;

    #[test]
    fn messages_look_as_the_protocol_says() {
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
