//! The server over real sockets: which requests are answered, the header fields of every answer, and what no client can do to it.

mod support;

use std::io::{Read, Write};
use std::time::Duration;
use support::history::{history, written};
use support::{Place, Response, Running};

fn small() -> (Place, Running) {
    let (catalog, events) = history(7, 300);
    let place = Place::new();
    let server = Running::new(&[place.write("small.hw", &written(&catalog, &events, 100, 50))]);
    (place, server)
}

#[test]
fn the_opened_address_leaves_a_cookie_and_leads_to_the_page() {
    let (_place, server) = small();
    let path = server.address.split_once(&server.port.to_string()).unwrap().1;
    let host = format!("Host: localhost:{}\r\n", server.port);
    let introduced = server.raw(&format!("GET {path} HTTP/1.1\r\n{host}\r\n"));
    assert_eq!((introduced.status, introduced.field("location")), (303, Some("/")));
    let cookie = introduced.field("set-cookie").unwrap();
    assert!(cookie.starts_with(&format!("highwater-{}=", server.port)), "{cookie}");
    assert!(cookie.contains("SameSite=Lax") && cookie.contains("HttpOnly"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let page = server.raw(&format!("GET / HTTP/1.1\r\n{host}Cookie: {cookie}\r\n\r\n"));
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("<title>Highwater</title>"));
    let script = server.raw(&format!("GET /assets/app.js HTTP/1.1\r\n{host}Cookie: {cookie}\r\n\r\n"));
    assert_eq!(script.status, 200);
    // A client with the token can get the link to pass it on; no other client can.
    let link = server.raw(&format!("GET /api/1/link HTTP/1.1\r\n{host}Cookie: {cookie}\r\n\r\n"));
    assert_eq!(link.text(), format!("{{\"address\":\"{}\"}}", server.address));
    assert_eq!(server.raw(&format!("GET /api/1/link HTTP/1.1\r\n{host}\r\n")).status, 401);
    for response in [&introduced, &page, &script, &link] {
        let policy = response.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.field("referrer-policy"), Some("no-referrer"));
    }
}

#[test]
fn who_has_no_token_or_is_not_our_page_gets_one_line() {
    let (_place, server) = small();
    let (port, token) = (server.port, &server.token);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let cases = [
        (format!("GET /api/1/sources HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), 401),
        (format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), 401),
        (format!("GET /assets/app.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), 401),
        (format!("GET /?token=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), 401),
        (format!("GET / HTTP/1.1\r\nHost: rebound.example:{port}\r\n{bearer}\r\n"), 403),
        (format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n{bearer}\r\n"), 403),
        (format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: null\r\n{bearer}\r\n"), 403),
        (format!("POST /api/1/sources HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 405),
        (format!("GET /api/1/live/snapshot?pid=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 405),
        (format!("DELETE / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 405),
        (format!("GET /api/1/nothing HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 404),
        (format!("GET /../Cargo.toml HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 404),
        (format!("GET /api/1/rows?source=9 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 404),
        (format!("GET /api/1/rows?filter=colour:red HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 400),
        (format!("GET /api/1/rows?metric=most HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 400),
        (format!("GET /api/1/rows?from=9&to=3 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}\r\n"), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (format!("POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}Content-Length: 99999999999\r\n\r\n"), 413),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(40_000)), 431),
    ];
    for (request, status) in cases {
        let response = server.raw(&request);
        assert_eq!(response.status, status, "{request}: {}", response.text());
        assert_eq!(response.text().lines().count(), 1, "{}", response.text());
    }
    assert_eq!(server.get("/api/1/sources").status, 200);
}

#[test]
fn a_connection_is_kept_for_several_requests_even_if_they_come_at_once() {
    let (_place, server) = small();
    let mut stream = server.connect();
    let request = format!(
        "GET /api/1/timeline?points=3 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.port, server.token
    );
    stream.write_all(request.repeat(3).as_bytes()).unwrap();
    let answers: Vec<String> = (0..3).map(|_| Response::read(&mut stream).text()).collect();
    assert!(answers[0].contains("\"result\"") && answers.iter().all(|answer| *answer == answers[0]));
    stream.write_all(request.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n").as_bytes()).unwrap();
    assert_eq!(Response::read(&mut stream).field("connection"), Some("close"));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn fifty_clients_at_once_get_the_same_answers() {
    let (_place, server) = small();
    let questions = ["sources", "rows?metric=allocated&filter=size:100..", "tree?metric=peak", "leaks", "histograms"];
    let expected = questions.map(|question| server.get(&format!("/api/1/{question}")).text());
    std::thread::scope(|scope| {
        for client in 0..50 {
            let (server, expected) = (&server, &expected);
            scope.spawn(move || {
                for round in 0..5 {
                    let at = (client + round) % questions.len();
                    let answer = server.get(&format!("/api/1/{}", questions[at])).text();
                    let last = |text: &str| text.lines().last().map(str::to_owned);
                    assert_eq!(last(&answer), last(&expected[at]), "{}", questions[at]);
                }
            });
        }
    });
}

#[test]
fn clients_that_leave_in_the_middle_do_no_harm() {
    let (_place, server) = small();
    for part in [0, 1, 10, 40, 80] {
        let mut stream = server.connect();
        let request = format!("GET /api/1/sources HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", server.port);
        stream.write_all(&request.as_bytes()[..part.min(request.len())]).unwrap();
    }
    let silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    assert_eq!(server.get("/api/1/sources").status, 200);
    drop(silent);
}

#[test]
fn a_question_is_given_up_when_its_client_leaves() {
    // Long enough for checks of the connection in between: the answer needs all events.
    let (catalog, events) = history(3, 400_000);
    let place = Place::new();
    let server = Running::new(&[place.write("long.hw", &written(&catalog, &events, 1 << 20, 1 << 16))]);
    let mut stream = server.connect();
    let request = format!(
        "GET /api/1/histograms?filter=allocated%3A0.. HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.port, server.token
    );
    stream.write_all(request.as_bytes()).unwrap();
    drop(stream);
    // Other clients are answered meanwhile and afterwards.
    assert_eq!(server.get("/api/1/sources").status, 200);
    assert!(server.ask("histograms?filter=allocated%3A0..")["size"].as_array().is_some());

    // Without a server: if the callback returns `false`, there is no answer.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let mut asker = |_: Option<(f64, &str)>| {
        asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    };
    let work = highwater_store::history::Work::asked_by(&mut asker);
    std::thread::sleep(Duration::from_millis(30));
    let request = highwater_view::http::request::Request::question(
        "histograms",
        vec![("filter".to_owned(), "allocated:1..".to_owned())],
    );
    assert_eq!(server.api.ask(&request, &work), Err(highwater_query::QueryError::Cancelled));
    assert!(asked.load(std::sync::atomic::Ordering::Relaxed) > 0);
}
