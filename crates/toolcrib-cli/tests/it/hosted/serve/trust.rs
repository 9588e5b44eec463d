//! Trust beside a host that runs: it hears of it at once, and what runs goes on until then.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Served;
use crate::Place;
use crate::hosted::{demo, find, native, server, until};

fn state(place: &Place) -> Value {
    server(&place.json(&["servers"]), "demo")["state"].clone()
}

fn is_known(place: &Place) -> bool {
    !place.json(&["servers"])["servers"].as_array().unwrap().is_empty()
}

fn pid(place: &Place) -> Value {
    server(&place.json(&["servers"]), "demo")["pid"].clone()
}

async fn problems(served: &Served) -> Value {
    let answer = served.ask("GET /api/v1/problems HTTP/1.1").await;
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn write(place: &Place, servers: &Value) {
    let text = json!({"version": 1, "servers": servers}).to_string();
    std::fs::write(place.root().join("toolcrib.yaml"), text).unwrap();
}

#[tokio::test]
async fn a_host_that_runs_hears_of_trust_at_once() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::found(&place).await;
    until("it has read its files", || is_known(&place));
    assert_eq!(state(&place), "disabled");
    let told = problems(&served).await;
    assert_eq!(find(&told["problems"], "code", "trust.required")["server"], "demo");
    place.out(&["trust"]);
    assert_eq!(state(&place), "ready");
    assert_eq!(problems(&served).await["problems"], json!([]));
    place.out(&["trust", "--forget"]);
    assert_eq!(state(&place), "disabled");
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn a_change_of_what_runs_waits_and_the_one_before_goes_on() {
    let place = native(&json!({"demo": demo()}));
    place.out(&["trust"]);
    let served = Served::found(&place).await;
    until("it has read its files", || is_known(&place));
    place.out(&["server", "connect", "demo"]);
    let first = pid(&place);
    let mut changed = demo();
    changed["env"] = json!({"A": "1"});
    write(&place, &json!({"demo": changed, "more": demo()}));
    until("it is noticed", || place.json(&["servers"])["servers"].as_array().unwrap().len() == 2);
    assert_eq!(pid(&place), first);
    assert_eq!(place.out(&["call", "demo__echo", "-a", "text=hi"]), "hi\n");
    assert_eq!(server(&place.json(&["servers"]), "more")["state"], "disabled");
    let told = problems(&served).await;
    let required = told["problems"].as_array().unwrap();
    let of: Vec<_> = required.iter().map(|it| (&it["code"], &it["server"])).collect();
    let code = json!("trust.required");
    assert_eq!(of, [(&code, &json!("demo")), (&code, &json!("more"))]);
    // What else is written is taken up meanwhile, and trust makes it all count.
    place.out(&["trust"]);
    assert_ne!(pid(&place), first);
    assert_eq!(place.out(&["call", "more__echo", "-a", "text=ho"]), "ho\n");
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}
