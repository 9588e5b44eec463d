//! Compilation of all files into one configuration: load order, includes and shadowing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile_context::{CompileContext, normalize_path};
use crate::dialect::{self, Dialect, DialectFile, Include, ServerDraft};
use crate::doc::{self, At, Defect, Doc, NodeId, ParsedDoc};
use crate::lookup::{FileLookup, Lookup, RecordingLookup};
use crate::model::host::{GatewayKeys, HostKeys};
use crate::model::policy::{OnConfigError, ServerScope};
use crate::model::security::SecuritySection;
use crate::model::setting::Layer;
use crate::model::{Config, ConfigSource, SourceOutcome, ValueOrigin};
use crate::problem::Problem;
use crate::profile::Profiles;

/// The files to compile.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The workspace folder.
    pub root: PathBuf,
    /// The folder of the user's own `toolcrib.yaml`.
    pub home: Option<PathBuf>,
    /// A single file to read instead of discovering files.
    pub config_file: Option<ConfigFile>,
}

/// A file that the user named, with its dialect if the path does not imply it.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path of the file, relative to the root.
    pub path: PathBuf,
    /// The dialect, or `None` if the path implies it.
    pub dialect: Option<Dialect>,
}

/// Maximum include depth.
const MAX_INCLUDES: usize = 8;

/// Compiles the configuration. It never fails as a whole: errors are problems in the result.
pub fn compile(workspace: &Workspace, lookup: &dyn Lookup) -> Config {
    let recorder = RecordingLookup::new(lookup);
    let mut compiler = Compiler {
        root: &workspace.root,
        lookup: &recorder,
        profiles: Profiles::built_in(),
        user_profiles: None,
        config: Config::default(),
        pending: Vec::new(),
    };
    match &workspace.config_file {
        Some(named) => compiler.read_config_file(named),
        None => compiler.read_discovered_files(workspace.home.as_deref()),
    }
    compiler.read_holodeck_home();
    compiler.apply_security();
    compiler.assemble_all();
    let mut config = compiler.config;
    config.depends = recorder.into_requested_files().into_iter().collect();
    config
}

mod discovery;
mod dominds_team;
mod security;
mod servers;
pub(crate) use servers::SHADOWED;

struct Compiler<'a> {
    root: &'a Path,
    lookup: &'a dyn Lookup,
    profiles: Profiles,
    /// The profiles of the user's own files, saved before discovered files are read. Discovered files must not change
    /// the user's own servers.
    user_profiles: Option<Profiles>,
    config: Config,
    /// Files whose servers are still drafts, because a profile may be defined after its use.
    pending: Vec<Pending>,
}

struct Pending {
    source: usize,
    doc: Arc<Doc>,
    base: PathBuf,
    drafts: Vec<ServerDraft>,
}

impl Compiler<'_> {
    fn label(&self, path: &Path) -> Arc<str> {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string().into()
    }

    fn base_folder(&self, path: &Path, dialect: Dialect) -> PathBuf {
        let home = self.lookup.env("HOME").map(PathBuf::from);
        base_folder(path, dialect, self.root, home.as_deref())
    }

    /// Reads a file and its includes. Returns false if the file does not exist.
    fn read_file(
        &mut self,
        path: &Path,
        dialect: Dialect,
        scope: Option<ServerScope>,
        depth: usize,
    ) -> bool {
        let base = self.base_folder(path, dialect);
        self.read_file_from(base, path, dialect, scope, depth)
    }

    /// Like [`Self::read_file`], with relative paths starting at `base`.
    fn read_file_from(
        &mut self,
        base: PathBuf,
        path: &Path,
        dialect: Dialect,
        scope: Option<ServerScope>,
        depth: usize,
    ) -> bool {
        let label = self.label(path);
        let parsed = match self.lookup.file(path) {
            FileLookup::Content(bytes) => doc::parse(dialect.syntax(path), &bytes),
            FileLookup::Missing => return false,
            FileLookup::Unreadable(why) => {
                let text = format!("`{label}` cannot be read: {why}");
                self.config.problems.push(
                    Problem::error("file.unreadable", text)
                        .in_source(&label)
                        .fix("check its permissions"),
                );
                self.add_source(
                    path,
                    &label,
                    dialect,
                    SourceOutcome::Rejected,
                    ParsedDoc { doc: None, defects: Vec::new(), lines: doc::LineIndex::default() },
                );
                self.handle_unreadable(path, &label, dialect);
                return true;
            }
        };
        let (fatal, damaged) = self.report_defects(&label, dialect, &parsed);
        let source = self.add_source(path, &label, dialect, SourceOutcome::Loaded, parsed);
        let Some(doc) =
            self.config.sources.get(source).and_then(|s| s.doc.clone()).filter(|_| !fatal)
        else {
            self.reject_source(source, dialect);
            self.handle_unreadable(path, &label, dialect);
            return true;
        };
        let mut problems = std::mem::take(&mut self.config.problems);
        let mut cx = CompileContext::new(
            label.clone(),
            dialect,
            &doc,
            base.clone(),
            self.lookup,
            &mut problems,
        );
        let mut loaded = dialect::read_file(&mut cx);
        self.profiles.add(&mut cx, std::mem::take(&mut loaded.profiles));
        self.config.problems = problems;
        if loaded.outcome == SourceOutcome::Rejected {
            self.close_unreadable(&label, dialect);
        }
        for (section, node) in &loaded.invalid_sections {
            self.config.security.mark_invalid([*section], &label, doc.location(*node));
        }
        self.add_loaded(source, doc, base, loaded, scope, &damaged, depth);
        if dialect == Dialect::Dominds {
            self.read_dominds_team(path);
        }
        true
    }

    fn add_source(
        &mut self,
        path: &Path,
        label: &Arc<str>,
        dialect: Dialect,
        outcome: SourceOutcome,
        parsed: ParsedDoc,
    ) -> usize {
        let doc = parsed.doc.map(Arc::new);
        let (label, path) = (label.clone(), path.to_path_buf());
        self.config.sources.push(ConfigSource {
            label,
            path,
            dialect,
            outcome,
            is_discovered: self.user_profiles.is_some(),
            line_index: parsed.lines,
            doc,
        });
        self.config.sources.len() - 1
    }

    /// Reports the defects of a file's text. Returns whether they reject the whole file, and the servers that they
    /// damage.
    fn report_defects(
        &mut self,
        label: &str,
        dialect: Dialect,
        parsed: &ParsedDoc,
    ) -> (bool, BTreeSet<String>) {
        let (mut fatal, mut damaged) = (parsed.doc.is_none(), BTreeSet::new());
        for defect in &parsed.defects {
            if is_outside_server_list(defect, dialect) {
                continue;
            }
            let server = damaged_server(defect, dialect);
            let place = parsed.lines.location(defect.offset);
            let mut problem = Problem::new(defect.severity, defect.code, defect.text.clone())
                .at(label, place, &defect.offset.to_string())
                .fix(defect.fix.clone());
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

    /// Marks a file as rejected or failed, depending on its dialect.
    fn reject_source(&mut self, source: usize, dialect: Dialect) {
        let policy = self
            .profiles
            .get(dialect.profile_name())
            .map(|p| p.policy.availability.on_config_error);
        let outcome = match policy {
            Some(OnConfigError::KeepLastGood) | None => SourceOutcome::Rejected,
            Some(OnConfigError::FailLoad | OnConfigError::SkipServer) => SourceOutcome::Failed,
        };
        if let Some(source) = self.config.sources.get_mut(source) {
            source.outcome = outcome;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the result of reading one file")]
    fn add_loaded(
        &mut self,
        source: usize,
        doc: Arc<Doc>,
        base: PathBuf,
        mut loaded: DialectFile,
        scope: Option<ServerScope>,
        damaged: &BTreeSet<String>,
        depth: usize,
    ) {
        if let Some(entry) = self.config.sources.get_mut(source) {
            entry.outcome = loaded.outcome;
        }
        for draft in &mut loaded.servers {
            let name = draft.source.as_ref().map(|source| format!("{source}#{}", draft.id));
            draft.is_valid &= !damaged.contains(name.as_ref().unwrap_or(&draft.id));
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
            self.read_include(source, &doc, &base, &include, depth);
        }
        // Settings of the file override those of its includes, so they are applied last.
        self.apply_host_keys(source, &doc, &base, loaded.host, loaded.gateway);
    }

    fn apply_host_keys(
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
            let (location, key) = (doc.location(node), doc.path(node));
            origins.insert(
                path.to_string(),
                ValueOrigin::File { source: label.clone(), location, key },
            );
        };
        let mut layer = Layer::new(&mut record);
        layer.field("host", slot, host);
        layer.field("gateway", gateway_slot, gateway);
        // Paths from other files are already absolute.
        let paths = slot.secrets.0.values_mut().filter_map(|store| store.path.as_mut());
        paths.for_each(|path| *path = normalize_path(&base.join(&*path)).display().to_string());
    }

    fn read_include(
        &mut self,
        source: usize,
        doc: &Arc<Doc>,
        base: &Path,
        include: &Include,
        depth: usize,
    ) {
        let path = normalize_path(&base.join(&include.path));
        let label = self.config.sources.get(source).map(|s| s.label.clone()).unwrap_or_default();
        let report = |code: &str, text: String, fix: &str| {
            Problem::error(code, text)
                .at(&label, doc.location(include.node), &doc.path(include.node))
                .fix(fix)
        };
        let (shown, place) = (crate::text::clip(&include.path), doc.location(include.node));
        if depth >= MAX_INCLUDES || self.config.sources.iter().any(|s| s.path == path) {
            let text = format!("`{shown}` is included already, or too deep");
            self.config.problems.push(report("include.again", text, "include each file once"));
            if depth >= MAX_INCLUDES {
                self.config.security.mark_invalid(SecuritySection::UNREADABLE, &label, place);
            }
            return;
        }
        let Some(dialect) = include.dialect.or_else(|| Dialect::from_path(&path)) else {
            let text = format!("the format of `{shown}` is not known from its name");
            self.config.problems.push(report(
                "dialect.unknown",
                text,
                "add `dialect:` to the include",
            ));
            self.config.security.mark_invalid(SecuritySection::UNREADABLE, &label, place);
            return;
        };
        let is_there = self.read_file(&path, dialect, include.scope, depth + 1);
        if let Some(profile) = &include.profile {
            self.set_profile(&path, dialect, profile);
        }
        if !is_there {
            let text = format!("the included file `{shown}` does not exist");
            self.config.problems.push(report(
                "include.missing",
                text,
                "create it or remove the include",
            ));
            if dialect == Dialect::Native {
                self.config.security.mark_invalid(SecuritySection::UNREADABLE, &label, place);
            }
        }
    }

    /// Sets the profile of a file's servers, except for entries that name another one.
    fn set_profile(&mut self, path: &Path, dialect: Dialect, profile: &str) {
        let source = self.config.sources.iter().position(|source| source.path == path);
        let of_file = self.pending.iter_mut().filter(|pending| Some(pending.source) == source);
        for draft in of_file.flat_map(|pending| &mut pending.drafts) {
            if draft.profile == dialect.profile_name() {
                profile.clone_into(&mut draft.profile);
            }
        }
    }
}

/// Returns the folder that relative paths start from: the file's folder, or the project if the file's folder is a dot
/// folder. Paths in a user's file of another client start from the root.
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

/// Returns whether a duplicate key is outside of the list of servers in another client's settings. That client uses the
/// last value, and Toolcrib does not read most of that file.
fn is_outside_server_list(defect: &Defect, dialect: Dialect) -> bool {
    let settings = matches!(dialect, Dialect::Claude | Dialect::Cursor | Dialect::Gemini);
    settings && defect.path.first().is_some_and(|key| key != "mcpServers")
}

/// Returns the server that a defect damages, or `None` if the defect damages the file or its list of servers.
fn damaged_server(defect: &Defect, dialect: Dialect) -> Option<String> {
    let listed = match dialect {
        Dialect::Holodeck | Dialect::Minion | Dialect::Docker => return None,
        _ => &defect.path,
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
