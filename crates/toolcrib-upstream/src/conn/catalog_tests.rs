//! Tests of the catalog builder.

use std::error::Error;

use toolcrib_wire::view::CacheScope;

use super::*;

const TOOLS: ListRequest = ListRequest { list: ListKind::Tools, is_undeclared: false };

fn raw(text: &str) -> RawJson {
    RawJson::parse(text, &toolcrib_wire::MessageLimits::default()).unwrap()
}

fn declared(text: &str) -> ServerCapabilities {
    ServerCapabilities::new(raw(text))
}

/// Builds a page of tools with these names.
fn tool_page(names: &[&str], cursor: Option<&str>) -> Result<RawJson, RpcError> {
    let tools: Vec<_> = names
        .iter()
        .map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    let cursor = cursor.map_or(String::new(), |cursor| format!(r#","nextCursor":"{cursor}""#));
    Ok(raw(&format!(r#"{{"tools":[{}]{cursor}}}"#, tools.join(","))))
}

fn limits(tools: u32, pages: u32) -> LimitPolicy {
    LimitPolicy { tools, pages, ..LimitPolicy::default() }
}

/// Feeds pages into a builder and finishes it.
fn gather(
    limits: &LimitPolicy,
    pages: Vec<Result<RawJson, RpcError>>,
) -> Result<Catalog, CatalogError> {
    let mut builder = CatalogBuilder::new("crm", limits);
    for answer in pages {
        builder.add_page(TOOLS, answer)?;
    }
    builder.finish(&Discovery::default())
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(ToolView::name).collect()
}

fn defect_lines(catalog: &Catalog) -> Vec<String> {
    let line = |defect: &ItemDefect| {
        let cause = defect.kind.source().map(|cause| format!(": {cause}"));
        format!(
            "{} {:?} {:?} {}{}",
            defect.list,
            defect.position,
            defect.name,
            defect.kind,
            cause.unwrap_or_default()
        )
    };
    catalog.defects.iter().map(line).collect()
}

#[test]
fn pages_merge_into_one_catalog() {
    let limits = LimitPolicy::default();
    let mut builder = CatalogBuilder::new("crm", &limits);
    let next = builder.add_page(TOOLS, tool_page(&["a", "b"], Some("2")));
    assert_eq!(next, Ok(Some("2".to_owned())));
    assert_eq!(builder.add_page(TOOLS, tool_page(&["c"], None)), Ok(None));
    let prompts = ListRequest { list: ListKind::Prompts, is_undeclared: false };
    // The same name or cursor in another list is not a repetition.
    let next = builder.add_page(prompts, Ok(raw(r#"{"prompts":[{"name":"a"}],"nextCursor":"2"}"#)));
    assert_eq!(next, Ok(Some("2".to_owned())));
    builder.add_page(prompts, Ok(raw(r#"{"prompts":[]}"#))).unwrap();
    let catalog = builder.finish(&Discovery::default()).unwrap();
    assert_eq!(names(&catalog), ["a", "b", "c"]);
    assert_eq!((catalog.prompts.len(), catalog.defects.len()), (1, 0));
}

#[test]
fn limit_errors_name_the_server_and_the_limit() {
    for (limits, pages, message) in [
        (
            limits(3, 100),
            vec![tool_page(&["a", "b"], Some("2")), tool_page(&["c", "d"], None)],
            "server `crm` offers more tools than the limit of 3",
        ),
        (
            limits(100, 2),
            vec![tool_page(&["a"], Some("2")), tool_page(&["b"], Some("3"))],
            "server `crm` sends its tools in more pages than the limit of 2",
        ),
        (
            limits(100, 100),
            vec![
                tool_page(&["a"], Some("2")),
                tool_page(&["b"], Some("3")),
                tool_page(&["c"], Some("2")),
            ],
            "server `crm` repeats a page of tools",
        ),
    ] {
        assert_eq!(gather(&limits, pages).unwrap_err().to_string(), message);
    }
    let full = vec![tool_page(&["a", "b"], Some("2")), tool_page(&["c"], None)];
    assert_eq!(names(&gather(&limits(3, 2), full).unwrap()), ["a", "b", "c"]);
}

#[test]
fn dkr_15_failed_list_is_an_error_and_never_empty() {
    let refused = || Err(RpcError::internal("down"));
    for (pages, message) in [
        (vec![refused()], "server `crm` refused to list its tools"),
        // DOM-83: the items of the first page are discarded too.
        (vec![tool_page(&["a"], Some("2")), refused()], "server `crm` refused to list its tools"),
        (vec![Ok(raw("{}"))], "server `crm` sent no list of tools"),
        (vec![Ok(raw(r#"{"tools":null}"#))], "server `crm` sent no list of tools"),
        (
            vec![Err(RpcError::method_not_found("tools/list"))],
            "server `crm` refused to list its tools",
        ),
    ] {
        assert_eq!(gather(&LimitPolicy::default(), pages).unwrap_err().to_string(), message);
    }
    // DOM-83: an incomplete list is an error.
    let half = gather(&LimitPolicy::default(), vec![tool_page(&["a"], Some("2"))]);
    assert_eq!(half.unwrap_err().to_string(), "server `crm` sent an incomplete list of tools");
    assert_eq!(
        gather(&LimitPolicy::default(), vec![tool_page(&[], None)]),
        Ok(Catalog { cache: Some(CacheHints::default()), ..Catalog::default() })
    );
}

#[test]
fn bad_tool_is_reported_and_the_others_stay() {
    let text = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"bad"},{"name":"defect","title":7,"inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]}"#;
    let catalog = gather(&LimitPolicy::default(), vec![Ok(raw(text))]).unwrap();
    assert_eq!(names(&catalog), ["a", "defect"]);
    assert_eq!(
        defect_lines(&catalog),
        [
            "tools (0, Some(1)) Some(\"bad\") the item is unusable: `inputSchema` is missing",
            "tools (0, Some(2)) None the item violates the protocol: `title` must be a string, found a number",
            "tools (0, None) Some(\"a\") duplicate name",
        ]
    );
}

#[test]
fn bad_items_count_towards_the_limit() {
    let bad = |members: &str| Ok(raw(&format!(r#"{{"tools":[{{}},{{}}]{members}}}"#)));
    let error = gather(&limits(3, 9), vec![bad(r#","nextCursor":"2""#), bad("")]).unwrap_err();
    assert_eq!(error.to_string(), "server `crm` offers more tools than the limit of 3");
    assert_eq!(error.kind(), FailureKind::Resource);
}

#[test]
fn required_tools_make_an_empty_list_an_error() {
    let discovery = Discovery { require_tools: true, ..Discovery::default() };
    let limits = LimitPolicy::default();
    let mut builder = CatalogBuilder::new("crm", &limits);
    builder.add_page(TOOLS, tool_page(&[], None)).unwrap();
    assert_eq!(
        builder.finish(&discovery).unwrap_err().to_string(),
        "no tools found on server: crm"
    );
}

#[test]
fn cache_uses_the_shortest_ttl() {
    let text = |members: &str| Ok(raw(&format!(r#"{{"tools":[],{members}}}"#)));
    let pages = vec![
        text(r#""nextCursor":"2","ttlMs":500,"cacheScope":"public""#),
        text(r#""nextCursor":"3","ttlMs":300,"cacheScope":"private""#),
        text(r#""ttlMs":400,"cacheScope":"public""#),
    ];
    let cache = gather(&LimitPolicy::default(), pages).unwrap().cache.unwrap();
    assert_eq!((cache.ttl_ms, cache.scope), (300, CacheScope::Private));
}

#[test]
fn hol_17_and_18_only_enabled_and_declared_lists_are_requested() {
    let everything = r#"{"tools":{},"prompts":{},"resources":{}}"#;
    let all = Discovery::default();
    let without = |tools, prompts| Discovery { tools, prompts, ..Discovery::default() };
    let methods = |discovery: &Discovery, text: &str| -> Vec<_> {
        let requests = list_requests(discovery, &declared(text));
        requests.iter().map(|request| request.list.method()).collect()
    };
    let rest = ["resources/list", "resources/templates/list"];
    for (discovery, text, expected) in [
        (&all, everything, [&["tools/list", "prompts/list"][..], &rest].concat()),
        (&without(false, true), everything, [&["prompts/list"][..], &rest].concat()),
        (&without(true, false), everything, [&["tools/list"][..], &rest].concat()),
        (&all, r#"{"tools":{}}"#, vec!["tools/list"]),
        (&all, r#"{"prompts":{}}"#, vec!["prompts/list"]),
        (&all, "{}", vec!["tools/list"]),
        (&without(false, true), "{}", vec![]),
    ] {
        assert_eq!(methods(discovery, text), expected, "{text}");
    }
}

#[test]
fn unknown_method_is_accepted_for_undeclared_lists_only() {
    let unknown = || Err(RpcError::method_not_found("x"));
    let limits = LimitPolicy::default();
    let mut builder = CatalogBuilder::new("crm", &limits);
    for request in list_requests(&Discovery::default(), &declared("{}")) {
        assert_eq!(builder.add_page(request, unknown()), Ok(None));
    }
    // A server that sent a first page knows the method.
    for request in list_requests(&Discovery::default(), &declared("{}")) {
        builder.add_page(request, tool_page(&["a"], Some("2"))).unwrap();
        assert!(builder.add_page(request, unknown()).is_err());
    }
    let mut builder = CatalogBuilder::new("crm", &limits);
    for request in list_requests(&Discovery::default(), &declared(r#"{"resources":{}}"#)) {
        let outcome = builder.add_page(request, unknown());
        assert_eq!(outcome.is_ok(), request.list == ListKind::Templates, "{request:?}");
        let other = builder.add_page(request, Err(RpcError::internal("x")));
        assert!(other.is_err(), "{request:?}");
    }
}

#[test]
fn dis_15_undeclared_list_change_has_no_effect() {
    let all = Discovery::default();
    let with = declared(
        r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}"#,
    );
    let without = declared(
        r#"{"tools":{},"prompts":{"listChanged":"yes"},"resources":{"listChanged":false}}"#,
    );
    let nothing =
        Discovery { tools: false, prompts: false, resources: false, ..Discovery::default() };
    for method in [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED] {
        assert!(is_relevant_change(method, &all, &with), "{method}");
        assert!(!is_relevant_change(method, &all, &without), "{method}");
        assert!(!is_relevant_change(method, &nothing, &with), "{method}");
    }
    assert!(!is_relevant_change(method::PROGRESS, &all, &with));
}
