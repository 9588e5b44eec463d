//! Catalog of a server's tools, prompts and resources, built page by page.

use std::collections::HashSet;

use toolcrib_config::model::policy::{Discovery, LimitPolicy};
use toolcrib_wire::param_header::{ParamHeaderError, param_headers};
use toolcrib_wire::view::{
    CacheHints, FieldError, ListItem, Page, PromptView, ResourceTemplateView, ResourceView,
    ServerCapabilities, ToolView,
};
use toolcrib_wire::{RawJson, RpcError, code, method};

use super::failure::FailureKind;
use crate::schema::InvalidSchema;
use crate::signals::SecretMask;

/// The four lists of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Complete content of a server's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    pub tools: Vec<ToolView>,
    pub prompts: Vec<PromptView>,
    pub resources: Vec<ResourceView>,
    pub templates: Vec<ResourceTemplateView>,
    pub defects: Vec<ItemDefect>,
    /// Tools whose schema is not valid JSON Schema. `tools` contains them as well.
    pub invalid_schemas: Vec<InvalidSchema>,
    /// Cache hints of all pages together. `None` if no list was requested.
    pub cache: Option<CacheHints>,
}

/// A defect of one listed item. Items with the kinds `Unusual` stay in the catalog; all others are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemDefect {
    pub list: ListKind,
    /// Page and item index as the server sent them, counted from 0. The item is `None` if the defect concerns the
    /// whole page.
    pub position: (u32, Option<usize>),
    pub name: Option<String>,
    pub kind: ItemDefectKind,
}

/// Kind of a defect of a listed item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemDefectKind {
    #[error("the item is unusable")]
    Bad(#[source] FieldError),
    #[error("the item violates the protocol")]
    Unusual(#[source] FieldError),
    #[error("duplicate name")]
    Double,
    #[error("invalid `x-mcp-header`")]
    Headers(#[source] ParamHeaderError),
    #[error("not offered: its definition contains a secret of the server")]
    Secret,
}

impl Catalog {
    /// Returns whether the tools are byte-identical.
    pub fn has_same_tools(&self, other: &Catalog) -> bool {
        has_same_definitions(&self.tools, &other.tools, ToolView::raw)
    }

    /// Returns whether all four lists are byte-identical.
    pub fn offers_same(&self, other: &Catalog) -> bool {
        self.has_same_tools(other)
            && has_same_definitions(&self.prompts, &other.prompts, PromptView::raw)
            && has_same_definitions(&self.resources, &other.resources, ResourceView::raw)
            && has_same_definitions(&self.templates, &other.templates, ResourceTemplateView::raw)
    }

    /// Removes items that contain a secret which cannot be masked: with another name, schema key or `$ref` the tool
    /// could not be called. The recorded defect does not contain the secret.
    pub fn without_secrets(mut self, mask: &SecretMask) -> Self {
        for oddity in &mut self.defects {
            oddity.name = oddity.name.take().map(|name| mask.mask_text(name));
        }
        let defects = [
            remove_items_with_secrets(&mut self.tools, mask),
            remove_items_with_secrets(&mut self.prompts, mask),
            remove_items_with_secrets(&mut self.resources, mask),
            remove_items_with_secrets(&mut self.templates, mask),
        ];
        self.defects.extend(defects.into_iter().flatten());
        self
    }

    /// Removes tools whose `x-mcp-header` arguments cannot be sent as headers. Only modern Streamable HTTP has such
    /// headers.
    pub fn without_impossible_headers(mut self) -> Self {
        let mut defects = Vec::new();
        self.tools.retain(|tool| match param_headers(tool.input_schema().json()) {
            Ok(_) => true,
            Err(bad) => {
                defects.push((tool.name().to_owned(), bad));
                false
            }
        });
        self.defects.extend(defects.into_iter().map(|(name, bad)| ItemDefect {
            list: ListKind::Tools,
            position: (0, None),
            name: Some(name),
            kind: ItemDefectKind::Headers(bad),
        }));
        self
    }
}

fn remove_items_with_secrets<T: CatalogItem>(
    items: &mut Vec<T>,
    mask: &SecretMask,
) -> Vec<ItemDefect> {
    let removed = items.extract_if(.., |item| mask.contains_secret(item.definition()));
    let defects = removed.map(|item| ItemDefect {
        list: T::KIND,
        position: (0, None),
        name: Some(mask.mask_text(item.key().to_owned())),
        kind: ItemDefectKind::Secret,
    });
    defects.collect()
}

fn has_same_definitions<T>(some: &[T], others: &[T], raw: fn(&T) -> &RawJson) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| raw(one) == raw(other))
}

/// Failure to read a list. A failed list is never treated as empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("server `{server}` offers more {list} than the limit of {limit}")]
    TooMany { server: String, list: ListKind, limit: u32 },
    #[error("server `{server}` sends its {list} in more pages than the limit of {limit}")]
    TooManyPages { server: String, list: ListKind, limit: u32 },
    #[error("server `{server}` repeats a page of {list}")]
    Loop { server: String, list: ListKind },
    #[error("server `{server}` sent no list of {list}")]
    NoList {
        server: String,
        list: ListKind,
        #[source]
        cause: FieldError,
    },
    #[error("server `{server}` refused to list its {list}")]
    Refused {
        server: String,
        list: ListKind,
        #[source]
        cause: RpcError,
    },
    #[error("server `{server}` sent an incomplete list of {list}")]
    Incomplete { server: String, list: ListKind },
    #[error("tool schema invalid: tool `{tool}` of server `{server}`: {reason}")]
    InvalidSchema { server: String, tool: String, reason: String },
    #[error("no tools found on server: {server}")]
    NoTools { server: String },
}

impl CatalogError {
    /// Failure kind of this error.
    pub fn kind(&self) -> FailureKind {
        match self {
            CatalogError::TooMany { .. } | CatalogError::TooManyPages { .. } => {
                FailureKind::Resource
            }
            _ => FailureKind::Protocol,
        }
    }
}

/// A list to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRequest {
    pub list: ListKind,
    /// The server did not declare this list, so `method not found` means that it has none.
    pub is_undeclared: bool,
}

/// Lists to request: those that the policy enables and the server declares. A server that declares nothing is still
/// asked for tools, because some old servers declare no capabilities.
pub fn list_requests(discovery: &Discovery, declared: &ServerCapabilities) -> Vec<ListRequest> {
    let silent = !(declared.tools() || declared.prompts() || declared.resources());
    let declared_list = |list| ListRequest { list, is_undeclared: false };
    // Many servers with resources have no templates and cannot declare that.
    let undeclared_list = |list| ListRequest { list, is_undeclared: true };
    let tools = match declared.tools() {
        true => Some(declared_list(ListKind::Tools)),
        false => silent.then_some(undeclared_list(ListKind::Tools)),
    };
    let prompts = declared.prompts().then_some(declared_list(ListKind::Prompts));
    let resources = declared
        .resources()
        .then_some([declared_list(ListKind::Resources), undeclared_list(ListKind::Templates)]);
    tools
        .filter(|_| discovery.tools)
        .into_iter()
        .chain(prompts.filter(|_| discovery.prompts))
        .chain(resources.filter(|_| discovery.resources).into_iter().flatten())
        .collect()
}

/// Returns whether a notification reports a change of an enabled list by a server that declared such notifications.
pub fn is_relevant_change(
    method: &str,
    discovery: &Discovery,
    declared: &ServerCapabilities,
) -> bool {
    match method {
        method::TOOLS_CHANGED => discovery.tools && declared.tools_changes(),
        method::PROMPTS_CHANGED => discovery.prompts && declared.prompts_changes(),
        method::RESOURCES_CHANGED => discovery.resources && declared.resources_changes(),
        _ => false,
    }
}

/// Builds a [`Catalog`] list by list and page by page.
#[derive(Debug)]
pub struct CatalogBuilder<'a> {
    server: &'a str,
    limits: &'a LimitPolicy,
    catalog: Catalog,
    names: HashSet<String>,
    cursors: HashSet<String>,
    /// The list that is being read.
    reading: Option<ListKind>,
    page: u32,
    /// Items of the current list, defective ones included.
    count: usize,
}

impl<'a> CatalogBuilder<'a> {
    /// Creates an empty builder. `server` is the name for errors.
    pub fn new(server: &'a str, limits: &'a LimitPolicy) -> Self {
        CatalogBuilder {
            server,
            limits,
            catalog: Catalog::default(),
            names: HashSet::new(),
            cursors: HashSet::new(),
            reading: None,
            page: 0,
            count: 0,
        }
    }

    /// Adds the response to one page request. Returns the cursor of the next page, or `None` when the list is
    /// complete.
    pub fn add_page(
        &mut self,
        request: ListRequest,
        answer: Result<RawJson, RpcError>,
    ) -> Result<Option<String>, CatalogError> {
        self.reading = Some(request.list);
        let result = match answer {
            Ok(result) => result,
            Err(error) if self.means_unsupported(request, &error) => return Ok(self.finish_list()),
            Err(cause) => {
                return Err(CatalogError::Refused {
                    server: self.server.to_owned(),
                    list: request.list,
                    cause,
                });
            }
        };
        let cursor = match request.list {
            ListKind::Tools => self.read_page(&result, |catalog: &mut Catalog| &mut catalog.tools),
            ListKind::Prompts => {
                self.read_page(&result, |catalog: &mut Catalog| &mut catalog.prompts)
            }
            ListKind::Resources => {
                self.read_page(&result, |catalog: &mut Catalog| &mut catalog.resources)
            }
            ListKind::Templates => {
                self.read_page(&result, |catalog: &mut Catalog| &mut catalog.templates)
            }
        }?;
        match cursor {
            Some(cursor) => self.accept_cursor(request.list, cursor).map(Some),
            None => Ok(self.finish_list()),
        }
    }

    /// Returns the catalog if the last list is complete.
    pub fn finish(self, discovery: &Discovery) -> Result<Catalog, CatalogError> {
        if let Some(list) = self.reading {
            return Err(CatalogError::Incomplete { server: self.server.to_owned(), list });
        }
        if discovery.require_tools && self.catalog.tools.is_empty() {
            return Err(CatalogError::NoTools { server: self.server.to_owned() });
        }
        Ok(self.catalog)
    }

    /// Applies to the first page only: a server that sent one page knows the method.
    fn means_unsupported(&self, request: ListRequest, error: &RpcError) -> bool {
        request.is_undeclared && self.page == 0 && error.code == code::METHOD_NOT_FOUND
    }

    fn finish_list(&mut self) -> Option<String> {
        self.names.clear();
        self.cursors.clear();
        self.reading = None;
        self.page = 0;
        self.count = 0;
        None
    }

    fn accept_cursor(&mut self, list: ListKind, cursor: String) -> Result<String, CatalogError> {
        self.page += 1;
        if !self.cursors.insert(cursor.clone()) {
            return Err(CatalogError::Loop { server: self.server.to_owned(), list });
        }
        if self.page >= self.limits.pages {
            return Err(CatalogError::TooManyPages {
                server: self.server.to_owned(),
                list,
                limit: self.limits.pages,
            });
        }
        Ok(cursor)
    }

    fn read_page<T: CatalogItem>(
        &mut self,
        result: &RawJson,
        part: fn(&mut Catalog) -> &mut Vec<T>,
    ) -> Result<Option<String>, CatalogError> {
        let limit = self.limits.tools as usize;
        let page = Page::<T>::read(result, limit.saturating_sub(self.count)).map_err(|cause| {
            CatalogError::NoList { server: self.server.to_owned(), list: T::KIND, cause }
        })?;
        if page.left_out > 0 {
            return Err(CatalogError::TooMany {
                server: self.server.to_owned(),
                list: T::KIND,
                limit: self.limits.tools,
            });
        }
        self.count += page.items.len() + page.bad.len();
        Ok(self.merge_page(page, part))
    }

    fn merge_page<T: CatalogItem>(
        &mut self,
        page: Page<T>,
        part: fn(&mut Catalog) -> &mut Vec<T>,
    ) -> Option<String> {
        let cache = self.catalog.cache.map_or(page.cache, |c| c.combine(page.cache));
        self.catalog.cache = Some(cache);
        for bad in page.bad {
            self.record_defect(T::KIND, Some(bad.index), bad.name, ItemDefectKind::Bad(bad.reason));
        }
        for warning in page.warnings {
            self.record_defect(
                T::KIND,
                warning.index,
                None,
                ItemDefectKind::Unusual(warning.error),
            );
        }
        for item in page.items {
            let key = item.key().to_owned();
            if self.names.insert(key.clone()) {
                part(&mut self.catalog).push(item);
            } else {
                self.record_defect(T::KIND, None, Some(key), ItemDefectKind::Double);
            }
        }
        page.next_cursor
    }

    fn record_defect(
        &mut self,
        list: ListKind,
        index: Option<usize>,
        name: Option<String>,
        kind: ItemDefectKind,
    ) {
        self.catalog.defects.push(ItemDefect { list, position: (self.page, index), name, kind });
    }
}

/// A list item with a unique key.
pub(super) trait CatalogItem: ListItem {
    const KIND: ListKind;

    fn key(&self) -> &str;
    fn definition(&self) -> &RawJson;
}

macro_rules! entry {
    ($($item:ident, $list:ident, $key:ident;)*) => {$(
        impl CatalogItem for $item {
            const KIND: ListKind = ListKind::$list;

            fn key(&self) -> &str {
                self.$key()
            }

            fn definition(&self) -> &RawJson {
                self.raw()
            }
        }
    )*};
}

entry! {
    ToolView, Tools, name;
    PromptView, Prompts, name;
    ResourceView, Resources, uri;
    ResourceTemplateView, Templates, uri_template;
}

impl ListKind {
    /// Method that lists this kind.
    pub fn method(self) -> &'static str {
        match self {
            ListKind::Tools => method::TOOLS_LIST,
            ListKind::Prompts => method::PROMPTS_LIST,
            ListKind::Resources => method::RESOURCES_LIST,
            ListKind::Templates => method::RESOURCE_TEMPLATES_LIST,
        }
    }
}

impl std::fmt::Display for ListKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resource templates",
        })
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
