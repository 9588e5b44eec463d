//! Errors of the control API and the gateway.

use super::{ProblemEntry, entries};

entries! {
    pub(super) API;
    "call.unknown", Error:
        "The call is not running.",
        "`DELETE dialogs/1/calls/99`",
        "List the calls of the dialog.";
    "connection.down", Error:
        "The server is not connected.",
        "`refresh` of a failed server",
        "Connect it: `toolcrib server connect ID`.";
    "definition.unchanged", Error:
        "No tool of this name has a changed definition.",
        "`toolcrib accept echo`",
        "List the changes with `toolcrib accept`.";
    "denied.agent", Error:
        "The caller may not act as this agent.",
        "`?agent=admin` with a token for `coder`",
        "Use a token for this agent.";
    "denied.cwd", Error:
        "Only the owner may use a folder outside of the root.",
        "`POST dialogs {\"cwd\": \"/tmp\"}` with a token",
        "Use the owner's socket or an owner token.";
    "denied.owner", Error:
        "Only the owner may do this.",
        "`POST reload` with an agent's token",
        "Use the owner's socket, or make a token with `toolcrib token new --owner`.";
    "dialog.folder.missing", Error:
        "The folder of the dialog does not exist.",
        "`{\"cwd\": \"gone\"}`",
        "Create the folder or correct the path.";
    "dialog.limit", Error:
        "There are as many dialogs as `gateway.limits.sessions` allows.",
        "A client that opens dialogs and never ends them",
        "End dialogs, or raise the limit.";
    "dialog.taken", Error:
        "A dialog of this name exists already.",
        "`POST dialogs` twice with one name",
        "Use the existing dialog or another name.";
    "dialog.unknown", Error:
        "There is no dialog of this id for this caller.",
        "`GET dialogs/99`",
        "List the dialogs with `GET dialogs`.";
    "endpoint.method", Error:
        "The endpoint has no such method.",
        "`PUT servers`",
        "See `/api/v1/openapi.json`.";
    "endpoint.unknown", Error:
        "The control API has no such endpoint.",
        "`GET /api/v1/server`",
        "See `/api/v1/openapi.json`.";
    "gateway.closed", Error:
        "The `gateway` section of the configuration is invalid, so TCP is closed.",
        "Any request after a typing error in `gateway.tokens`",
        "Run `toolcrib check` and correct the section.";
    "host.ending", Error:
        "The host is stopping.",
        "A request after SIGTERM",
        "Connect again when the host runs.";
    "lease.unknown", Error:
        "The dialog has no lease of this server.",
        "`DELETE dialogs/1/leases/git`",
        "List the leases with `GET dialogs/{id}/leases`.";
    "rate.limit", Error:
        "The caller sends more requests than `gateway.limits.rate` allows.",
        "A loop without a pause",
        "Wait as long as `Retry-After` says.";
    "request.invalid", Error:
        "The request has an unknown field, a wrong type or a missing part.",
        "`{\"tol\": \"x\"}`",
        "Correct the request; the message names the field.";
    "request.media_type", Error:
        "The body of the request is not declared as JSON.",
        "A form post",
        "Send `Content-Type: application/json`.";
    "request.no_room", Error:
        "All request bodies together need more memory than `gateway.limits.bodies`.",
        "Many large requests at once",
        "Try again after `Retry-After`.";
    "request.too_large", Error:
        "The request is over the size limit.",
        "A body of 100 MB",
        "Send less, or raise the limit.";
    "request.too_slow", Error:
        "The request took longer to arrive than `gateway.limits.read`.",
        "A client that stops in the middle",
        "Check the network of the client.";
    "request.unknown", Error:
        "No request of a server waits for this answer.",
        "An answer that comes twice",
        "List the requests with `GET dialogs/{id}/requests`.";
    "server.connected", Error:
        "The server is connected already.",
        "`connect` of a ready server",
        "Use `restart` if it should start again.";
    "server.entry.invalid", Error:
        "The entry of a new server is invalid.",
        "`POST servers {\"id\": \"x\"}`",
        "Correct the entry; the message has its problems.";
    "server.in_file", Error:
        "The server is configured in a file, so the API cannot remove it.",
        "`DELETE servers/git`",
        "Remove it from the file, or disable it.";
    "server.unknown", Error:
        "There is no server of this id for this caller.",
        "`toolcrib server restart gti`",
        "List the servers with `toolcrib servers`.";
    "store.unwritable", Error:
        "The records cannot be read or written.",
        "`GET calls` on a full disk",
        "Free space in the state folder.";
    "token.limit", Error:
        "Too many wrong tokens came from this address.",
        "A script that guesses tokens",
        "Wait as long as `Retry-After` says. Valid tokens are not affected.";
    "token.missing", Error:
        "The host is protected and the request has no token.",
        "A client without `Authorization`",
        "Make a token with `toolcrib token new`, or run `toolcrib connect CLIENT --http`.";
    "token.unknown", Error:
        "The token is unknown or was revoked.",
        "An old token",
        "Make a new token.";
}
