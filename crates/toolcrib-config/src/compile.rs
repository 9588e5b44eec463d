//! From files to one configuration: what is read, in which order, and who shadows whom.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cx::{Cx, normal};
use crate::dialect::{self, Dialect, Draft, Include, Loaded};
use crate::doc::{self, At, Doc, Flaw, NodeId, Parsed};
use crate::lookup::{File, Lookup, Recorder};
use crate::model::host::{GatewayKeys, HostKeys};
use crate::model::policy::{OnConfigError, Scope};
use crate::model::security::Section;
use crate::model::setting::Layer;
use crate::model::{Config, Origin, Outcome, Source};
use crate::problem::Problem;
use crate::profile::Profiles;

/// Where a configuration is looked for.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub root: PathBuf,
    /// The folder of the person's own `toolcrib.yaml`.
    pub home: Option<PathBuf>,
    /// One file instead of looking for them.
    pub named: Option<Named>,
}

/// A file that was named, with its dialect where its place does not tell.
#[derive(Clone, Debug)]
pub struct Named {
    pub path: PathBuf,
    pub dialect: Option<Dialect>,
}

/// Files that include each other further than this are refused.
const MAX_INCLUDES: usize = 8;

/// Reads everything that is configured. It never fails as a whole: what is wrong is in the result.
pub fn compile(workspace: &Workspace, lookup: &dyn Lookup) -> Config {
    let recorder = Recorder::new(lookup);
    let mut compiler = Compiler {
        root: &workspace.root,
        lookup: &recorder,
        profiles: Profiles::built_in(),
        own_profiles: None,
        config: Config::default(),
        pending: Vec::new(),
    };
    match &workspace.named {
        Some(named) => compiler.named(named),
        None => compiler.discovered(workspace.home.as_deref()),
    }
    compiler.holodeck_home();
    compiler.settle_security();
    compiler.assemble_all();
    let mut config = compiler.config;
    config.depends = recorder.into_asked().into_iter().collect();
    config
}

mod discover;
mod gather;
mod security;
mod team;
pub(crate) use gather::SHADOWED;

struct Compiler<'a> {
    root: &'a Path,
    lookup: &'a dyn Lookup,
    profiles: Profiles,
    /// Those of the person's own files, once others are read that were only found. What is found changes nothing
    /// of what is their own.
    own_profiles: Option<Profiles>,
    config: Config,
    /// Files that were read and whose servers are still drafts: a profile may come after its use.
    pending: Vec<Pending>,
}

struct Pending {
    source: usize,
    doc: Arc<Doc>,
    base: PathBuf,
    drafts: Vec<Draft>,
}

impl Compiler<'_> {
    fn label(&self, path: &Path) -> Arc<str> {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string().into()
    }

    fn base_folder(&self, path: &Path, dialect: Dialect) -> PathBuf {
        let home = self.lookup.env("HOME").map(PathBuf::from);
        base_folder(path, dialect, self.root, home.as_deref())
    }

    /// Reads one file and what it includes; false where it is not there.
    fn file(&mut self, path: &Path, dialect: Dialect, scope: Option<Scope>, depth: usize) -> bool {
        let base = self.base_folder(path, dialect);
        self.file_from(base, path, dialect, scope, depth)
    }

    /// The same for a file whose relative paths start from `base`.
    fn file_from(
        &mut self,
        base: PathBuf,
        path: &Path,
        dialect: Dialect,
        scope: Option<Scope>,
        depth: usize,
    ) -> bool {
        let label = self.label(path);
        let parsed = match self.lookup.file(path) {
            File::Content(bytes) => doc::parse(dialect.syntax(path), &bytes),
            File::Missing => return false,
            File::Unreadable(why) => {
                let text = format!("`{label}` cannot be read: {why}");
                self.config.problems.push(
                    Problem::error("file.unreadable", text).of(&label).fix("check its permissions"),
                );
                self.add_source(
                    path,
                    &label,
                    dialect,
                    Outcome::Rejected,
                    Parsed { doc: None, flaws: Vec::new(), lines: doc::Lines::default() },
                );
                self.unreadable(path, &label, dialect);
                return true;
            }
        };
        let (fatal, damaged) = self.tell_flaws(&label, dialect, &parsed);
        let source = self.add_source(path, &label, dialect, Outcome::Loaded, parsed);
        let Some(doc) =
            self.config.sources.get(source).and_then(|s| s.doc.clone()).filter(|_| !fatal)
        else {
            self.refuse(source, dialect);
            self.unreadable(path, &label, dialect);
            return true;
        };
        let mut problems = std::mem::take(&mut self.config.problems);
        let mut cx =
            Cx::new(label.clone(), dialect, &doc, base.clone(), self.lookup, &mut problems);
        let mut loaded = dialect::read(&mut cx);
        self.profiles.add(&mut cx, std::mem::take(&mut loaded.profiles));
        self.config.problems = problems;
        if loaded.outcome == Outcome::Rejected {
            self.close_unreadable(&label, dialect);
        }
        for (section, node) in &loaded.invalid {
            self.config.security.mark([*section], &label, doc.place(*node));
        }
        self.take(source, doc, base, loaded, scope, &damaged, depth);
        if dialect == Dialect::Dominds {
            self.team(path);
        }
        true
    }

    fn add_source(
        &mut self,
        path: &Path,
        label: &Arc<str>,
        dialect: Dialect,
        outcome: Outcome,
        parsed: Parsed,
    ) -> usize {
        let doc = parsed.doc.map(Arc::new);
        let (label, path) = (label.clone(), path.to_path_buf());
        self.config.sources.push(Source {
            label,
            path,
            dialect,
            outcome,
            found: self.own_profiles.is_some(),
            lines: parsed.lines,
            doc,
        });
        self.config.sources.len() - 1
    }

    /// Tells what is wrong with a file's text: whether it ends the whole file, and which servers it damages.
    fn tell_flaws(
        &mut self,
        label: &str,
        dialect: Dialect,
        parsed: &Parsed,
    ) -> (bool, BTreeSet<String>) {
        let (mut fatal, mut damaged) = (parsed.doc.is_none(), BTreeSet::new());
        for flaw in &parsed.flaws {
            if is_elsewhere(flaw, dialect) {
                continue;
            }
            let server = server_of(flaw, dialect);
            let place = parsed.lines.place(flaw.offset);
            let mut problem = Problem::new(flaw.severity, flaw.code, flaw.text.clone())
                .at(label, place, &flaw.offset.to_string())
                .fix(flaw.fix.clone());
            problem.server.clone_from(&server);
            match server {
                _ if !problem.is_error() => {}
                Some(server) => drop(damaged.insert(server)),
                None => fatal = true,
            }
            self.config.problems.push(problem);
        }
        (fatal, damaged)
    }

    /// Nothing of a file counts; its dialect says whether what it gave before goes on.
    fn refuse(&mut self, source: usize, dialect: Dialect) {
        let policy =
            self.profiles.get(dialect.profile()).map(|p| p.policy.availability.on_config_error);
        let outcome = match policy {
            Some(OnConfigError::KeepLastGood) | None => Outcome::Rejected,
            Some(OnConfigError::FailLoad | OnConfigError::SkipServer) => Outcome::Failed,
        };
        if let Some(source) = self.config.sources.get_mut(source) {
            source.outcome = outcome;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one file's reading, taken over once")]
    fn take(
        &mut self,
        source: usize,
        doc: Arc<Doc>,
        base: PathBuf,
        mut loaded: Loaded,
        scope: Option<Scope>,
        damaged: &BTreeSet<String>,
        depth: usize,
    ) {
        if let Some(entry) = self.config.sources.get_mut(source) {
            entry.outcome = loaded.outcome;
        }
        for draft in &mut loaded.servers {
            let name = draft.source.as_ref().map(|source| format!("{source}#{}", draft.id));
            draft.sound &= !damaged.contains(name.as_ref().unwrap_or(&draft.id));
            if let Some(scope) = scope {
                draft.policy.scope = Some(At::new(draft.node, scope));
            }
        }
        self.config.inputs.extend(loaded.inputs);
        self.pending.push(Pending {
            source,
            doc: doc.clone(),
            base: base.clone(),
            drafts: loaded.servers,
        });
        for include in loaded.includes {
            self.include(source, &doc, &base, &include, depth);
        }
        // After its includes: what a file says of the host wins over what they say.
        self.host(source, &doc, &base, loaded.host, loaded.gateway);
    }

    fn host(
        &mut self,
        source: usize,
        doc: &Doc,
        base: &Path,
        host: Option<At<HostKeys>>,
        gateway: Option<At<GatewayKeys>>,
    ) {
        let Config { host: slot, gateway: gateway_slot, origins, sources, .. } = &mut self.config;
        let label = sources.get(source).map(|s| s.label.clone()).unwrap_or_default();
        let mut record = |path: &str, node: Option<NodeId>| {
            let node = node.unwrap_or(Doc::ROOT);
            let (place, key) = (doc.place(node), doc.path(node));
            origins.insert(path.to_string(), Origin::File { source: label.clone(), place, key });
        };
        let mut layer = Layer::new(&mut record);
        layer.field("host", slot, host);
        layer.field("gateway", gateway_slot, gateway);
        // What other files said is whole already.
        let paths = slot.secrets.0.values_mut().filter_map(|store| store.path.as_mut());
        paths.for_each(|path| *path = normal(&base.join(&*path)).display().to_string());
    }

    fn include(
        &mut self,
        source: usize,
        doc: &Arc<Doc>,
        base: &Path,
        include: &Include,
        depth: usize,
    ) {
        let path = normal(&base.join(&include.path));
        let label = self.config.sources.get(source).map(|s| s.label.clone()).unwrap_or_default();
        let report = |code: &str, text: String, fix: &str| {
            Problem::error(code, text)
                .at(&label, doc.place(include.node), &doc.path(include.node))
                .fix(fix)
        };
        let (shown, place) = (crate::text::clip(&include.path), doc.place(include.node));
        if depth >= MAX_INCLUDES || self.config.sources.iter().any(|s| s.path == path) {
            let text = format!("`{shown}` is included already, or too deep");
            self.config.problems.push(report("include.again", text, "include each file once"));
            if depth >= MAX_INCLUDES {
                self.config.security.mark(Section::UNREADABLE, &label, place);
            }
            return;
        }
        let Some(dialect) = include.dialect.or_else(|| Dialect::of_path(&path)) else {
            let text = format!("the name `{shown}` does not tell the file's format");
            self.config.problems.push(report(
                "dialect.unknown",
                text,
                "add `dialect:` to the include",
            ));
            self.config.security.mark(Section::UNREADABLE, &label, place);
            return;
        };
        let is_there = self.file(&path, dialect, include.scope, depth + 1);
        if let Some(profile) = &include.profile {
            self.use_profile(&path, dialect, profile);
        }
        if !is_there {
            let text = format!("the included file `{shown}` is not there");
            self.config.problems.push(report(
                "include.missing",
                text,
                "create it or remove the include",
            ));
            if dialect == Dialect::Native {
                self.config.security.mark(Section::UNREADABLE, &label, place);
            }
        }
    }

    /// The servers of a file have this profile, unless their entries name another.
    fn use_profile(&mut self, path: &Path, dialect: Dialect, profile: &str) {
        let source = self.config.sources.iter().position(|source| source.path == path);
        let of_file = self.pending.iter_mut().filter(|pending| Some(pending.source) == source);
        for draft in of_file.flat_map(|pending| &mut pending.drafts) {
            if draft.profile == dialect.profile() {
                profile.clone_into(&mut draft.profile);
            }
        }
    }
}

/// Paths start from the folder of their file; where that is a dot folder of a project, from the
/// project. In a file that another client keeps for the person they start from the root.
fn base_folder(path: &Path, dialect: Dialect, root: &Path, home: Option<&Path>) -> PathBuf {
    let folder = path.parent().unwrap_or(root);
    let project = folder
        .file_name()
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .and_then(|_| folder.parent());
    match dialect {
        Dialect::Dominds | Dialect::Dispatch => project.unwrap_or(folder),
        Dialect::Claude if path.ends_with(".mcp.json") => folder,
        Dialect::Claude | Dialect::VsCode | Dialect::Cursor | Dialect::Codex | Dialect::Gemini => {
            project.filter(|project| Some(*project) != home).unwrap_or(root)
        }
        _ => folder,
    }
    .to_path_buf()
}

/// Whether a key that stands twice is in a part of another client's settings that is not its list
/// of servers: to that client the last one counts, and most of the file is none of our business.
fn is_elsewhere(flaw: &Flaw, dialect: Dialect) -> bool {
    let settings = matches!(dialect, Dialect::Claude | Dialect::Cursor | Dialect::Gemini);
    settings && flaw.path.first().is_some_and(|key| key != "mcpServers")
}

/// The server that a flaw in a map belongs to; none where it damages the file or its list of servers.
fn server_of(flaw: &Flaw, dialect: Dialect) -> Option<String> {
    let listed = match dialect {
        Dialect::Holodeck | Dialect::Minion | Dialect::Docker => return None,
        _ => &flaw.path,
    };
    match listed.as_slice() {
        [list, server, ..]
            if matches!(list.as_str(), "servers" | "mcpServers" | "mcp" | "mcp_servers") =>
        {
            Some(server.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
