//! Debian's Prometheus scrapes real programs, and its alerts fire for the one that leaks. The rules are those that are shipped, with shorter times.

mod support;

use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::Place;
use support::live::{Collector, Holder, wait_for};
use support::programs;
use support::recorded::{Ended, run};
use support::scrape::{collector, page, request, value};

/// A minute of the rules, in milliseconds.
const MINUTE_MS: u64 = 400;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/prometheus").join(name)
}

/// A program of Prometheus.
fn tool(name: &str) -> Command {
    let found = Command::new(name).arg("--version").output();
    assert!(found.is_ok_and(|output| output.status.success()), "'{name}' is needed: apt-get install prometheus");
    Command::new(name)
}

fn promtool(arguments: &[&str], file: &Path) -> Ended {
    run(tool("promtool").args(arguments).arg(file))
}

#[test]
fn the_shipped_rules_pass_their_tests() {
    promtool(&["check", "rules"], &shipped("highwater.rules.yml")).succeeded();
    promtool(&["check", "config"], &shipped("prometheus.yml")).succeeded();
    let tested = promtool(&["test", "rules"], &shipped("highwater.rules.test.yml")).succeeded();
    assert!(tested.stdout_text().contains("SUCCESS"), "{}", tested.stdout_text());
    // The tests can fail: without the conditions that tell load from a leak, they do.
    let place = Place::new();
    std::fs::copy(shipped("highwater.rules.test.yml"), place.file("highwater.rules.test.yml")).unwrap();
    let rules = std::fs::read_to_string(shipped("highwater.rules.yml")).unwrap();
    for (part, instead) in [
        ("highwater_process_survivor_bytes", "highwater_process_resident_memory_bytes"),
        ("and highwater_process_survivor_bytes offset 60m > 0", ""),
        ("> 1.02 *", "> 1.5 *"),
        ("7200", "72"),
    ] {
        assert!(rules.contains(part), "{part}");
        place.write("highwater.rules.yml", rules.replace(part, instead));
        let tested = promtool(&["test", "rules"], &place.file("highwater.rules.test.yml"));
        assert_ne!(tested.shell_status(), 0, "{part}: {}", tested.stdout_text());
    }
}

/// The shipped rules with times of `MINUTE_MS` for each minute.
fn shortened_rules() -> String {
    let rules = std::fs::read_to_string(shipped("highwater.rules.yml")).unwrap();
    let minutes = regex::Regex::new(r"\b(\d+)m\b").unwrap();
    let shorter = minutes.replace_all(&rules, |found: &regex::Captures<'_>| {
        format!("{}ms", found[1].parse::<u64>().unwrap() * MINUTE_MS)
    });
    let two_hours = 120 * MINUTE_MS / 1000;
    assert!(shorter.contains(" 7200)") && shorter.contains("[4000ms]") && shorter.contains("for: 2000ms"), "{shorter}");
    shorter.replace(" 7200)", &format!(" {two_hours})"))
}

/// A running Prometheus, ended with the test.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(place: &Place, target: SocketAddr) -> Self {
        place.write("rules.yml", shortened_rules());
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: highwater, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
        );
        let config = place.write("prometheus.yml", config);
        let log = place.file("prometheus.log");
        let mut command = tool("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", place.file("data").display()));
        command.arg("--web.listen-address=127.0.0.1:0").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut address = None;
        wait_for("Prometheus", || {
            let text = std::fs::read_to_string(&log).unwrap();
            let lines = text.lines().filter(|line| line.contains("Listening on"));
            address = lines.filter_map(|line| line.rsplit_once("address=")?.1.trim().parse().ok()).next();
            address.is_some_and(|address| request(address, "GET", "/-/ready", "").0 == 200)
        });
        Self { child, address: address.unwrap() }
    }

    /// The answer of its API.
    fn ask(&self, path: &str) -> Value {
        let (status, head, body) = request(self.address, "GET", path, "");
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status, 200, "{path}: {head}{text}");
        // Long answers come in chunks; the document is between the first and the last brace.
        let (begin, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        let document: String = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(&text),
            false => text[begin..=end].to_owned(),
        };
        serde_json::from_str(&document).unwrap_or_else(|error| panic!("{error}: {document}"))
    }

    fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(expression)));
        answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{expression}: {answer}")).clone()
    }

    /// The programs for which an alert fires now.
    fn firing(&self, alert: &str) -> Vec<String> {
        let answer = self.ask("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().unwrap();
        let is_it = |one: &&Value| one["labels"]["alertname"] == alert && one["state"] == "firing";
        alerts.iter().filter(is_it).map(|one| one["labels"]["service"].as_str().unwrap().to_owned()).collect()
    }

    /// The programs for which an alert has fired at any time: Prometheus keeps that as a series.
    fn ever_fired(&self, alert: &str) -> Vec<String> {
        let series = self.query(&format!("count_over_time(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}[1h])"));
        let mut services: Vec<String> =
            series.iter().map(|one| one["metric"]["service"].as_str().unwrap().to_owned()).collect();
        services.sort();
        services.dedup();
        services
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unchunked(text: &str) -> String {
    let (mut rest, mut whole) = (text, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A program with a shape, whose name as a service is the shape.
fn shape(collector: &Collector, name: &str) -> Holder {
    let mut command = collector.command(["run", "-q", "--"]);
    command.arg(programs::c("shapes")).arg(name).env("OTEL_SERVICE_NAME", name);
    Holder::start(command)
}

#[test]
fn alerts_fire_for_the_program_that_leaks_and_for_no_other() {
    let limit = "150MB";
    let options =
        ["--survivor-age", "3s", "--metrics-every", "200ms", "--metrics-limit", limit, "--metrics-sites", "2"];
    let (collector, address) = collector(&options);
    let shapes: Vec<Holder> = ["leak", "steady", "sawtooth"].iter().map(|name| shape(&collector, name)).collect();
    let prometheus = Prometheus::start(&collector.place, address);
    wait_for("the first scrape", || !prometheus.query("highwater_process_live_bytes").is_empty());
    // What Prometheus stores is what the page says: a figure of a process that holds still.
    let steady = shapes[1].pid;
    let blocks = format!("highwater_process_start_time_seconds{{pid=\"{steady}\"}}");
    let stored = prometheus.query(&blocks)[0]["value"][1].as_str().unwrap().parse::<f64>().unwrap();
    assert_eq!(Some(stored as u64), value(&page(address), "highwater_process_start_time_seconds", steady));
    dashboard_is_understood(&prometheus, &page(address));
    wait_for("the alert about steady growth", || !prometheus.firing("HighwaterSteadyGrowth").is_empty());
    wait_for("the alert about the limit", || !prometheus.ever_fired("HighwaterMemoryLimit").is_empty());
    for alert in ["HighwaterSteadyGrowth", "HighwaterMemoryLimit"] {
        assert_eq!(prometheus.ever_fired(alert), ["leak"], "{alert}");
    }
    // The others were watched for as long as the rules need.
    for service in ["steady", "sawtooth"] {
        let watched = format!("highwater_process_survivor_bytes{{service=\"{service}\"}} offset {}ms", 60 * MINUTE_MS);
        assert_eq!(prometheus.query(&watched).len(), 1, "{service}");
    }
    assert_eq!(prometheus.query("up == 0"), Vec::<Value>::new());
}

/// Every expression of the dashboard is valid, and every metric in it exists.
fn dashboard_is_understood(prometheus: &Prometheus, page: &str) {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(shipped("grafana.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let metric = regex::Regex::new(r"\bhighwater_\w+").unwrap();
    let mut expressions = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        let concrete =
            expression.replace("$__rate_interval", "1m").replace("$service", ".*").replace("$instance", ".*");
        assert!(!concrete.contains('$'), "{concrete}");
        wait_for(expression, || !prometheus.query(&concrete).is_empty());
        for name in metric.find_iter(expression).map(|found| found.as_str()) {
            // Sites come after the first scrape.
            let is_shown = page.contains(&format!("\n{name}{{")) || name.starts_with("highwater_site_");
            assert!(is_shown, "{name}");
        }
        expressions += 1;
    }
    assert!(expressions >= 8);
}
