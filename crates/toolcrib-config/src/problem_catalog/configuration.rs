//! Problems of configuration files.

use super::{ProblemEntry, entries};

entries! {
    pub(super) CONFIGURATION;
    "agent.name", Error:
        "Two agents of a Minion file have the same name, or an agent has none.",
        "Two entries of `Agents` with `\"Name\": \"main\"`.",
        "Give each agent a name of its own.";
    "auth.inline_token", Error:
        "A Codex file contains a bearer token as a literal value. Codex does not read it there.",
        "`bearer_token = \"abc\"` in `[mcp_servers.docs]`",
        "Put the token into a variable and name the variable in `bearer_token_env_var`.";
    "auth.missing", Error:
        "`AuthType` of a Minion server needs a value in `AuthConfig` that is not there.",
        "`\"AuthType\": \"bearer\"` without `\"Token\"`",
        "Add the value that the message names.";
    "auth.stray_key", Warning:
        "`AuthConfig` has a key that has no meaning for this `AuthType`.",
        "`\"AuthType\": \"none\"` with `\"Token\": \"…\"`",
        "Remove the key.";
    "auth.unsupported", Error:
        "`AuthType` has an unknown value.",
        "`\"AuthType\": \"kerberos\"`",
        "Use `none`, `bearer`, `apikey` or `oauth`.";
    "command.missing", Error:
        "The entry has transport `stdio` but no command.",
        "`servers: { git: { args: [\"-v\"] } }`",
        "Add `command: PROGRAM`.";
    "command.not_allowed", Error:
        "The command is not in the list of allowed commands of this file or profile.",
        "`command: bash` in a HoloDeck file",
        "Use one of the allowed commands, or allow this one with `allow_commands`.";
    "config.allowed_tools", Error:
        "`config.allowed_tools` of a HoloDeck entry cannot be read. The entry is not used, because the filter would be lost.",
        "`allowed_tools: search`",
        "Write a list of tool names.";
    "cwd.missing", Error:
        "The working directory of the server does not exist.",
        "`cwd: ./srv` without such a folder",
        "Create the folder or correct the path.";
    "dialect.unknown", Error:
        "The format of a file is not known from its name.",
        "`include: [{ path: servers.conf }]`",
        "Add `dialect: NAME` to the include, or `--dialect NAME` to the command.";
    "docker.target", Error:
        "The entry names neither a container nor an image.",
        "`docker: { command: [mcp-server] }`",
        "Add `container: NAME` or `image: NAME`.";
    "encoding.unknown", Error:
        "`transport.encoding` is no known text encoding.",
        "`encoding: latin-99`",
        "Use `utf-8` or another name of the WHATWG list.";
    "env.missing", Error:
        "A value refers to an environment variable that is not set.",
        "`\"Bearer ${DOCS_TOKEN}\"` while `DOCS_TOKEN` is not set",
        "Set the variable, or write a default: `${DOCS_TOKEN:-none}`.";
    "env_file.line", Warning:
        "A line of an environment file is no assignment. The line is ignored.",
        "`export` alone on a line",
        "Write `NAME=value`.";
    "env_file.unreadable", Error:
        "The environment file of a server cannot be read.",
        "`env_file: .env.local` without such a file",
        "Create the file or correct the path.";
    "expose.as.elsewhere", Info:
        "The entry sets how resources or prompts are offered to agents of another design. The setting has no effect in this host.",
        "`expose: { prompts: { as: skill } }` in a format without skills",
        "Remove the setting, or use `off` to offer nothing.";
    "file.missing", Error:
        "A configuration file that was named does not exist.",
        "`toolcrib check --config missing.yaml`",
        "Check the path.";
    "file.shadowed", Warning:
        "Two files of one design are present and only one of them is read.",
        "`.dispatch/mcp.json` beside `opencode.json`",
        "Keep the servers in one of the two files.";
    "file.too_deep", Error:
        "The file is nested too deeply to be a configuration.",
        "200 lists inside each other",
        "Remove the nesting.";
    "file.too_large", Error:
        "The file is larger than the limit for configuration files.",
        "A log file that was named with `--config`",
        "Split the file with `include`.";
    "file.too_many_flaws", Error:
        "The file has so many syntax errors that the rest is not listed.",
        "A binary file",
        "Correct the first errors, then check again.";
    "file.too_many_problems", Error:
        "The file has so many problems that the rest is not listed.",
        "Thousands of servers with the same mistake",
        "Correct the first problems, then check again.";
    "file.too_many_values", Error:
        "The file contains more values than the limit allows, aliases included.",
        "YAML aliases that multiply",
        "Use fewer aliases, or split the file with `include`.";
    "file.unreadable", Error:
        "A configuration file exists but cannot be read.",
        "`toolcrib.yaml` with mode 000",
        "Check the permissions of the file.";
    "gateway.host", Error:
        "An entry of `gateway.hosts` is no host name.",
        "`hosts: [\"https://x\"]`",
        "Write host names without scheme and path.";
    "gateway.origin", Error:
        "An entry of `gateway.origins` is no origin.",
        "`origins: [\"*\"]`",
        "Write origins such as `http://localhost:3000`.";
    "holodeck.legacy", Warning:
        "A HoloDeck entry uses the old `server:` form.",
        "`server: my-server`",
        "Use `command` and `args`, as the message shows.";
    "include.again", Error:
        "A file is included twice, or includes are nested too deeply.",
        "Two files that include each other",
        "Include each file once.";
    "include.missing", Error:
        "An included file does not exist.",
        "`include: [{ path: team.yaml }]`",
        "Create the file or remove the include.";
    "include.path", Error:
        "An include has no path.",
        "`include: [{ dialect: minion }]`",
        "Add `path: FILE`.";
    "input.unsupported", Error:
        "A VS Code input has a type that cannot be asked for here.",
        "`\"type\": \"command\"`",
        "Use `promptString` or `pickString` with an `id`.";
    "json.syntax", Error:
        "The file is not valid JSON with comments.",
        "A missing comma",
        "Check commas, quotes and brackets at the place and in the line above.";
    "key.duplicate", Error:
        "A key is written twice, or two spellings of one key are present.",
        "`command` twice in one entry",
        "Keep one of the two.";
    "key.misplaced", Error:
        "A key that restricts a server is at the wrong level, so it would have no effect. The entry is not used.",
        "`allow: [read]` directly in the server entry",
        "Move the key to the place that the message names.";
    "key.not_text", Error:
        "A key of a YAML map is a list or a map.",
        "`[a, b]: 1`",
        "Use a text as key.";
    "key.required", Error:
        "A required key is missing.",
        "A HoloDeck tool without `name`",
        "Add the key.";
    "key.shadowed", Warning:
        "Two keys say the same thing and only one of them is used.",
        "`url` beside `httpUrl` in a Gemini file",
        "Keep one of the two.";
    "key.too_long", Error:
        "A key is longer than the limit.",
        "A forgotten quote or colon",
        "Shorten the key.";
    "key.unknown", Warning:
        "The format has no such key. It has no effect. A misspelt key that restricts a server is an error.",
        "`comand: git-mcp`",
        "Correct the spelling; the message suggests a key.";
    "key.unsupported", Warning:
        "The key exists in the other client but Toolcrib does not support it.",
        "`\"trust\": true` in a Gemini file",
        "Check that the server works without it.";
    "manual.missing", Warning:
        "The manual file of a server does not exist.",
        "`manual: docs/git.md`",
        "Write the file or correct the path.";
    "members.default", Error:
        "`default` of a team file is misplaced and would grant nothing or everything.",
        "`default:` outside of `members`",
        "Move it as the message says.";
    "name.duplicate", Error:
        "Two entries of one list have the same name.",
        "Two HoloDeck tools named `search`",
        "Give one of them another name.";
    "name.missing", Error:
        "An entry has no name.",
        "A Minion server without `ServerName`",
        "Add the name.";
    "name.unusual", Warning:
        "A name has characters that the design does not allow.",
        "`my tool!` in a HoloDeck file",
        "Rename the tool.";
    "naming.separator.unused", Warning:
        "`naming.separator` has no effect, because the naming template does not use it.",
        "`separator: \"-\"` with `template: \"{tool}\"`",
        "Use `{server}{tool}` in `naming.template`, or remove the separator.";
    "oauth.no_audience", Error:
        "`gateway.oauth` names no audience, so no token can be for this host.",
        "`oauth: { issuer: \"https://login.example.com\" }`",
        "Add `audience`.";
    "oauth.no_issuer", Error:
        "`gateway.oauth` names no issuer.",
        "`oauth: { audience: \"x\" }`",
        "Add `issuer`, or remove `oauth`.";
    "profile.invalid", Error:
        "The profile that an entry uses has errors.",
        "`profile: strict` where `profiles.strict` has a wrong type",
        "Correct the profile.";
    "profile.reserved", Error:
        "A profile has the name of a built-in profile.",
        "`profiles: { native: … }`",
        "Choose another name and set `base` to the built-in one.";
    "profile.too_many", Error:
        "The file declares more profiles than the limit.",
        "Hundreds of generated profiles",
        "Use fewer profiles.";
    "profile.unknown", Error:
        "An entry uses a profile that nothing declares.",
        "`profile: strct`",
        "Use one of the names in the message.";
    "secret.undeclared", Error:
        "A value refers to a secret store that nothing declares.",
        "`{ secret: \"vault2:docs\" }`",
        "Declare the store in `host.secrets`.";
    "security.closed", Error:
        "A security section is invalid at start. What the section governs is closed.",
        "`gateway: { tokens: 5 }`",
        "Correct the section; the problem beside this one names the place.";
    "security.kept", Warning:
        "A security section became invalid on a reload. Its last good version stays in force.",
        "A typing error in `host.grants` while `serve` runs",
        "Correct the section.";
    "server.empty", Error:
        "A HoloDeck tool names an empty server.",
        "`server: \"\"`",
        "Name the server's package.";
    "server.invalid", Error:
        "A server entry has the wrong type.",
        "`git: 5`",
        "Write a map of keys.";
    "server.shadowed", Info:
        "Two files configure a server of the same name. One of them is used.",
        "`git` in `toolcrib.yaml` and in `.mcp.json`",
        "Rename one, or remove it.";
    "server.switch", Info:
        "The entry only switches a server that is configured elsewhere.",
        "`\"git\": { \"enabled\": false }` in an opencode file",
        "Give the entry a `command` or a `url`, or remove it.";
    "servers.invalid", Error:
        "The list of servers has the wrong type.",
        "`mcpServers: []`",
        "Write a map from names to entries.";
    "token.agent", Error:
        "An entry of `gateway.tokens` names no agent. The section is closed.",
        "`- { sha256: \"…\" }`",
        "Add `agent: NAME`.";
    "token.hash", Error:
        "An entry of `gateway.tokens` has no valid SHA-256 hash. The section is closed.",
        "`sha256: abc`",
        "Make one with `toolcrib token new`.";
    "toml.syntax", Error:
        "The file is not valid TOML.",
        "A repeated key",
        "Check quotes, brackets and repeated keys.";
    "tool.version.missing", Warning:
        "The version of a tool that the configuration asks for does not exist.",
        "`versions: { search: \"2\" }`",
        "Use one of the versions in the message.";
    "tool.version.unused", Info:
        "A version of a tool is not offered, because another version is chosen.",
        "`search@1` beside `search@2`",
        "Remove the choice to offer both.";
    "toolset.reserved", Error:
        "A server has a name that is reserved for a built-in toolset.",
        "A server named `ws_read` in a Dominds workspace",
        "Rename the server.";
    "transport.ambiguous", Error:
        "The entry names both a command and an address.",
        "`command` beside `url`",
        "Keep one of them, or set `transport.kind`.";
    "transport.missing", Error:
        "The entry names neither a command nor an address.",
        "`git: { env: {} }`",
        "Add a `command`, a `url` or `docker`.";
    "transport.stray_key", Warning:
        "A key has no meaning for the transport of the entry.",
        "`args` beside `url`",
        "Remove the key.";
    "transport.unsupported", Error:
        "The transport has an unknown name.",
        "`\"type\": \"grpc\"`",
        "Use one of the names in the message.";
    "transport.wrong_key", Error:
        "A HoloDeck entry has a key of another transport.",
        "`url` with `transport: stdio`",
        "Remove the key.";
    "url.insecure", Error:
        "The address must use https, or http on this machine.",
        "`url: http://example.com/mcp` where https is required",
        "Use https.";
    "url.invalid", Error:
        "The address cannot be parsed.",
        "`url: \"http//x\"`",
        "Correct the address.";
    "url.missing", Error:
        "The entry has a transport over the network but no address.",
        "`transport: { kind: sse }`",
        "Add `url: ADDRESS`.";
    "url.not_allowed", Error:
        "The address is not allowed by `url_policy`.",
        "A private address under `url_policy: public`",
        "Change the address or the policy.";
    "url.scheme", Error:
        "The address has a scheme that the transport does not use.",
        "`url: ftp://example.com`",
        "Use a scheme that the message names.";
    "value.invalid", Error:
        "A value has the wrong type or is out of range.",
        "`timeouts: { request: soon }`",
        "Correct the value.";
    "value.missing", Error:
        "A security setting has a key without a value. Its section is closed.",
        "`gateway:` alone on a line",
        "Write the value, or remove the key.";
    "value.unsupported", Error:
        "A value uses an expansion that Toolcrib does not support.",
        "`${input:token}` in a Claude file",
        "Write the value itself, or a variable.";
    "version.unsupported", Error:
        "The file does not state a format version that this program reads.",
        "`version: 9`",
        "Write `version: 1` at the top of the file.";
    "yaml.alias", Error:
        "A YAML alias refers to the value that it is part of.",
        "`a: &a { b: *a }`",
        "Write the value out.";
    "yaml.documents", Error:
        "The file has more than one YAML document.",
        "A second `---`",
        "Remove it, or move the document to a file of its own.";
    "yaml.merge", Error:
        "A YAML merge key does not refer to a map.",
        "`<<: 5`",
        "Refer to a map: `<<: *name`.";
    "yaml.syntax", Error:
        "The file is not valid YAML.",
        "Wrong indentation",
        "Check indentation, quotes and brackets at the place and in the line above.";
}
