//! VS Code's `mcp.json`: of a workspace in `.vscode/`, or the person's own.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::clients::{self, Foreign};
use super::editor::Editor;
use super::expand::{self, Expander, Headers, Reached, Variables};
use super::{Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Either};
use crate::model::host::Input;
use crate::model::transport::TransportKind;
use crate::text;
use crate::value::Part;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Root {
    servers: Option<At<IgnoredAny>>,
    inputs: Option<At<Vec<At<InputKeys>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputKeys {
    r#type: Option<At<String>>,
    id: Option<At<String>>,
    description: Option<At<String>>,
    password: Option<At<bool>>,
    default: Option<At<String>>,
    options: Option<At<Vec<Either<String, Choice>>>>,
    /// Of inputs that a command of the editor answers.
    command: Option<At<IgnoredAny>>,
    args: Option<At<IgnoredAny>>,
}

/// An answer with a name of its own.
#[derive(Clone, Debug, Deserialize)]
struct Choice {
    value: String,
    #[serde(rename = "label")]
    _label: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    oauth: Option<At<Client>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
}

const FOREIGN: Foreign =
    Foreign { passed: &["dev", "gallery", "version"], unsupported: &["sandbox", "sandboxEnabled"] };

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
];

/// Variables that only a running editor can answer.
const EDITORS_OWN: &[&str] = &[
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileDirnameBasename",
    "fileExtname",
    "fileWorkspaceFolder",
    "relativeFile",
    "relativeFileDirname",
    "lineNumber",
    "columnNumber",
    "selectedText",
    "execPath",
    "extensionInstallFolder",
    "defaultBuildTask",
];

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let root = cx.entry::<Root>(Doc::ROOT).value;
    let mut loaded = Loaded::new();
    for at in root.inputs.and_then(|at| at.value).unwrap_or_default() {
        loaded.inputs.extend(input(cx, at));
    }
    let list = root.servers.map(|at| at.node);
    let inputs = &loaded.inputs;
    loaded.servers = clients::servers(cx, list, &FOREIGN, |cx, draft, entry| {
        server(cx, draft, entry, inputs);
    });
    loaded
}

/// A question to the person. One that a command of the editor answers cannot be asked here.
fn input(cx: &mut Cx<'_>, at: At<InputKeys>) -> Option<(String, Input)> {
    let (node, keys) = (at.node, at.value?);
    let given = |at: Option<At<String>>| at.and_then(|at| at.value);
    let kind = given(keys.r#type).unwrap_or_default();
    let text = match (kind.as_str(), given(keys.id)) {
        ("promptString" | "pickString", Some(id)) => {
            let options = keys.options.and_then(|at| at.value).unwrap_or_default();
            let input = Input {
                description: given(keys.description).unwrap_or_default(),
                password: keys.password.and_then(|at| at.value).unwrap_or_default(),
                default: given(keys.default),
                options: options.into_iter().map(answer).collect(),
            };
            return Some((id, input));
        }
        (_, None) => "an input needs an `id`".to_string(),
        ("command", Some(id)) => format!(
            "the input `{}` runs a command of VS Code; it cannot be asked for here",
            text::clip(&id)
        ),
        (kind, Some(_)) => format!("unsupported type of input `{}`", text::clip(kind)),
    };
    let fix = "use `promptString` or `pickString` with an `id`";
    cx.error(node, "input.unsupported", text, fix);
    None
}

fn answer(option: Either<String, Choice>) -> String {
    match option {
        Either::Scalar(value) | Either::Nested(Choice { value, .. }) => value,
    }
}

fn server(cx: &mut Cx<'_>, draft: &mut Draft, server: Server, inputs: &IndexMap<String, Input>) {
    // As in a shell, a variable that is not set is empty.
    let editor = Editor::new(cx, Some(""));
    let expand = |text: &str| expand::template(text, &|inside| part(&editor, inputs, inside));
    let kind = clients::kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, &expand);
    expander.transport(Reached {
        kind,
        command: server.command,
        args: server.args,
        cwd: server.cwd,
        env: server.env,
        env_file: server.env_file,
        url: server.url,
        headers: server.headers,
    });
    if let Some(At { node, value: Some(client) }) = server.oauth {
        expander.oauth(node, client.id, None, Vec::new());
    }
}

fn part(
    editor: &Editor,
    inputs: &IndexMap<String, Input>,
    inside: &str,
) -> Result<Option<Part>, String> {
    if let Some(part) = editor.part(inside) {
        return Ok(Some(part));
    }
    let (name, argument) = inside.split_once(':').unwrap_or((inside, ""));
    match name {
        "cwd" => Ok(editor.part("workspaceFolder")),
        "input" if inputs.contains_key(argument) => Ok(Some(Part::Input(argument.to_string()))),
        "input" => Err(format!("there is no input `{}` to ask for", text::clip(argument))),
        "workspaceFolder" | "workspaceFolderBasename" if argument == editor.basename() => {
            Ok(editor.part(name))
        }
        "workspaceFolder" | "workspaceFolderBasename" => {
            Err(format!("`${{{}}}` names another folder of the workspace", text::clip(inside)))
        }
        "command" | "config" => Err(editors_own(inside)),
        name if EDITORS_OWN.contains(&name) => Err(editors_own(inside)),
        _ => Ok(None),
    }
}

fn editors_own(inside: &str) -> String {
    format!("only VS Code itself knows `${{{}}}`", text::clip(inside))
}

#[cfg(test)]
#[path = "vscode_tests.rs"]
mod tests;
