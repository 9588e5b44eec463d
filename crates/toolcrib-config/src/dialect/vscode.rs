//! Reads VS Code's `mcp.json`: of a workspace in `.vscode/`, or of the user.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::client_servers::{self, ExtraClientKeys};
use super::editor_variables::EditorVariables;
use super::expand::{self, Expander, Headers, TransportTexts, Variables};
use super::{DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, Either};
use crate::model::host::InputSpec;
use crate::model::transport::TransportKind;
use crate::text;
use crate::value::TemplatePart;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VsCodeFile {
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
    options: Option<At<Vec<Either<String, PickOption>>>>,
    /// Used by inputs that run a VS Code command.
    command: Option<At<IgnoredAny>>,
    args: Option<At<IgnoredAny>>,
}

/// An option with a label.
#[derive(Clone, Debug, Deserialize)]
struct PickOption {
    value: String,
    #[serde(rename = "label")]
    _label: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VsCodeServer {
    r#type: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<Variables>>,
    #[serde(rename = "envFile")]
    env_file: Option<At<String>>,
    url: Option<At<String>>,
    headers: Option<At<Headers>>,
    oauth: Option<At<OAuthClient>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OAuthClient {
    #[serde(rename = "clientId")]
    id: Option<At<String>>,
}

const CLIENT_KEYS: ExtraClientKeys = ExtraClientKeys {
    ignored: &["dev", "gallery", "version"],
    unsupported: &["sandbox", "sandboxEnabled"],
};

const TYPES: &[(&str, TransportKind)] = &[
    ("stdio", TransportKind::Stdio),
    ("http", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
];

/// Variables that only a running editor can resolve.
const EDITOR_ONLY_VARIABLES: &[&str] = &[
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

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let root = cx.read_entry::<VsCodeFile>(Doc::ROOT).value;
    let mut file = DialectFile::new();
    for at in root.inputs.and_then(|at| at.value).unwrap_or_default() {
        file.inputs.extend(read_input(cx, at));
    }
    let list = root.servers.map(|at| at.node);
    let inputs = &file.inputs;
    file.servers = client_servers::read_servers(cx, list, &CLIENT_KEYS, |cx, draft, entry| {
        lower_server(cx, draft, entry, inputs);
    });
    file
}

/// Reads an input. Inputs that run a VS Code command are not supported.
fn read_input(cx: &mut CompileContext<'_>, at: At<InputKeys>) -> Option<(String, InputSpec)> {
    let (node, keys) = (at.node, at.value?);
    let text_value = |at: Option<At<String>>| at.and_then(|at| at.value);
    let kind = text_value(keys.r#type).unwrap_or_default();
    let text = match (kind.as_str(), text_value(keys.id)) {
        ("promptString" | "pickString", Some(id)) => {
            let options = keys.options.and_then(|at| at.value).unwrap_or_default();
            let input = InputSpec {
                description: text_value(keys.description).unwrap_or_default(),
                password: keys.password.and_then(|at| at.value).unwrap_or_default(),
                default: text_value(keys.default),
                options: options.into_iter().map(option_value).collect(),
            };
            return Some((id, input));
        }
        (_, None) => "an input needs an `id`".to_string(),
        ("command", Some(id)) => format!(
            "the input `{}` runs a VS Code command, which is not available here",
            text::clip(&id)
        ),
        (kind, Some(_)) => format!("unsupported input type `{}`", text::clip(kind)),
    };
    let fix = "use `promptString` or `pickString` with an `id`";
    cx.error(node, "input.unsupported", text, fix);
    None
}

fn option_value(option: Either<String, PickOption>) -> String {
    match option {
        Either::Scalar(value) | Either::Nested(PickOption { value, .. }) => value,
    }
}

fn lower_server(
    cx: &mut CompileContext<'_>,
    draft: &mut ServerDraft,
    server: VsCodeServer,
    inputs: &IndexMap<String, InputSpec>,
) {
    // An unset variable is empty, as in a shell.
    let editor = EditorVariables::new(cx, Some(""));
    let expand = |text: &str| {
        expand::expand_template(text, &|inside| resolve_variable(&editor, inputs, inside))
    };
    let kind = client_servers::transport_kind(cx, draft, server.r#type, TYPES);
    let mut expander = Expander::new(cx, draft, &expand);
    expander.set_transport(TransportTexts {
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
        expander.set_oauth(node, client.id, None, Vec::new());
    }
}

fn resolve_variable(
    editor: &EditorVariables,
    inputs: &IndexMap<String, InputSpec>,
    inside: &str,
) -> Result<Option<TemplatePart>, String> {
    if let Some(part) = editor.resolve(inside) {
        return Ok(Some(part));
    }
    let (name, argument) = inside.split_once(':').unwrap_or((inside, ""));
    match name {
        "cwd" => Ok(editor.resolve("workspaceFolder")),
        "input" if inputs.contains_key(argument) => {
            Ok(Some(TemplatePart::Input(argument.to_string())))
        }
        "input" => Err(format!("there is no input named `{}`", text::clip(argument))),
        "workspaceFolder" | "workspaceFolderBasename" if argument == editor.basename() => {
            Ok(editor.resolve(name))
        }
        "workspaceFolder" | "workspaceFolderBasename" => {
            Err(format!("`${{{}}}` names another folder of the workspace", text::clip(inside)))
        }
        "command" | "config" => Err(editor_only_error(inside)),
        name if EDITOR_ONLY_VARIABLES.contains(&name) => Err(editor_only_error(inside)),
        _ => Ok(None),
    }
}

fn editor_only_error(inside: &str) -> String {
    format!("`${{{}}}` is only available in VS Code", text::clip(inside))
}

#[cfg(test)]
#[path = "vscode_tests.rs"]
mod tests;
