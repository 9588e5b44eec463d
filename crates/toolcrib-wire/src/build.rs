//! Building whole messages around raw params and results.

use crate::id::Id;
use crate::json::Json;
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::rpc_error::RpcError;

pub fn request(id: &Id, method: &str, params: Option<Json<'_>>) -> Raw {
    start(params).id("id", id).string("method", method).json_if("params", params).finish()
}

/// The same with a member of the params that they are known not to have. What is no object has no members.
pub fn request_with(id: &Id, method: &str, params: Json<'_>, new: (&str, Json<'_>)) -> Raw {
    let writer = start(Some(params)).id("id", id).string("method", method);
    writer.json_with("params", params, new).finish()
}

pub fn notification(method: &str, params: Option<Json<'_>>) -> Raw {
    start(params).string("method", method).json_if("params", params).finish()
}

/// An answer. A result that nobody else has is not copied where there is room around it: it came in an answer, too.
pub fn response(id: &Id, result: Raw) -> Raw {
    let mut before = String::with_capacity(64);
    before.push_str(r#"{"jsonrpc":"2.0","id":"#);
    id.write(&mut before);
    before.push_str(r#","result":"#);
    result.between(&before, "}")
}

/// An error answer. Without an id it says null, as JSON-RPC asks where the request's own could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Raw {
    let writer = match id {
        Some(id) => start(None).id("id", id),
        None => start(None).json("id", Json::NULL),
    };
    writer.json("error", error.to_raw().json()).finish()
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

fn start(content: Option<Json<'_>>) -> ObjectWriter {
    let size = content.map_or(0, |content| content.text().len());
    ObjectWriter::with_room(size).string("jsonrpc", "2.0")
}

#[cfg(test)]
mod tests {
    use super::*;

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
                request_with(&id, "m", params.json(), ("a", Json::NULL)),
                r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":null,"name":"x"}}"#,
            ),
            (
                request_with(&id, "m", Json::EMPTY, ("a", Json::NULL)),
                r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":null}}"#,
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
