//! Lists of servers, page by page.

use std::error::Error;

use toolcrib_wire::view::CacheScope;

use super::*;

const TOOLS: Ask = Ask { list: List::Tools, unsure: false };

fn raw(text: &str) -> Raw {
    Raw::parse(text, &toolcrib_wire::Limits::default()).unwrap()
}

fn declared(text: &str) -> ServerCapabilities {
    ServerCapabilities::new(raw(text))
}

/// A page of tools with these names.
fn page(names: &[&str], cursor: Option<&str>) -> Result<Raw, RpcError> {
    let tools: Vec<_> = names
        .iter()
        .map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    let cursor = cursor.map_or(String::new(), |cursor| format!(r#","nextCursor":"{cursor}""#));
    Ok(raw(&format!(r#"{{"tools":[{}]{cursor}}}"#, tools.join(","))))
}

fn limits(tools: u32, pages: u32) -> Limits {
    Limits { tools, pages, ..Limits::default() }
}

/// Feeds pages until the list is complete or fails; the names that were gathered.
fn gather(limits: &Limits, pages: Vec<Result<Raw, RpcError>>) -> Result<Catalog, ListError> {
    let mut gathering = Gathering::new("crm", limits);
    for answer in pages {
        gathering.take(TOOLS, answer)?;
    }
    gathering.finish(&Discovery::default())
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(Tool::name).collect()
}

fn odd(catalog: &Catalog) -> Vec<String> {
    let tell = |odd: &Oddity| {
        let cause = odd.what.source().map(|cause| format!(": {cause}"));
        format!(
            "{} {:?} {:?} {}{}",
            odd.list,
            odd.at,
            odd.name,
            odd.what,
            cause.unwrap_or_default()
        )
    };
    catalog.oddities.iter().map(tell).collect()
}

#[test]
fn pages_become_one_catalogue() {
    let limits = Limits::default();
    let mut gathering = Gathering::new("crm", &limits);
    let next = gathering.take(TOOLS, page(&["a", "b"], Some("2")));
    assert_eq!(next, Ok(Some("2".to_owned())));
    assert_eq!(gathering.take(TOOLS, page(&["c"], None)), Ok(None));
    let prompts = Ask { list: List::Prompts, unsure: false };
    // The same name in another list, and the same cursor, are no repetition.
    let next = gathering.take(prompts, Ok(raw(r#"{"prompts":[{"name":"a"}],"nextCursor":"2"}"#)));
    assert_eq!(next, Ok(Some("2".to_owned())));
    gathering.take(prompts, Ok(raw(r#"{"prompts":[]}"#))).unwrap();
    let catalog = gathering.finish(&Discovery::default()).unwrap();
    assert_eq!(names(&catalog), ["a", "b", "c"]);
    assert_eq!((catalog.prompts.len(), catalog.oddities.len()), (1, 0));
}

#[test]
fn limits_are_errors_that_name_server_and_limit() {
    for (limits, pages, message) in [
        (
            limits(3, 100),
            vec![page(&["a", "b"], Some("2")), page(&["c", "d"], None)],
            "server `crm` offers more tools than the limit of 3",
        ),
        (
            limits(100, 2),
            vec![page(&["a"], Some("2")), page(&["b"], Some("3"))],
            "server `crm` sends its tools in more pages than the limit of 2",
        ),
        (
            limits(100, 100),
            vec![page(&["a"], Some("2")), page(&["b"], Some("3")), page(&["c"], Some("2"))],
            "server `crm` sends the same page of tools again and again",
        ),
    ] {
        assert_eq!(gather(&limits, pages).unwrap_err().to_string(), message);
    }
    let full = vec![page(&["a", "b"], Some("2")), page(&["c"], None)];
    assert_eq!(names(&gather(&limits(3, 2), full).unwrap()), ["a", "b", "c"]);
}

#[test]
fn dkr_15_a_list_that_cannot_be_had_is_a_failure_and_never_an_empty_one() {
    let refused = || Err(RpcError::internal("down"));
    for (pages, message) in [
        (vec![refused()], "server `crm` refused to list its tools"),
        // DOM-83: what the first page held counts for nothing either.
        (vec![page(&["a"], Some("2")), refused()], "server `crm` refused to list its tools"),
        (vec![Ok(raw("{}"))], "server `crm` sent no list of tools"),
        (vec![Ok(raw(r#"{"tools":null}"#))], "server `crm` sent no list of tools"),
        (
            vec![Err(RpcError::method_not_found("tools/list"))],
            "server `crm` refused to list its tools",
        ),
    ] {
        assert_eq!(gather(&Limits::default(), pages).unwrap_err().to_string(), message);
    }
    // DOM-83: half a list is none.
    let half = gather(&Limits::default(), vec![page(&["a"], Some("2"))]);
    assert_eq!(half.unwrap_err().to_string(), "server `crm` did not send all of its tools");
    assert_eq!(
        gather(&Limits::default(), vec![page(&[], None)]),
        Ok(Catalog { cache: Some(Cache::default()), ..Catalog::default() })
    );
}

#[test]
fn one_bad_tool_is_told_and_the_others_stay() {
    let text = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"bad"},{"name":"odd","title":7,"inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]}"#;
    let catalog = gather(&Limits::default(), vec![Ok(raw(text))]).unwrap();
    assert_eq!(names(&catalog), ["a", "odd"]);
    assert_eq!(
        odd(&catalog),
        [
            "tools (0, Some(1)) Some(\"bad\") it cannot be used: `inputSchema` is missing",
            "tools (0, Some(2)) None it is not as the protocol says: `title` must be a string, found a number",
            "tools (0, None) Some(\"a\") an earlier one has the same name",
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
fn a_server_may_be_required_to_have_tools() {
    let discovery = Discovery { require_tools: true, ..Discovery::default() };
    let limits = Limits::default();
    let mut gathering = Gathering::new("crm", &limits);
    gathering.take(TOOLS, page(&[], None)).unwrap();
    assert_eq!(
        gathering.finish(&discovery).unwrap_err().to_string(),
        "no tools found on server: crm"
    );
}

#[test]
fn what_is_kept_is_kept_for_the_shortest_time() {
    let text = |members: &str| Ok(raw(&format!(r#"{{"tools":[],{members}}}"#)));
    let pages = vec![
        text(r#""nextCursor":"2","ttlMs":500,"cacheScope":"public""#),
        text(r#""nextCursor":"3","ttlMs":300,"cacheScope":"private""#),
        text(r#""ttlMs":400,"cacheScope":"public""#),
    ];
    let cache = gather(&Limits::default(), pages).unwrap().cache.unwrap();
    assert_eq!((cache.ttl_ms, cache.scope), (300, CacheScope::Private));
}

#[test]
fn hol_17_and_18_only_what_is_wanted_and_declared_is_listed() {
    // HOL-18 as well.
    let everything = r#"{"tools":{},"prompts":{},"resources":{}}"#;
    let all = Discovery::default();
    let without = |tools, prompts| Discovery { tools, prompts, ..Discovery::default() };
    let methods = |discovery: &Discovery, text: &str| -> Vec<_> {
        let asks = asks(discovery, &declared(text));
        asks.iter().map(|ask| ask.list.method()).collect()
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
fn only_a_list_that_was_never_promised_may_be_unknown() {
    let unknown = || Err(RpcError::method_not_found("x"));
    let limits = Limits::default();
    let mut gathering = Gathering::new("crm", &limits);
    for ask in asks(&Discovery::default(), &declared("{}")) {
        assert_eq!(gathering.take(ask, unknown()), Ok(None));
    }
    // Who gave a first page knows the method.
    for ask in asks(&Discovery::default(), &declared("{}")) {
        gathering.take(ask, page(&["a"], Some("2"))).unwrap();
        assert!(gathering.take(ask, unknown()).is_err());
    }
    let mut gathering = Gathering::new("crm", &limits);
    for ask in asks(&Discovery::default(), &declared(r#"{"resources":{}}"#)) {
        let outcome = gathering.take(ask, unknown());
        assert_eq!(outcome.is_ok(), ask.list == List::Templates, "{ask:?}");
        let other = gathering.take(ask, Err(RpcError::internal("x")));
        assert!(other.is_err(), "{ask:?}");
    }
}

#[test]
fn dis_15_a_change_that_was_not_declared_has_no_effect() {
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
        assert!(heeds(method, &all, &with), "{method}");
        assert!(!heeds(method, &all, &without), "{method}");
        assert!(!heeds(method, &nothing, &with), "{method}");
    }
    assert!(!heeds(method::PROGRESS, &all, &with));
}
