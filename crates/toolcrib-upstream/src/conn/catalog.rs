//! What a server offers, gathered page by page: complete, or not at all.

use std::collections::HashSet;

use toolcrib_config::model::policy::{Discovery, Limits};
use toolcrib_wire::param_header::{BadParamHeader, param_headers};
use toolcrib_wire::view::{
    Cache, Flaw, Item, Page, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use toolcrib_wire::{Raw, RpcError, code, method};

use super::failure::FailureKind;
use crate::schema::InvalidSchema;
use crate::signals::SecretMask;

/// The lists that a server may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Everything that a server offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    pub tools: Vec<Tool>,
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    pub oddities: Vec<Oddity>,
    /// Tools whose schema is no JSON Schema. They are among the tools.
    pub invalid_schemas: Vec<InvalidSchema>,
    /// How long all of it may be kept; nothing where no list was asked for.
    pub cache: Option<Cache>,
}

/// Something wrong with one item. What is bad, double, repeats a secret or asks for impossible headers is not in the catalogue, everything else is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    pub list: List,
    /// Counted from 0; page and item as the server sent them. None for what is odd about the whole page.
    pub at: (u32, Option<usize>),
    pub name: Option<String>,
    pub what: Odd,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Odd {
    #[error("it cannot be used")]
    Bad(#[source] Flaw),
    #[error("it is not as the protocol says")]
    Unusual(#[source] Flaw),
    #[error("an earlier one has the same name")]
    Double,
    #[error("it asks for headers that must not be sent")]
    Headers(#[source] BadParamHeader),
    #[error("its definition repeats a secret that the server was given, so it is not offered")]
    Secret,
}

impl Catalog {
    /// Whether the tools are the same, to the byte.
    pub fn has_same_tools(&self, other: &Catalog) -> bool {
        same(&self.tools, &other.tools, Tool::raw)
    }

    /// Whether the same is offered, to the byte.
    pub fn offers_same(&self, other: &Catalog) -> bool {
        self.has_same_tools(other)
            && same(&self.prompts, &other.prompts, Prompt::raw)
            && same(&self.resources, &other.resources, Resource::raw)
            && same(&self.templates, &other.templates, ResourceTemplate::raw)
    }

    /// Takes out what repeats a secret where it cannot be masked: a tool with another name, another key in its schema or
    /// another `$ref` could not be called. It is told without the secret.
    pub fn without_secrets(mut self, mask: &SecretMask) -> Self {
        for oddity in &mut self.oddities {
            oddity.name = oddity.name.take().map(|name| mask.mask_text(name));
        }
        let found = [
            take_secret(&mut self.tools, mask),
            take_secret(&mut self.prompts, mask),
            take_secret(&mut self.resources, mask),
            take_secret(&mut self.templates, mask),
        ];
        self.oddities.extend(found.into_iter().flatten());
        self
    }

    /// Takes out the tools whose arguments would have to travel in headers that cannot be. Only Streamable
    /// HTTP of the modern era has such headers.
    pub fn without_impossible_headers(mut self) -> Self {
        let mut found = Vec::new();
        self.tools.retain(|tool| match param_headers(tool.input_schema().json()) {
            Ok(_) => true,
            Err(bad) => {
                found.push((tool.name().to_owned(), bad));
                false
            }
        });
        self.oddities.extend(found.into_iter().map(|(name, bad)| Oddity {
            list: List::Tools,
            at: (0, None),
            name: Some(name),
            what: Odd::Headers(bad),
        }));
        self
    }
}

fn take_secret<T: Entry>(items: &mut Vec<T>, mask: &SecretMask) -> Vec<Oddity> {
    let taken = items.extract_if(.., |item| mask.is_left_in(item.text()));
    let told = taken.map(|item| Oddity {
        list: T::OF,
        at: (0, None),
        name: Some(mask.mask_text(item.key().to_owned())),
        what: Odd::Secret,
    });
    told.collect()
}

fn same<T>(some: &[T], others: &[T], raw: fn(&T) -> &Raw) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| raw(one) == raw(other))
}

/// A list that could not be had. It is never taken for an empty one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("server `{server}` offers more {list} than the limit of {limit}")]
    TooMany { server: String, list: List, limit: u32 },
    #[error("server `{server}` sends its {list} in more pages than the limit of {limit}")]
    TooManyPages { server: String, list: List, limit: u32 },
    #[error("server `{server}` sends the same page of {list} again and again")]
    Loop { server: String, list: List },
    #[error("server `{server}` sent no list of {list}")]
    NoList {
        server: String,
        list: List,
        #[source]
        cause: Flaw,
    },
    #[error("server `{server}` refused to list its {list}")]
    Refused {
        server: String,
        list: List,
        #[source]
        cause: RpcError,
    },
    #[error("server `{server}` did not send all of its {list}")]
    Incomplete { server: String, list: List },
    #[error("tool schema invalid: tool `{tool}` of server `{server}`: {reason}")]
    InvalidSchema { server: String, tool: String, reason: String },
    #[error("no tools found on server: {server}")]
    NoTools { server: String },
}

impl ListError {
    pub fn kind(&self) -> FailureKind {
        match self {
            ListError::TooMany { .. } | ListError::TooManyPages { .. } => FailureKind::Resource,
            _ => FailureKind::Protocol,
        }
    }
}

/// One list that is to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    pub list: List,
    /// The server never said that it has the list; not to know the method is then an answer.
    pub unsure: bool,
}

/// Which lists to ask a server for: those that policy wants and the server declares. One that declares
/// nothing at all is asked for tools, since old servers were not always so thorough.
pub fn asks(discovery: &Discovery, declared: &ServerCapabilities) -> Vec<Ask> {
    let silent = !(declared.tools() || declared.prompts() || declared.resources());
    let sure = |list| Ask { list, unsure: false };
    // Many servers with resources have no templates, and no way to say so.
    let unsure = |list| Ask { list, unsure: true };
    let tools = match declared.tools() {
        true => Some(sure(List::Tools)),
        false => silent.then_some(unsure(List::Tools)),
    };
    let prompts = declared.prompts().then_some(sure(List::Prompts));
    let resources =
        declared.resources().then_some([sure(List::Resources), unsure(List::Templates)]);
    tools
        .filter(|_| discovery.tools)
        .into_iter()
        .chain(prompts.filter(|_| discovery.prompts))
        .chain(resources.filter(|_| discovery.resources).into_iter().flatten())
        .collect()
}

/// Whether a notification says that a list changed which is listed, by a server that declared such changes.
pub fn heeds(method: &str, discovery: &Discovery, declared: &ServerCapabilities) -> bool {
    match method {
        method::TOOLS_CHANGED => discovery.tools && declared.tools_changes(),
        method::PROMPTS_CHANGED => discovery.prompts && declared.prompts_changes(),
        method::RESOURCES_CHANGED => discovery.resources && declared.resources_changes(),
        _ => false,
    }
}

/// A catalogue in the making: one list after another, each page by page.
#[derive(Debug)]
pub struct Gathering<'a> {
    server: &'a str,
    limits: &'a Limits,
    catalog: Catalog,
    names: HashSet<String>,
    cursors: HashSet<String>,
    /// The list whose end has not come yet.
    reading: Option<List>,
    page: u32,
    /// Items of the current list, bad ones too.
    count: usize,
}

impl<'a> Gathering<'a> {
    pub fn new(server: &'a str, limits: &'a Limits) -> Self {
        Gathering {
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

    /// Takes the answer to one page; the cursor of the next, or nothing if the list is complete.
    pub fn take(
        &mut self,
        ask: Ask,
        answer: Result<Raw, RpcError>,
    ) -> Result<Option<String>, ListError> {
        self.reading = Some(ask.list);
        let result = match answer {
            Ok(result) => result,
            Err(error) if self.means_none(ask, &error) => return Ok(self.complete()),
            Err(cause) => {
                return Err(ListError::Refused {
                    server: self.server.to_owned(),
                    list: ask.list,
                    cause,
                });
            }
        };
        let cursor = match ask.list {
            List::Tools => self.page(&result, |catalog: &mut Catalog| &mut catalog.tools),
            List::Prompts => self.page(&result, |catalog: &mut Catalog| &mut catalog.prompts),
            List::Resources => self.page(&result, |catalog: &mut Catalog| &mut catalog.resources),
            List::Templates => self.page(&result, |catalog: &mut Catalog| &mut catalog.templates),
        }?;
        match cursor {
            Some(cursor) => self.onward(ask.list, cursor).map(Some),
            None => Ok(self.complete()),
        }
    }

    /// The catalogue, if the last list was read to its end.
    pub fn finish(self, discovery: &Discovery) -> Result<Catalog, ListError> {
        if let Some(list) = self.reading {
            return Err(ListError::Incomplete { server: self.server.to_owned(), list });
        }
        if discovery.require_tools && self.catalog.tools.is_empty() {
            return Err(ListError::NoTools { server: self.server.to_owned() });
        }
        Ok(self.catalog)
    }

    /// Only before the first page: a server that has given one knows the method.
    fn means_none(&self, ask: Ask, error: &RpcError) -> bool {
        ask.unsure && self.page == 0 && error.code == code::METHOD_NOT_FOUND
    }

    fn complete(&mut self) -> Option<String> {
        self.names.clear();
        self.cursors.clear();
        self.reading = None;
        self.page = 0;
        self.count = 0;
        None
    }

    fn onward(&mut self, list: List, cursor: String) -> Result<String, ListError> {
        self.page += 1;
        if !self.cursors.insert(cursor.clone()) {
            return Err(ListError::Loop { server: self.server.to_owned(), list });
        }
        if self.page >= self.limits.pages {
            return Err(ListError::TooManyPages {
                server: self.server.to_owned(),
                list,
                limit: self.limits.pages,
            });
        }
        Ok(cursor)
    }

    fn page<T: Entry>(
        &mut self,
        result: &Raw,
        part: fn(&mut Catalog) -> &mut Vec<T>,
    ) -> Result<Option<String>, ListError> {
        let limit = self.limits.tools as usize;
        let page = Page::<T>::read(result, limit.saturating_sub(self.count)).map_err(|cause| {
            ListError::NoList { server: self.server.to_owned(), list: T::OF, cause }
        })?;
        if page.left_out > 0 {
            return Err(ListError::TooMany {
                server: self.server.to_owned(),
                list: T::OF,
                limit: self.limits.tools,
            });
        }
        self.count += page.items.len() + page.bad.len();
        Ok(self.merge(page, part))
    }

    fn merge<T: Entry>(
        &mut self,
        page: Page<T>,
        part: fn(&mut Catalog) -> &mut Vec<T>,
    ) -> Option<String> {
        let cache = self.catalog.cache.map_or(page.cache, |c| c.join(page.cache));
        self.catalog.cache = Some(cache);
        for bad in page.bad {
            self.odd(T::OF, Some(bad.index), bad.name, Odd::Bad(bad.reason));
        }
        for note in page.notes {
            self.odd(T::OF, note.index, None, Odd::Unusual(note.flaw));
        }
        for item in page.items {
            let key = item.key().to_owned();
            if self.names.insert(key.clone()) {
                part(&mut self.catalog).push(item);
            } else {
                self.odd(T::OF, None, Some(key), Odd::Double);
            }
        }
        page.next_cursor
    }

    fn odd(&mut self, list: List, index: Option<usize>, name: Option<String>, what: Odd) {
        self.catalog.oddities.push(Oddity { list, at: (self.page, index), name, what });
    }
}

/// An item that is known by a name.
pub(super) trait Entry: Item {
    const OF: List;

    fn key(&self) -> &str;
    fn text(&self) -> &Raw;
}

macro_rules! entry {
    ($($item:ident, $list:ident, $key:ident;)*) => {$(
        impl Entry for $item {
            const OF: List = List::$list;

            fn key(&self) -> &str {
                self.$key()
            }

            fn text(&self) -> &Raw {
                self.raw()
            }
        }
    )*};
}

entry! {
    Tool, Tools, name;
    Prompt, Prompts, name;
    Resource, Resources, uri;
    ResourceTemplate, Templates, uri_template;
}

impl List {
    pub fn method(self) -> &'static str {
        match self {
            List::Tools => method::TOOLS_LIST,
            List::Prompts => method::PROMPTS_LIST,
            List::Resources => method::RESOURCES_LIST,
            List::Templates => method::RESOURCE_TEMPLATES_LIST,
        }
    }
}

impl std::fmt::Display for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resource templates",
        })
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
