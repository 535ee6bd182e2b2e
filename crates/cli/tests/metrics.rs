//! The metrics endpoint: its figures against the program's own, its answers to hostile clients, its profiles in `go tool pprof`.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use support::live::{Holder, wait_for};
use support::scrape::{OPEN_METRICS, collector, exchange, page, parts, python, request, series, value};
use support::{HIGHWATER, copy_program, programs};

#[test]
fn figures_are_those_of_the_program_and_of_the_other_commands() {
    let (collector, address) = collector(&["--survivor-age", "2s", "--metrics-every", "1us", "--metrics-sites", "10"]);
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    // The program's buffer for what it reads is there once it has answered.
    holder.tell("stats");
    let before = page(address);
    let of = |page: &str, metric: &str| value(page, metric, pid).unwrap_or_else(|| panic!("no {metric} in {page}"));
    let (_, kept) = holder.holds("keep 1000 100");
    let page_kept = page(address);
    let difference = |metric: &str| of(&page_kept, metric) - of(&before, metric);
    assert_eq!(difference("highwater_process_live_bytes"), kept);
    assert_eq!(difference("highwater_process_live_blocks"), 1000);
    assert_eq!(difference("highwater_process_allocated_bytes_total"), kept);
    assert_eq!(difference("highwater_process_allocated_blocks_total"), 1000);
    // The program prints its own counts, of the C library's blocks and mappings.
    let stats = holder.tell("stats");
    let stats: Vec<u64> = stats.split(' ').map(|number| number.parse().unwrap()).collect();
    let now = page(address);
    assert_eq!(of(&now, "highwater_process_allocated_blocks_total"), stats[1]);
    assert_eq!(of(&now, "highwater_process_allocated_bytes_total"), stats[2]);
    assert_eq!(of(&now, "highwater_process_live_blocks"), stats[1] - stats[3]);
    assert_eq!(of(&now, "highwater_process_live_bytes"), stats[2] - stats[4]);
    // As 'ps' and 'snapshot' show it: nothing changes meanwhile.
    let listed = collector.process(pid);
    assert_eq!(listed["live_bytes"], of(&now, "highwater_process_live_bytes"));
    assert_eq!(listed["live_blocks"], of(&now, "highwater_process_live_blocks"));
    let snapshot = collector.json(&format!("snapshot --pid {pid}"));
    assert_eq!(snapshot["totals"]["live_bytes"], of(&now, "highwater_process_live_bytes"));
    assert_eq!(snapshot["totals"]["allocated_bytes"], of(&now, "highwater_process_allocated_bytes_total"));
    // The resident set changes a little, but its parts are of one reading.
    let parts: u64 = series(&now, "highwater_process_resident_part_bytes").values().sum();
    assert_eq!(parts, of(&now, "highwater_process_resident_memory_bytes"));

    // Old blocks: all that is there now, and after that also what survives the next two seconds.
    let live = of(&now, "highwater_process_live_bytes");
    let survivors = || of(&page(address), "highwater_process_survivor_bytes");
    wait_for("the blocks to become old", || survivors() == live);
    holder.holds("keep 50 1000");
    holder.holds("drop 25");
    // Resizing leaves a block as old as it is.
    let (_, grown) = holder.holds("grow");
    let rest = live - kept;
    // Blocks of a thousand bytes are at most a moment old: of the others, each has twice the size.
    let old_now = survivors();
    assert!(old_now == rest + 2 * kept || old_now == rest + grown, "{old_now}, {rest}, {kept}, {grown}");
    wait_for("the younger blocks to become old", || survivors() == rest + grown);
    holder.holds("drop 525");
    assert_eq!(survivors(), rest + kept);

    // Sites: read beside the scrapes, with names, and the rest in one series.
    let mut sites = std::collections::BTreeMap::new();
    wait_for("the sites", || {
        sites = series(&page(address), "highwater_site_live_bytes");
        sites.values().sum::<u64>() == rest + kept
    });
    let of_function: u64 =
        sites.iter().filter(|(labels, _)| labels.contains("function=\"grow_blocks\"")).map(|(_, bytes)| bytes).sum();
    assert_eq!(of_function, kept, "{sites:?}");
    assert_eq!(collector.function(pid, "grow_blocks").1, of_function);
    assert!(sites.len() <= 11 && sites.keys().any(|labels| labels.ends_with("site=\"other\"")), "{sites:?}");
    holder.finish();
    wait_for("its series to disappear", || value(&page(address), "highwater_process_live_bytes", pid).is_none());
    assert!(page(address).contains("highwater_processes 0\n"));
}

#[test]
fn labels_survive_any_name_and_the_strict_parser_reads_them() {
    let (collector, address) = collector(&["--metrics-sites", "2", "--metrics-every", "1ms"]);
    let odd = "a \"b\" \\ c\n ü=,{}#";
    let program = collector.place.file(odd);
    copy_program(&programs::c("holder"), &program);
    let mut command = collector.command(["run", "-q", "--"]);
    command.arg(&program).env("OTEL_RESOURCE_ATTRIBUTES", "service.version=1%222%5C3%0A4,service.name=shop");
    let mut holder = Holder::start(command);
    holder.holds("keep 10 10");
    let plain = collector.holder(&[]);
    wait_for("the sites", || page(address).matches("site=\"other\"").count() == 2);
    for (fields, parser) in [
        (OPEN_METRICS, "prometheus_client.openmetrics.parser"),
        ("Accept: text/plain;version=0.0.4\r\n", "prometheus_client.parser"),
    ] {
        let (status, head, body) = request(address, "GET", "/metrics", fields);
        assert_eq!(status, 200);
        let kind = if fields == OPEN_METRICS {
            "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        } else {
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        };
        assert!(head.contains(kind), "{head}");
        let script = format!(
            "import sys, json, {parser} as parser\n\
             families = list(parser.text_string_to_metric_families(sys.stdin.buffer.read().decode()))\n\
             print(json.dumps([[s.name, s.labels, s.value] for family in families for s in family.samples]))"
        );
        let mut parsing = Command::new(python());
        let mut parsing = parsing.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        parsing.stdin.take().unwrap().write_all(&body).unwrap();
        let parsed = parsing.wait_with_output().unwrap();
        assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&body));
        let samples: serde_json::Value = serde_json::from_slice(&parsed.stdout).unwrap();
        let samples = samples.as_array().unwrap();
        let find = |name: &str, pid: u32| {
            let pid = pid.to_string();
            let is_it = |s: &&serde_json::Value| s[0] == name && s[1]["pid"] == pid.as_str();
            samples.iter().find(is_it).unwrap_or_else(|| panic!("no {name} of {pid}"))
        };
        let sample = find("highwater_process_live_bytes", holder.pid);
        assert_eq!(sample[1]["program"], odd);
        assert_eq!((&sample[1]["service"], &sample[1]["version"]), (&"shop".into(), &"1\"2\\3\n4".into()));
        assert_eq!(sample[2].as_f64().unwrap() as u64, collector.process(holder.pid)["live_bytes"].as_u64().unwrap());
        let plain = find("highwater_process_allocated_bytes_total", plain.pid);
        assert_eq!((&plain[1]["program"], &plain[1]["service"]), (&"holder".into(), &"holder".into()));
        assert!(plain[1].get("version").is_none());
    }
}

#[test]
fn profiles_are_read_by_pprof() {
    let (collector, address) = collector(&[]);
    let mut holder = collector.holder(&[]);
    let (blocks, bytes) = holder.holds("keep 700 1000");
    let tool = |what: &str| {
        let url = format!("http://{address}/debug/pprof/heap?{what}");
        let mut go = Command::new("go");
        go.args(["tool", "pprof", "-sample_index=inuse_space", "-unit=B", "-nodefraction=0", "-top", &url]);
        go.env("PPROF_TMPDIR", collector.place.path()).env("HOME", collector.place.path());
        let output = go.output().unwrap_or_else(|error| panic!("'go' is needed (Debian: golang): {error}"));
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    for what in [format!("pid={}", holder.pid), "name=holder".to_owned(), "name=hold".to_owned()] {
        let text = tool(&what);
        let row = text.lines().find(|line| line.ends_with(" keep_blocks")).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(row.split_whitespace().next(), Some(format!("{bytes}B").as_str()), "{text}");
    }
    assert_eq!(blocks, 700);
    let index = String::from_utf8(request(address, "GET", "/debug/pprof/", "").2).unwrap();
    assert!(index.contains(&format!("/debug/pprof/heap?pid={}\t", holder.pid)), "{index}");
    let second = collector.holder(&[]);
    let cases = [
        ("heap", 400),
        ("heap?pid=", 400),
        ("heap?pid=x", 400),
        ("heap?pid=-1", 400),
        ("heap?pid=999999999999", 400),
        ("heap?pid=1&name=holder", 400),
        ("heap?name=holder", 400),
        ("heap?pid=4294967295", 404),
        ("heap?pid=1", 404),
        ("heap?name=nothing%0A%22", 404),
        ("goroutine", 404),
        ("../../etc/passwd", 404),
        ("..%2f..%2fetc%2fpasswd", 404),
    ];
    for (path, expected) in cases {
        let (status, _, body) = request(address, "GET", &format!("/debug/pprof/{path}"), "");
        let body = String::from_utf8(body).unwrap();
        assert_eq!((status, body.lines().count()), (expected, 1), "{path}: {body}");
        assert!(body.ends_with('\n') && !body.trim_end().contains('\n'));
    }
    drop(second);
}

#[test]
fn hostile_clients_get_one_line_or_nothing_and_others_are_served() {
    let (collector, address) = collector(&[]);
    let mut holder = collector.holder(&[]);
    holder.holds("keep 10 10");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"] {
        let (status, head, _) = request(address, method, "/metrics", "");
        assert_eq!(status, 405, "{method}");
        assert!(head.contains("Allow: GET, HEAD"), "{head}");
    }
    let (status, head, body) = request(address, "HEAD", "/metrics", "");
    assert_eq!((status, body.len()), (200, 0));
    assert!(!head.contains("Content-Length: 0"), "{head}");
    for path in ["/metrics/", "/metrics/../metrics", "//metrics", "/%2e%2e/etc/passwd", "/favicon.ico", "/metric%00s"] {
        assert_eq!(request(address, "GET", path, "").0, 404, "{path}");
    }
    for fields in ["Origin: http://evil\r\n", "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-origin\r\n"] {
        assert_eq!(request(address, "GET", "/metrics", fields).0, 403, "{fields}");
    }
    let other_name = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(parts(&exchange(address, other_name)).0, 403);
    let many = "A: b\r\n".repeat(200);
    assert_eq!(request(address, "GET", "/metrics", &many).0, 400);
    for nonsense in [&b"\x16\x03\x01\x02\x00\x01\r\n\r\n"[..], b"GET /metrics\r\n\r\n", b"GET /%zz HTTP/1.1\r\n\r\n"] {
        assert_eq!(parts(&exchange(address, nonsense)).0, 400);
    }
    // A head without an end: the answer may be lost, as we still send when the server closes.
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'a'; 1 << 20]].concat();
    let answer = String::from_utf8(exchange(address, &long)).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");

    // More connections than are served at a time, all in the middle of a request.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    assert!(value(&page(address), "highwater_process_live_bytes", holder.pid).is_some());
    drop(slow);
    // Two requests at once on one connection are answered in order.
    let two = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\n\r\nGET /debug/pprof/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    let answer = String::from_utf8(exchange(address, two.as_bytes())).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert!(answer.contains("/debug/pprof/heap?pid="), "{answer}");
}

#[test]
fn processes_come_and_go_during_scrapes() {
    let (collector, address) = collector(&["--metrics-every", "1ms", "--metrics-sites", "1"]);
    let stay = collector.holder(&[]);
    let scraping = std::thread::spawn(move || (0..60).map(|_| page(address)).collect::<Vec<String>>());
    for _ in 0..8 {
        let mut brief = collector.holder(&[]);
        brief.holds("keep 100 100");
        brief.kill();
    }
    for page in scraping.join().unwrap() {
        assert!(page.ends_with("# EOF\n"));
        assert!(value(&page, "highwater_process_live_bytes", stay.pid).is_some(), "{page}");
    }
    // A process that runs another program holds nothing any more.
    let mut gone = collector.holder(&[]);
    assert!(value(&page(address), "highwater_process_live_bytes", gone.pid).is_some());
    let before = page(address);
    let _ = gone.tell("exec true");
    wait_for("its series to disappear", || value(&page(address), "highwater_process_live_bytes", gone.pid).is_none());
    assert!(before.contains("highwater_processes 2\n"), "{before}");
}

#[test]
fn the_endpoint_is_started_again_and_ends_with_its_collector() {
    let (mut collector, address) = collector(&[]);
    let child = || {
        // The thread that started it is not the first one.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", collector.child.id())).unwrap();
        let all: Vec<String> = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert!(all.len() <= 1, "{all:?}");
        all.first().cloned()
    };
    let mut first = None;
    wait_for("the endpoint", || {
        first = child();
        first.is_some()
    });
    page(address);
    let first = first.unwrap();
    assert!(Command::new("kill").args(["-9", &first]).status().unwrap().success());
    wait_for("another endpoint", || child().is_some_and(|now| now != first));
    page(address);
    let second = child().unwrap();
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    let is_over = || {
        let state = std::fs::read_to_string(format!("/proc/{second}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    wait_for("the endpoint to end", is_over);
    // A port that is taken is reported.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Command::new(HIGHWATER);
    command.args(["collector", "--metrics", &address, "--socket"]).arg(collector.place.file("s"));
    let ended = support::recorded::run(command.arg("--store").arg(collector.place.file("kept")));
    assert!(ended.stderr_text().contains(&format!("no metrics at {address}: ")), "{}", ended.stderr_text());
}

#[test]
fn without_the_option_nothing_listens() {
    let collector = support::live::Collector::new();
    let log = std::fs::read_to_string(collector.place.file("collector.log")).unwrap();
    assert!(!log.contains("metrics"), "{log}");
    let bad = collector.highwater("collector --metrics nowhere");
    assert_eq!(bad.shell_status(), 2);
    assert!(bad.stderr_text().contains("not an address with a port"), "{}", bad.stderr_text());
    assert_eq!(collector.highwater("collector --metrics-sites 3").shell_status(), 2);
}
