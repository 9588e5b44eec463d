//! The plan as a function: servers of real configuration files, lists as servers send them, what comes out.

mod any;
mod collisions;
mod definitions;
mod filters;
mod items;
mod names;
mod native;
mod presence;

use std::path::Path;
use std::sync::Arc;

use toolcrib_config::{Dialect, Memory, Named, Problem, ServerSpec, Workspace, compile};
use toolcrib_wire::view::{self, Item};
use toolcrib_wire::{Limits, Raw};

use super::*;

/// Servers, what each of them lists, and how it is.
#[derive(Debug, Default)]
struct Crib {
    servers: Vec<Entry>,
    native: Vec<NativeToolset>,
    reserved_tools: Vec<String>,
    reserved_toolsets: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    spec: Arc<ServerSpec>,
    scope: Scope,
    presence: Presence,
    lists: Option<Lists>,
}

#[derive(Debug, Clone, Default)]
struct Lists {
    tools: Vec<view::Tool>,
    prompts: Vec<view::Prompt>,
    resources: Vec<view::Resource>,
    templates: Vec<view::ResourceTemplate>,
}

impl Crib {
    /// The servers of one file, each without a list yet.
    fn of(dialect: Dialect, text: &str) -> Self {
        Crib::default().file("file.yaml", dialect, text)
    }

    fn native(servers: &str) -> Self {
        Crib::of(Dialect::Native, &format!("version: 1\nservers:\n{servers}"))
    }

    fn dominds(servers: &str) -> Self {
        Crib::of(Dialect::Dominds, &format!("version: 1\nservers:\n{servers}"))
    }

    /// The servers of a further file.
    fn file(mut self, path: &str, dialect: Dialect, text: &str) -> Self {
        for spec in specs(path, dialect, text) {
            let presence = if spec.policy.enabled { Presence::Up } else { Presence::Disabled };
            let entry = Entry { spec: Arc::new(spec), scope: Scope::Global, presence, lists: None };
            self.servers.push(entry);
        }
        self
    }

    fn entry(&mut self, id: &str) -> &mut Entry {
        self.servers.iter_mut().rfind(|entry| entry.spec.id == id).unwrap()
    }

    fn lists(&mut self, id: &str) -> &mut Lists {
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
        let servers = self.servers.iter().map(|entry| Upstream {
            spec: entry.spec.clone(),
            scope: entry.scope.clone(),
            presence: entry.presence,
            offer: entry.lists.as_ref().map(|lists| Offer {
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
        plan(&Input {
            version: 7,
            native: &self.native,
            reserved_tools: &self.reserved_tools,
            reserved_toolsets: &self.reserved_toolsets,
            servers: servers.collect(),
        })
    }
}

fn specs(path: &str, dialect: Dialect, text: &str) -> Vec<ServerSpec> {
    let world = Memory::default().with_file(Path::new("/ws").join(path), text);
    let named = Some(Named { path: path.into(), dialect: Some(dialect) });
    let config = compile(&Workspace { root: "/ws".into(), home: None, named }, &world);
    assert!(!config.has_errors(), "{:?}", config.problems);
    config.servers
}

fn read<T: Item>(text: &str) -> T {
    T::read(raw(text), &mut Vec::new()).unwrap()
}

fn raw(text: &str) -> Raw {
    Raw::parse(text, &Limits::default()).unwrap()
}

fn tool(name: &str) -> view::Tool {
    let name = Raw::string(name);
    let name = name.text();
    read(&format!(
        r#"{{"name":{name},"description":"Does it","inputSchema":{{"type":"object"}},"x-own":1.0}}"#
    ))
}

/// The names of the listed tools of a view.
fn names(view: View<'_>) -> Vec<&str> {
    view.tools().map(|tool| tool.name()).collect()
}

/// The listed tools of what everybody sees.
fn listed(crib: &Crib) -> Vec<String> {
    names(crib.plan().0.view(None)).into_iter().map(str::to_owned).collect()
}

/// `severity code server tool` of each problem.
fn told(problems: &[Problem]) -> Vec<String> {
    let line = |p: &Problem| {
        let server = p.server.as_deref().unwrap_or("-");
        let tool = p.tool.as_deref().unwrap_or("-");
        format!("{} {} {server} {tool}", p.severity, p.code)
    };
    problems.iter().map(line).collect()
}

const NONE: [String; 0] = [];
