//! Tests of planning with servers from real configuration files and lists as servers send them.

mod collisions;
mod definitions;
mod filters;
mod items;
mod names;
mod native;
mod presence;
mod properties;

use std::path::Path;
use std::sync::Arc;

use toolcrib_config::{ConfigFile, Dialect, MemoryLookup, Problem, ServerSpec, Workspace, compile};
use toolcrib_wire::view::{self, ListItem};
use toolcrib_wire::{MessageLimits, RawJson};

use super::*;

/// Servers with their lists and presence.
#[derive(Debug, Default)]
struct TestRegistry {
    servers: Vec<TestServer>,
    native: Vec<NativeToolset>,
    reserved_tools: Vec<String>,
    reserved_toolsets: Vec<String>,
}

#[derive(Debug)]
struct TestServer {
    spec: Arc<ServerSpec>,
    scope: Scope,
    presence: Presence,
    lists: Option<TestLists>,
}

#[derive(Debug, Clone, Default)]
struct TestLists {
    tools: Vec<view::ToolView>,
    prompts: Vec<view::PromptView>,
    resources: Vec<view::ResourceView>,
    templates: Vec<view::ResourceTemplateView>,
}

impl TestRegistry {
    /// Creates a registry with the servers of one file, without lists.
    fn from_file(dialect: Dialect, text: &str) -> Self {
        TestRegistry::default().file("file.yaml", dialect, text)
    }

    fn native(servers: &str) -> Self {
        TestRegistry::from_file(Dialect::Native, &format!("version: 1\nservers:\n{servers}"))
    }

    fn dominds(servers: &str) -> Self {
        TestRegistry::from_file(Dialect::Dominds, &format!("version: 1\nservers:\n{servers}"))
    }

    /// Adds the servers of another file.
    fn file(mut self, path: &str, dialect: Dialect, text: &str) -> Self {
        for spec in specs(path, dialect, text) {
            let presence = if spec.policy.enabled { Presence::Up } else { Presence::Disabled };
            let entry =
                TestServer { spec: Arc::new(spec), scope: Scope::Global, presence, lists: None };
            self.servers.push(entry);
        }
        self
    }

    fn entry(&mut self, id: &str) -> &mut TestServer {
        self.servers.iter_mut().rfind(|entry| entry.spec.id == id).unwrap()
    }

    fn lists(&mut self, id: &str) -> &mut TestLists {
        self.entry(id).lists.get_or_insert_default()
    }

    fn tools(mut self, id: &str, names: &[&str]) -> Self {
        self.lists(id).tools = names.iter().map(|name| tool(name)).collect();
        self
    }

    fn definitions(mut self, id: &str, texts: &[&str]) -> Self {
        self.lists(id).tools = texts.iter().map(|text| read(text)).collect();
        self
    }

    fn presence(mut self, id: &str, presence: Presence) -> Self {
        self.entry(id).presence = presence;
        self
    }

    fn cwd(mut self, id: &str, path: &str) -> Self {
        self.entry(id).scope = Scope::Cwd(path.into());
        self
    }

    fn plan(&self) -> (Snapshot, Vec<Problem>) {
        let servers = self.servers.iter().map(|entry| ServerInput {
            spec: entry.spec.clone(),
            scope: entry.scope.clone(),
            presence: entry.presence,
            lists: entry.lists.as_ref().map(|lists| ServerLists {
                unaccepted: None,
                invalid: &[],
                unpinned: None,
                tools: &lists.tools,
                prompts: &lists.prompts,
                resources: &lists.resources,
                templates: &lists.templates,
                from_cache: false,
            }),
        });
        plan(&PlanInput {
            version: 7,
            native: &self.native,
            reserved_tools: &self.reserved_tools,
            reserved_toolsets: &self.reserved_toolsets,
            servers: servers.collect(),
        })
    }
}

fn specs(path: &str, dialect: Dialect, text: &str) -> Vec<ServerSpec> {
    let files = MemoryLookup::default().with_file(Path::new("/ws").join(path), text);
    let config_file = Some(ConfigFile { path: path.into(), dialect: Some(dialect) });
    let config = compile(&Workspace { root: "/ws".into(), home: None, config_file }, &files);
    assert!(!config.has_errors(), "{:?}", config.problems);
    config.servers
}

fn read<T: ListItem>(text: &str) -> T {
    T::read(raw(text), &mut Vec::new()).unwrap()
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text, &MessageLimits::default()).unwrap()
}

fn tool(name: &str) -> view::ToolView {
    let name = RawJson::string(name);
    let name = name.text();
    read(&format!(
        r#"{{"name":{name},"description":"Does it","inputSchema":{{"type":"object"}},"x-own":1.0}}"#
    ))
}

/// Names of the listed tools of a view.
fn names(view: SnapshotView<'_>) -> Vec<&str> {
    view.tools().map(|tool| tool.name()).collect()
}

/// Names of the globally listed tools.
fn listed(registry: &TestRegistry) -> Vec<String> {
    names(registry.plan().0.view(None)).into_iter().map(str::to_owned).collect()
}

/// Formats each problem as `severity code server tool`.
fn problem_lines(problems: &[Problem]) -> Vec<String> {
    let line = |p: &Problem| {
        let server = p.server.as_deref().unwrap_or("-");
        let tool = p.tool.as_deref().unwrap_or("-");
        format!("{} {} {server} {tool}", p.severity, p.code)
    };
    problems.iter().map(line).collect()
}

const NONE: [String; 0] = [];
