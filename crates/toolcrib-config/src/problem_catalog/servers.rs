//! Problems of servers, credentials, tools and the state folder.

use super::{ProblemEntry, entries};

entries! {
    pub(super) SERVERS;
    "answer.duplicate", Warning:
        "A server answered one request twice. The second answer is ignored.",
        "Two responses with `\"id\": 7`",
        "Report it to the author of the server.";
    "answer.late", Warning:
        "A server answered a request that had timed out or was cancelled. The answer is ignored.",
        "A response after `notifications/cancelled`",
        "Raise `timeouts.request` if the server needs more time.";
    "answer.no_id", Warning:
        "A server sent a response without an id.",
        "`{\"jsonrpc\":\"2.0\",\"result\":{}}`",
        "Report it to the author of the server.";
    "answer.unknown_id", Warning:
        "A server answered a request that was never sent.",
        "A response with an id that the host did not use",
        "Report it to the author of the server.";
    "arguments.invalid", Warning:
        "The arguments of a call do not fit the tool's schema. The policy of the server lets the call pass.",
        "`{\"count\": \"three\"}` for a number",
        "Correct the arguments; `toolcrib tools --json` shows the schema.";
    "auth.address_forbidden", Error:
        "The metadata of a server or an issuer names an address that must not be requested.",
        "A public server that names a loopback address as its issuer",
        "Check the address of the server.";
    "auth.bad_answer", Error:
        "The issuer's answer is too large or malformed.",
        "HTML instead of JSON at the token endpoint",
        "Check the address of the issuer.";
    "auth.bad_key", Error:
        "The private key for client authentication cannot be used.",
        "A PEM file without a key",
        "Correct the key in the `auth` section of the server.";
    "auth.client", Error:
        "The HTTP client for the issuer cannot be set up, or the host is stopping.",
        "Invalid TLS settings",
        "Check the TLS settings.";
    "auth.denied", Error:
        "The server refuses the credentials, also after they were renewed.",
        "HTTP 403 with a fresh token",
        "Check the rights of the account, or run `toolcrib login SERVER` again.";
    "auth.issuer_unreachable", Error:
        "The issuer cannot be reached or answers with an error.",
        "The issuer is stopped",
        "Check the network; the host tries again by itself.";
    "auth.keep", Error:
        "Tokens cannot be read from or written to the credential store.",
        "A full disk",
        "Check the state folder and the keyring; `toolcrib doctor` shows where credentials are kept.";
    "auth.login_required", Error:
        "The server needs a login by a person.",
        "An OAuth server without tokens",
        "Run `toolcrib login SERVER`.";
    "auth.no_metadata", Error:
        "The server asks for OAuth, but its metadata or the issuer's metadata is missing or incomplete.",
        "404 at `/.well-known/oauth-protected-resource`",
        "Configure `auth.issuer`, or use a token.";
    "auth.no_registration", Error:
        "The issuer offers no way to register this client by itself.",
        "An issuer without a registration endpoint",
        "Register a client at the issuer and set `auth.client_id`.";
    "auth.not_needed", Error:
        "`toolcrib login` was run for a server that needs no login.",
        "A server without OAuth",
        "Nothing needs to be done.";
    "auth.other_issuer", Error:
        "The metadata belongs to another resource or another issuer than the one that was asked.",
        "A `resource` that does not match the server's address",
        "Check the address; do not log in if you do not expect this.";
    "auth.refused", Error:
        "The issuer refused the login or the renewal.",
        "`invalid_grant`",
        "Run `toolcrib login SERVER` again.";
    "auth.wrong_issuer", Error:
        "The answer of a login came from another issuer than expected. It is not used.",
        "A missing or wrong `iss`",
        "Start the login again; if it happens again, ask the operator of the issuer.";
    "capability.missing", Warning:
        "The server does not have a capability that `init.require_server` asks for.",
        "`require_server: [resources]`",
        "Remove the requirement or use another server.";
    "connect.failed", Error:
        "The connection to the server failed before a session was open.",
        "Connection refused",
        "Check the address and that the server runs.";
    "credentials.unsealed", Warning:
        "Credentials are kept without encryption, because the keyring cannot be used.",
        "A machine without a keyring",
        "Unlock the keyring, or set `host.credentials: file`.";
    "definition.changed", Warning:
        "A tool has another description or schema than when it was first seen. With `pins: enforce` it is withheld.",
        "A new version of a server",
        "Compare the definitions with `toolcrib accept`, then accept the change.";
    "docker.create_failed", Error:
        "The Docker engine did not create the container.",
        "A wrong mount",
        "Correct the `docker` section; the message has the engine's text.";
    "docker.endpoint", Error:
        "The address of the Docker engine cannot be used.",
        "`DOCKER_HOST=foo`",
        "Correct `docker.endpoint` or `DOCKER_HOST`.";
    "docker.exec_failed", Error:
        "The program could not be started in the container.",
        "A command that the image does not have",
        "Correct the command.";
    "docker.forbidden", Error:
        "`host.permissions.docker` does not allow servers in containers.",
        "`permissions: { docker: false }`",
        "Change the permission or remove the server.";
    "docker.no_container", Error:
        "The container does not exist.",
        "`container: pg-tools` that was removed",
        "Start the container or correct its name.";
    "docker.no_image", Error:
        "The image does not exist on this machine.",
        "`image: tools:9`",
        "Pull or build the image.";
    "docker.no_shell", Warning:
        "The container has no shell, so processes of the server in it cannot be ended from outside.",
        "A distroless image",
        "Use an image with `sh`, or make sure that the server ends when its input ends.";
    "docker.not_running", Error:
        "The container exists but does not run.",
        "A stopped container",
        "Start the container.";
    "docker.slow", Error:
        "The Docker engine did not answer in time.",
        "An overloaded engine",
        "Check the engine; the host tries again by itself.";
    "docker.tls", Error:
        "The TLS settings for the Docker engine cannot be used.",
        "`DOCKER_CERT_PATH` without certificates",
        "Correct the settings.";
    "docker.unreachable", Error:
        "The Docker engine cannot be reached.",
        "The engine is stopped",
        "Start the engine; check that this user may use its socket.";
    "filter.denied", Warning:
        "A tool that is mentioned elsewhere is not offered, because a deny pattern matches it.",
        "`deny: [delete_*]`",
        "Change the pattern if the tool is wanted.";
    "filter.media_type", Warning:
        "A resource is not offered, because its media type is not in the list.",
        "`mime: [text/*]`",
        "Add the type if the resource is wanted.";
    "filter.not_allowed", Warning:
        "A tool that is mentioned elsewhere is not offered, because the allow list does not have it.",
        "`allow: [search]`",
        "Add the tool if it is wanted.";
    "header.invalid", Error:
        "A header of the server has an invalid name or value.",
        "A line break in a token",
        "Correct the header.";
    "host.max_servers", Error:
        "The host is connected to as many servers as `host.max_servers` allows.",
        "`max_servers: 2` with three servers",
        "Raise the limit or disable a server.";
    "http.unusable", Error:
        "The HTTP client for the server cannot be set up.",
        "Invalid TLS settings",
        "Check the settings of the server.";
    "input.missing", Error:
        "A value that a person is asked for was not given yet.",
        "`${input:token}` without a terminal",
        "Run `toolcrib login SERVER` on a terminal.";
    "list.item", Warning:
        "A server lists an item that cannot be offered: it has no name, a wrong type, or a secret in its name.",
        "A tool without `inputSchema`",
        "Report it to the author of the server.";
    "message.malformed", Warning:
        "A server sent a message that is not JSON-RPC.",
        "`{\"jsonrpc\":\"1.0\"}`",
        "Report it to the author of the server.";
    "message.too_large", Error:
        "A message of a server is over `limits.message`.",
        "A result of 100 MB",
        "Raise `limits.message` if such messages are expected.";
    "name.alias.collision", Info:
        "Two tools get the same name for models. One of them is offered under another name.",
        "`a.b` and `a_b`",
        "Use a transform for a name that reads better.";
    "name.collision", Warning:
        "Two tools have the same name. The rule `naming.on_collision` decides which is offered.",
        "Two servers with `search` and without prefix",
        "Give one server a prefix.";
    "name.illegal", Warning:
        "A tool's name has characters that model providers refuse.",
        "`search the web`",
        "The tool is offered under an alias; rename it with a transform if you want another.";
    "name.invalid", Warning:
        "A tool is not offered, because its name is invalid and `naming.validity` is `reject`.",
        "`search the web`",
        "Rename it with a transform, or set `naming.validity: alias`.";
    "network.forbidden", Error:
        "`host.permissions.network` does not allow servers over the network.",
        "`permissions: { network: false }`",
        "Change the permission or remove the server.";
    "output.invalid", Error:
        "The result of a tool does not fit the tool's output schema.",
        "A missing field in `structuredContent`",
        "Report it to the author of the server.";
    "pins.full", Error:
        "A server has more tools than `limits.pins` allows to remember. With `pins: enforce` the rest is withheld.",
        "30,000 tools",
        "Raise `limits.pins`.";
    "pins.unreadable", Error:
        "The remembered tool definitions cannot be read. With `pins: enforce` tools are withheld.",
        "A damaged store",
        "Check the store in the state folder; the host tries again.";
    "pins.unwritten", Error:
        "New tool definitions cannot be remembered.",
        "A full disk",
        "Check the store in the state folder; the host tries again.";
    "progress.unknown", Warning:
        "A server reported progress for a request that is not running.",
        "A wrong `progressToken`",
        "Report it to the author of the server.";
    "prompt.collision", Warning:
        "Two servers have a prompt of the same name.",
        "`review` of two servers",
        "Give one server a prefix.";
    "reload.kept_last_good", Warning:
        "A changed entry cannot be used, so the last good server stays.",
        "A typing error in a running host's file",
        "Correct the entry.";
    "request.too_many", Warning:
        "A server sent more requests at once than the limit. The rest was refused.",
        "Hundreds of `sampling/createMessage`",
        "Report it to the author of the server.";
    "result.malformed", Error:
        "The result of a call cannot be used.",
        "A `content` that is no list",
        "Report it to the author of the server.";
    "schema.unchecked", Info:
        "Checking the arguments or the result against the tool's schema would cost too much, so it was not done.",
        "A schema with deeply nested alternatives",
        "Nothing needs to be done; the server checks its arguments itself.";
    "secret.denied", Error:
        "The secret store refused access.",
        "A Vault token without the right policy",
        "Check the rights at the store.";
    "secret.failed", Error:
        "The secret store answered with an error.",
        "A command that exits with 1",
        "Run the command by hand; check the store.";
    "secret.invalid", Error:
        "The declaration of a secret store is invalid.",
        "`kind: vault` without `url`",
        "Correct the entry in `host.secrets`.";
    "secret.missing", Error:
        "The secret does not exist in its store.",
        "`{ secret: \"keyring:wiki\" }` without such an entry",
        "Add the secret to the store.";
    "secret.section_invalid", Error:
        "`host.secrets` is invalid, so servers that use its stores do not start.",
        "A typing error in `host.secrets`",
        "Correct the section.";
    "secret.unreachable", Error:
        "The secret store cannot be reached or did not answer in time.",
        "A stopped Vault",
        "Check the store; the host tries again.";
    "secret.unusable", Error:
        "The secret has a form that cannot be used.",
        "Binary data",
        "Store the secret as text.";
    "server.away", Info:
        "A server is not connected. The message says what happens to its tools meanwhile.",
        "A server that restarts",
        "Nothing needs to be done; `toolcrib servers` shows the next attempt.";
    "server.config", Error:
        "The server cannot be reached because of its configuration.",
        "A header that cannot be sent",
        "Correct the entry.";
    "server.limit", Error:
        "A limit of the server or of the host was reached.",
        "More tools than `limits.tools`",
        "Raise the limit that the message names.";
    "server.no_tools", Error:
        "The server lists no tools, and `discovery.require_tools` is set.",
        "An empty `tools/list`",
        "Remove the requirement or correct the server.";
    "server.protocol", Error:
        "The server broke the protocol, so the session was closed.",
        "An answer to `initialize` without a version",
        "Report it to the author of the server; `toolcrib doctor SERVER` shows details.";
    "server.timeout", Error:
        "The server did not answer in time.",
        "A server that needs a minute to start",
        "Raise `timeouts.startup` or `timeouts.request`.";
    "server.unreachable", Warning:
        "The server cannot be reached.",
        "Connection refused",
        "Check that the server runs; the host tries again.";
    "session.gone", Error:
        "The server ended the session. The next call opens a new one.",
        "HTTP 404 for a session id",
        "Call again.";
    "spawn.forbidden", Error:
        "`host.permissions.spawn` does not allow to start programs.",
        "`permissions: { spawn: false }`",
        "Change the permission or remove the server.";
    "start.slow", Warning:
        "The server needs long to start.",
        "A server that downloads packages first",
        "Install the package instead of using `npx` or `uvx`.";
    "stdio.spawn.closed", Error:
        "The host is stopping and starts no more programs.",
        "A call during the shutdown",
        "Nothing needs to be done.";
    "stdio.spawn.cwd", Error:
        "The working directory of the server cannot be used.",
        "A folder without permission",
        "Correct `cwd`.";
    "stdio.spawn.ledger", Error:
        "The list of started processes cannot be written, so nothing is started.",
        "A full disk",
        "Check the state folder.";
    "stdio.spawn.not_executable", Error:
        "The program exists but cannot be executed.",
        "A script without `chmod +x`",
        "Make the file executable.";
    "stdio.spawn.not_found", Error:
        "The program was not found.",
        "`command: git-mcp` that is not installed",
        "Install the program, or write its full path.";
    "stdio.spawn.other", Error:
        "The program could not be started for another reason.",
        "Too many processes",
        "The message has the system's text.";
    "store.aside", Error:
        "A damaged store could not be moved aside.",
        "A read-only state folder",
        "Check the state folder.";
    "store.damaged", Error:
        "The store is damaged and in use by another process.",
        "A damaged disk",
        "End the other process, then start again.";
    "store.file", Error:
        "The store cannot be opened.",
        "A store with wrong permissions",
        "Check the state folder.";
    "store.folder", Error:
        "The state folder cannot be created or used.",
        "A read-only home",
        "Check `TOOLCRIB_STATE_DIR` and its permissions.";
    "store.locked", Error:
        "Another process uses the store.",
        "Two hosts with one state folder",
        "End the other process.";
    "store.newer", Error:
        "A newer version of Toolcrib wrote the store. It is left untouched.",
        "A downgrade",
        "Use the newer version, or another state folder.";
    "store.older", Error:
        "The store is of a version that can no longer be migrated.",
        "A very old state folder",
        "Use an older version to migrate it, or another state folder.";
    "store.thread", Error:
        "The thread of the store cannot be started.",
        "Too many threads",
        "Check the limits of the system.";
    "store.write", Warning:
        "The store cannot be written. The host goes on without it.",
        "A full disk",
        "Free space in the state folder; the host tries again.";
    "stream.header", Warning:
        "A server with `Content-Length` framing sent an invalid header.",
        "`Content-Length: abc`",
        "Report it to the author of the server.";
    "stream.noise", Warning:
        "A server wrote text to standard output that is not MCP. The text is ignored.",
        "A banner at the start",
        "Send such text to standard error.";
    "stream.truncated", Warning:
        "A message of a server ended in the middle.",
        "A server that crashed while writing",
        "Check the log of the server: `GET servers/{id}/log`.";
    "stream.unread", Warning:
        "Messages of a server were dropped, because the receiver was too slow.",
        "Thousands of log messages",
        "Lower the log level of the server.";
    "tls.unusable", Error:
        "The TLS settings of the server cannot be used.",
        "A certificate file that does not exist",
        "Correct the settings.";
    "token.unverified", Warning:
        "Tokens of the OAuth issuer cannot be checked, because its keys cannot be fetched.",
        "The issuer is stopped",
        "Check the network; the host tries again.";
    "tool.schema.invalid", Warning:
        "The schema of a tool is not a JSON Schema.",
        "`\"type\": 5`",
        "Correct it at the server, or set `discovery.invalid_schemas: withhold`.";
    "toolset.collision", Warning:
        "Two servers have the same name for their toolset.",
        "Two files with a server `git`",
        "Rename one of them.";
    "toolset.not_found", Warning:
        "A member's grants name a toolset that does not exist.",
        "`toolsets: [gti]`",
        "Correct the name.";
    "trust.required", Warning:
        "A server comes from a file that was found, not named, and what it would run was not trusted yet.",
        "`.mcp.json` in a cloned repository",
        "Look with `toolcrib trust --show`, then run `toolcrib trust`.";
    "trust.unreadable", Error:
        "The list of trusted folders cannot be read, so nothing that was found is trusted.",
        "A damaged `trust.json`",
        "Correct or remove the file, then trust the folders again.";
    "uri.collision", Warning:
        "Two servers have a resource of the same URI.",
        "`file:///README.md` of two servers",
        "Name the server when you read it, or leave one out with `expose.resources.deny`.";
}
