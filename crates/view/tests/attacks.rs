//! Attacks by a stranger on this machine, or by a page in the same browser, over real sockets.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::history::{history, written};
use support::{Place, Response, Running};

fn small() -> (Place, Running) {
    let (catalog, events) = history(7, 300);
    let place = Place::new();
    let server = Running::new(&[place.write("small.hw", &written(&catalog, &events, 100, 50))]);
    (place, server)
}

/// True when the server has closed a connection, or does so within some time.
fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn everything_says_that_nobody_else_may_load_keep_or_frame_it() {
    let (_place, server) = small();
    let stranger = server.raw(&format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port));
    let answers = [
        server.get("/"),
        server.get("/assets/app.js"),
        server.get("/api/1/sources"),
        server.get("/api/1/rows"),
        server.get("/api/1/save"),
        server.get("/nothing"),
        server.get("/api/1/rows?filter=nonsense"),
        server.request("OPTIONS", "/api/1/rows", ""),
        stranger,
        server.raw("nonsense\r\n\r\n"),
    ];
    for answer in answers {
        let policy = answer.field("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.field("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.field("cross-origin-opener-policy"), Some("same-origin"));
        assert!(!answer.fields.iter().any(|(name, _)| name.starts_with("access-control")), "{:?}", answer.fields);
        assert!(answer.status < 300 || !answer.text().contains(&server.token));
    }
}

#[test]
fn names_that_could_lead_elsewhere_are_none_of_ours() {
    let (_place, server) = small();
    let (port, token) = (server.port, &server.token);
    let status = |host: &str| {
        let host = host.replace("PORT", &port.to_string());
        server.raw(&format!("GET / HTTP/1.1\r\n{host}Authorization: Bearer {token}\r\n\r\n")).status
    };
    for ours in ["Host: 127.0.0.1:PORT\r\n", "Host: LocalHost:PORT\r\n", "host:[::1]:PORT\r\n"] {
        assert_eq!(status(ours), 200, "{ours}");
    }
    for other in [
        "",
        "Host: \r\n",
        "Host: 127.0.0.1\r\n",
        "Host: localhost:1\r\n",
        "Host: 127.0.0.1.evil.example:PORT\r\n",
        "Host: localhost.evil.example:PORT\r\n",
        "Host: evil.example:PORT\r\n",
        "Host: evil@127.0.0.1:PORT\r\n",
        "Host: 127.0.0.2:PORT\r\n",
        "Host: 0.0.0.0:PORT\r\n",
        "Host: 2130706433:PORT\r\n",
        "Host: [::ffff:127.0.0.1]:PORT\r\n",
        "Host: localhost.:PORT\r\n",
        "Host: 127.0.0.1:PORT, evil.example\r\n",
        "Host: 127.0.0.1:PORT\r\nHost: 127.0.0.1:PORT\r\n",
    ] {
        assert_eq!(status(other), 403, "{other}");
    }
}

#[test]
fn another_servers_page_cannot_use_our_cookie() {
    let (_place, server) = small();
    let (port, token) = (server.port, &server.token);
    let cookie = format!("Host: localhost:{port}\r\nCookie: highwater-{port}={token}\r\n");
    let status = |method: &str, path: &str, more: &str| {
        server.raw(&format!("{method} {path} HTTP/1.1\r\n{cookie}{more}\r\n")).status
    };
    let page = "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Site: ";
    assert_eq!(status("GET", "/api/1/sources", ""), 200);
    assert_eq!(status("GET", "/api/1/sources", &format!("{page}same-origin\r\n")), 200);
    // Cookies are not bound to ports: to the browser, a page of another server on this machine is of the same site.
    for site in ["same-site", "cross-site"] {
        assert_eq!(status("GET", "/api/1/sources", &format!("{page}{site}\r\n")), 403);
        assert_eq!(status("POST", "/api/1/live/snapshot?pid=1", &format!("{page}{site}\r\n")), 403);
        let image = format!("Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\nSec-Fetch-Site: {site}\r\n");
        assert_eq!(status("GET", "/api/1/save", &image), 403);
        let link = format!("Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: {site}\r\n");
        assert_eq!((status("GET", "/", &link), status("GET", "/api/1/save", &link)), (200, 403));
    }
    for origin in ["http://localhost:1", "https://localhost:PORT", "http://evil.example", "null", "", "file://"] {
        let origin = format!("Origin: {}\r\n", origin.replace("PORT", &port.to_string()));
        assert_eq!(status("GET", "/api/1/sources", &origin), 403, "{origin}");
        assert_eq!(status("OPTIONS", "/api/1/sources", &origin), 403, "{origin}");
    }
    let twice = format!("Origin: http://localhost:{port}\r\nOrigin: http://evil.example\r\n");
    assert_eq!(status("GET", "/api/1/sources", &twice), 403);
}

#[test]
fn the_address_on_a_command_line_is_good_once_and_has_no_token_in_it() {
    let (_place, server) = small();
    assert!(!server.address_for_once.contains(&server.token));
    let path = server.address_for_once.split_once(&server.port.to_string()).unwrap().1;
    let open = || server.raw(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port));
    let first = open();
    assert_eq!((first.status, first.field("location")), (303, Some("/")));
    assert!(first.field("set-cookie").unwrap().contains(&server.token));
    let again = open();
    assert_eq!((again.status, again.field("set-cookie")), (401, None));
}

#[test]
fn only_what_a_question_allows_is_done() {
    let (_place, server) = small();
    for (method, path, status, allowed) in [
        ("POST", "/", 405, Some("GET, HEAD")),
        ("PUT", "/api/1/rows", 405, Some("GET, HEAD")),
        ("OPTIONS", "/api/1/sources", 405, Some("GET, HEAD")),
        ("POST", "/api/1/save", 405, Some("GET, HEAD")),
        ("TRACE", "/assets/app.js", 405, Some("GET, HEAD")),
        ("GET", "/api/1/live/snapshot?pid=1", 405, Some("POST")),
        ("HEAD", "/api/1/live/snapshot?pid=1", 405, Some("POST")),
        ("POST", "/api/1/nothing", 404, None),
        ("get", "/", 405, Some("GET, HEAD")),
    ] {
        // The answer to `HEAD` has no body, so the connection is read to its end.
        let mut stream = server.connect();
        let asking = server.asking(method, path).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        stream.write_all(asking.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
        let allow = answer.lines().find_map(|line| line.strip_prefix("Allow: "));
        assert_eq!(allow, allowed, "{method} {path}");
        assert_eq!(answer.ends_with("\r\n\r\n"), method == "HEAD", "{answer}");
    }
    for path in ["/", "/api/1/sources", "/api/1/rows", "/api/1/save"] {
        let mut stream = server.connect();
        stream.write_all(server.asking("HEAD", path).as_bytes()).unwrap();
        stream.write_all(server.asking("GET", "/nothing").as_bytes()).unwrap();
        let mut both = Vec::new();
        while !String::from_utf8_lossy(&both).contains("there is nothing here") {
            let mut some = [0; 4096];
            let count = stream.read(&mut some).unwrap();
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&both));
            both.extend_from_slice(&some[..count]);
        }
        let both = String::from_utf8_lossy(&both);
        let (head, rest) = both.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && rest.starts_with("HTTP/1.1 404"), "{path}: {both}");
    }
}

#[test]
fn paths_and_parameters_mean_nothing_but_themselves() {
    let (_place, server) = small();
    for path in [
        "/../Cargo.toml",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "/%2e%2e%2f%2e%2e%2fetc/passwd",
        "//etc/passwd",
        "/assets//app.js",
        "/assets/app.js%00.html",
        "/assets/",
        "/api/1",
        "/api/1/",
        "/api/1//rows",
        "/api/1/rows/",
        "/api/2/rows",
        "/api/1/%2e%2e/1/rows",
        "/API/1/rows",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.get("/%61pi/1/sources").status, 200);
    for path in ["/%", "/%4", "/%zz", "/%ff", "/api/1/rows?search=%ff", "/api/1/rows?%=1"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    let huge = "99999999999999999999999";
    for question in [
        "rows?limit=-1",
        "rows?limit=10001",
        "rows?offset=1e3",
        &format!("rows?offset={huge}"),
        &format!("rows?source={huge}"),
        &format!("rows?from={huge}"),
        &format!("rows?at={huge}s"),
        "rows?at=nan%25",
        "rows?at=infs",
        "rows?at=-1ns",
        "tree?least=nan",
        "tree?least=1e999",
        "timeline?points=0x10",
        &format!("timeline?points={huge}"),
        &format!("blocks?filter=size%3A{huge}.."),
        "image/treemap?depth=101",
        &format!("compare?a=0@{huge}&b=0"),
        "compare?a=0",
        "leaks?points=1000000000",
        &format!("rows?{}", "filter=size:1..&".repeat(65)),
        "rows?filter=inside:regex:(a%7b999%7d)%7b999%7d",
        "rows?filter=a%0d%0aSet-Cookie:%20x",
    ] {
        let answer = server.get(&format!("/api/1/{question}"));
        assert_eq!(answer.status, 400, "{question}: {}", answer.text());
        assert_eq!(answer.text().lines().count(), 1, "{question}: {}", answer.text());
        assert!(!answer.fields.iter().any(|(name, _)| name == "set-cookie"), "{question}");
    }
    // The limits of numbers; and of several values of a parameter the first counts.
    let most = u64::MAX;
    for question in [
        &format!("rows?offset={most}"),
        &format!("rows?from=0&to={most}&at={most}"),
        &format!("blocks?offset=1000000&filter=size%3A{most}..{most}&filter=lifetime%3A0..{most}"),
        &format!("timeline?from={most}&to={most}&points=1"),
        &format!("histograms?filter=live%3A{most}"),
        "rows?limit=1&limit=nonsense",
    ] {
        server.ask(question);
    }
    assert_eq!(server.get(&format!("/api/1/rows?{}", "a=b&".repeat(257))).status, 400);
}

#[test]
fn a_hundred_silent_strangers_keep_nobody_out() {
    let (_place, server) = small();
    let mut known = server.connect();
    known.write_all(server.asking("GET", "/api/1/live").as_bytes()).unwrap();
    assert_eq!(Response::read(&mut known).status, 200);
    // More than there are slots; half of them are in the middle of a request.
    let mut strangers: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = server.connect();
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(server.get("/api/1/live").status, 200);
    // A connection that has shown the token stays, however long it is idle; the oldest strangers were closed.
    known.write_all(server.asking("GET", "/api/1/live").as_bytes()).unwrap();
    assert_eq!(Response::read(&mut known).status, 200);
    assert!(strangers[..200].iter_mut().all(|stream| is_closed(stream, Duration::from_secs(10))));
    // Clients that were refused cannot stay either.
    let mut refused = server.connect();
    refused.write_all(format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port).as_bytes()).unwrap();
    let answer = Response::read(&mut refused);
    assert_eq!((answer.status, answer.field("connection")), (401, Some("close")));
    assert!(is_closed(&mut refused, Duration::from_secs(10)));
}

#[test]
fn a_request_that_arrives_byte_by_byte_is_given_up_and_one_that_is_slow_is_answered() {
    let (_place, server) = small();
    let mut slow = server.connect();
    let mut endless = server.connect();
    let begun = Instant::now();
    let asking = server.asking("GET", "/api/1/live");
    for part in asking.as_bytes().chunks(asking.len() / 20) {
        slow.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(Response::read(&mut slow).status, 200);
    // A request that never ends is closed after ten seconds, though it keeps sending.
    let mut gone = false;
    while !gone && begun.elapsed() < Duration::from_secs(120) {
        gone = endless.write_all(b"x").is_err() || is_closed(&mut endless, Duration::from_millis(50));
    }
    assert!(gone);
    // The same with a body that was announced and does not arrive, and with clients that do not read their answers.
    let mut body = server.connect();
    body.write_all(server.asking("POST", "/").replace("\r\n\r\n", "\r\nContent-Length: 9\r\n\r\n1").as_bytes())
        .unwrap();
    let deaf: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(server.asking("GET", "/assets/app.js").repeat(20).as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/api/1/rows").status, 200);
    drop(deaf);
}

#[test]
fn heads_are_bounded() {
    let (_place, server) = small();
    let (port, token) = (server.port, &server.token);
    let with = |fields: &str| {
        server.raw(&format!(
            "GET /api/1/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{fields}\r\n"
        ))
    };
    assert_eq!(with(&format!("Cookie: other={}\r\n", "x".repeat(20_000))).status, 200);
    assert_eq!(with(&"A: b\r\n".repeat(97)).status, 200);
    assert_eq!(with(&"A: b\r\n".repeat(120)).status, 400);
    assert_eq!(with(&format!("A: {}\r\n", "x".repeat(33_000))).status, 431);
    assert_eq!(server.raw(&"x".repeat(33_000)).status, 431);
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "A : b\r\n",
        " A: b\r\n",
        "A\r\n",
        "A: b\u{0}\r\n",
    ] {
        assert_eq!(with(fields).status, 400, "{fields:?}");
    }
    assert_eq!(with("Content-Length: 65537\r\n").status, 413);
}
