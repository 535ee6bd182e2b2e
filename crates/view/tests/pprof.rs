//! `pprof`: a file instead of JSON. What is in it is checked by `go tool pprof`, in `web/tests/downloads.test.mjs`.

mod support;

use highwater_view::Files;
use std::collections::BTreeMap;
use support::{Place, Running, history};

#[test]
fn the_answer_is_a_file_with_a_harmless_name() {
    let place = Place::new();
    let (catalog, events) = history::history(7, 400);
    let view = Running::new(&[place.write("a \"b\"\r\n.hw", &history::written(&catalog, &events, 100, 50))]);
    let response = view.get("/api/1/pprof?metric=allocated&filter=inside:equal:main");
    assert_eq!((response.status, &response.body[..2]), (200, &[0x1f, 0x8b][..]));
    let field = |name: &str| {
        response.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    assert_eq!(field("Content-Type").as_deref(), Some("application/gzip"));
    let disposition = field("Content-Disposition").unwrap();
    let name = disposition.strip_prefix("attachment; filename=\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
    assert!(name.ends_with("-allocated.pb.gz"), "{name}");
    assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter)), "{name}");
    // Nothing passes: still a profile.
    assert_eq!(view.get("/api/1/pprof?filter=inside:equal:nothing").status, 200);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    let (catalog, events) = history::history(7, 50);
    let view = Running::new(&[place.write("a.hw", &history::written(&catalog, &events, 100, 50))]);
    for (question, status) in
        [("metric=most", 400), ("from=9&to=3", 400), ("source=9", 404), ("filter=size:x..", 400), ("at=never", 400)]
    {
        assert_eq!(view.get(&format!("/api/1/pprof?{question}")).status, status, "{question}");
    }
    assert_eq!(view.request("POST", "/api/1/pprof", "").status, 405);
    let port = view.port;
    assert_eq!(view.raw(&format!("GET /api/1/pprof HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")).status, 401);
}

#[test]
fn the_focus_and_the_hidden_functions_of_a_flame_graph_are_those_of_its_profile() {
    let place = Place::new();
    let (catalog, events) = history::history(7, 400);
    let view = Running::new(&[place.write("a.hw", &history::written(&catalog, &events, 100, 50))]);
    let totals = |view: &Running, question: &str| -> BTreeMap<String, u64> {
        let rows = view.ask(&format!("rows?by=function&metric=live&sort=total{question}"))["rows"].take();
        let total = |row: &serde_json::Value| {
            Some((row["key"].as_str()?.to_owned(), row["total"].as_u64()?)).filter(|(_, total)| *total > 0)
        };
        rows.as_array().unwrap().iter().filter_map(total).collect()
    };
    // The profile is read as any other file.
    let profile = |question: &str| {
        let response = view.get(&format!("/api/1/pprof?metric=live{question}"));
        assert_eq!(response.status, 200, "{question}");
        let file = place.write("shown.pb.gz", &response.body);
        totals(&Running::opening(&[file], Box::new(Files::default()), None), "")
    };
    let all = totals(&view, "");
    assert_eq!(profile(""), all);
    let focused = totals(&view, "&filter=inside:equal:step_1");
    assert_eq!(profile("&focus=step_1"), focused);
    assert!(focused.len() < all.len() && focused["step_1"] == focused["main"]);
    let mut without = all.clone();
    without.remove("step_0");
    without.remove("make_3");
    assert_eq!(profile("&hide=step_0&hide=make_3"), without);
}
