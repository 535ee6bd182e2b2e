//! Verdicts for CI services, read by parsers that are not ours; the comparison as Markdown; the scripts of the jobs in docs/ci.

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{HIGHWATER, Place, Run, as_lines, kitchen};

/// Runs a Python program with this input, and returns the JSON that it prints.
#[track_caller]
fn python(program: &str, input: &str) -> Value {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{input}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The kitchen, whose site has a name and a file with everything that formats must escape, and which is in this folder.
fn odd_kitchen() -> Place {
    let place = Place::new();
    let mut events = kitchen();
    for event in &mut events {
        if event["stack"][0]["function"] == "chop" {
            event["stack"][0] =
                json!({"function": "chop<\"a\"> & 50%: b,c|d`e]]>", "file": "sources/ch%op.rs", "line": 7});
        }
    }
    place.import("kitchen.hw", &events);
    std::fs::create_dir(place.file("sources")).unwrap();
    place.write("sources/ch%op.rs", "");
    place
}

const BROKEN: &str = "check kitchen.hw --max-leaked 799 --max-peak 1MiB --max-growth 5 --each absent";
const ODD: &str = "chop<\"a\"> & 50%: b,c|d`e]]>";

#[test]
fn junit_has_a_test_case_for_each_limit() {
    let place = odd_kitchen();
    let run = place.highwater(&format!("{BROKEN} --format junit"));
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let read = "
import json, sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.stdin.buffer.read())
case = lambda one: [one.get('classname'), one.get('name'), [[found.tag, found.get('message'), found.text] for found in one]]
suite = lambda one: [one.get('name'), one.get('tests'), one.get('failures'), one.get('errors'), [case(test) for test in one]]
print(json.dumps([root.tag, root.get('tests'), root.get('failures'), root.get('errors'), [suite(one) for one in root]]))";
    let found = python(read, &run.stdout);
    assert_eq!(found.as_array().unwrap()[..4], [json!("testsuites"), json!("5"), json!("1"), json!("1")], "{found}");
    let suites = &found[4];
    let own = [["highwater", "the file is sound"], ["highwater", "everything with a limit is recorded"]];
    let own: Vec<Value> = own.iter().map(|[class, name]| json!([class, name, []])).collect();
    assert_eq!(suites[0], json!(["kitchen.hw", "2", "0", "0", own]));
    let process = &suites[1];
    assert_eq!(process.as_array().unwrap()[..4], [json!("kitchen"), json!("3"), json!("1"), json!("1")]);
    let cases = &process[4];
    assert_eq!(cases[0], json!(["highwater.kitchen", "peak", []]));
    assert_eq!((&cases[1][1], &cases[1][2][0][0]), (&json!("live at the end"), &json!("failure")));
    let story = cases[1][2][0][2].as_str().unwrap();
    assert!(story.contains("and the limit is 799 B (+1 B)") && story.contains(ODD), "{story}");
    assert!(story.ends_with("\nhighwater view kitchen.hw --at end"), "{story}");
    assert_eq!((&cases[2][2][0][0]), &json!("error"), "{cases}");
    assert!(cases[2][2][0][1].as_str().unwrap().contains("no mark is named 'absent'"), "{cases}");
    // The same names for another process id and other figures of earlier runs; suppressions are in the output of the first suite.
    let names = |pid: u64, bread: u64| {
        let mut events = kitchen();
        events.iter_mut().filter(|event| event["event"] == "source").for_each(|event| event["pid"] = pid.into());
        events.iter_mut().filter(|event| event["size"] == 4000).for_each(|event| event["size"] = bread.into());
        let file = format!("again-{pid}.hw");
        place.import(&file, &events);
        place.write("known.supp", "leak:^chop$\nleak:nothing\n");
        let line = format!("check {file} --max-peak 1MiB --baseline {file} --suppressions known.supp --format junit");
        let xml = place.highwater(&line).stdout;
        for line in ["suppressed: 800 B in 1 block by leak:^chop$", "unused suppression: leak:nothing"] {
            assert!(xml.contains("<system-out>") && xml.contains(line), "{xml}");
        }
        let read = "
import json, sys, xml.etree.ElementTree as tree
print(json.dumps([[one.get('classname'), one.get('name')] for one in tree.fromstring(sys.stdin.buffer.read()).iter('testcase')]))";
        python(read, &xml)
    };
    assert_eq!(names(7, 4000), names(8, 5000));
    // A file that is not sound is a failure of its own.
    place.write("bad.jsonl", format!("{}{{\"event\":\"explode\"}}\n", as_lines(&kitchen())));
    let run = place.highwater("check bad.jsonl --format junit");
    assert_eq!((run.code, &python(read, &run.stdout)[2]), (1, &json!("1")), "{}", run.stdout);
}

/// An annotation: its properties, and its message.
fn annotation(line: &str) -> (Vec<(String, String)>, String) {
    // As GitHub's toolkit reads them: properties have two more letters escaped than messages.
    let message = |text: &str| text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
    let property = |text: &str| message(&text.replace("%3A", ":").replace("%2C", ","));
    let rest = line.strip_prefix("::").unwrap_or_else(|| panic!("{line}"));
    let (command, text) = rest.split_once("::").unwrap();
    let properties = command.split_once(' ').unwrap().1.split(',');
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), property(value))).unwrap();
    (properties.map(pair).collect(), message(text))
}

#[test]
fn github_gets_one_annotation_for_each_limit_that_is_not_kept() {
    let place = odd_kitchen();
    place.write("unused.supp", "leak:no,thing\n");
    let run = place.highwater(&format!("{BROKEN} --suppressions unused.supp --format github"));
    assert_eq!(run.code, 1);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("::error file=sources/ch%25op.rs,line=7,"), "{lines:?}");
    let (properties, message) = annotation(lines[0]);
    assert_eq!(properties[0], ("file".to_owned(), "sources/ch%op.rs".to_owned()));
    assert_eq!(properties[2], ("title".to_owned(), "highwater: live at the end".to_owned()));
    assert!(message.contains(ODD) && message.contains("\nhighwater view kitchen.hw"), "{message}");
    let (properties, message) = annotation(lines[1]);
    assert!(properties.len() == 1 && message.contains("'absent'"), "{}", lines[1]);
    assert_eq!(lines[2], "::warning title=highwater::unused suppression: leak:no,thing");
    place.write("used.supp", "leak:^chop\n");
    let used = place.highwater("check kitchen.hw --max-leaked 0 --suppressions used.supp --format github").stdout;
    assert!(used.contains("::notice title=highwater::suppressed: 800 B in 1 block by leak:^chop\n"), "{used}");
    let kept = place.highwater("check kitchen.hw --max-peak 1MiB --format github");
    assert_eq!((kept.code, kept.stdout.as_str()), (0, "::notice title=highwater::1 limit kept\n"));
}

#[test]
fn gitlab_gets_a_code_quality_report_with_stable_fingerprints() {
    let place = odd_kitchen();
    let report = |line: &str| {
        let run = place.highwater(&format!("{line} --format gitlab"));
        (run.code, python("import json, sys; print(json.dumps(json.load(sys.stdin)))", &run.stdout))
    };
    let (code, problems) = report(BROKEN);
    let [leaked, growth] = &problems.as_array().unwrap()[..] else { panic!("{problems}") };
    assert_eq!(
        (code, &leaked["check_name"], &leaked["severity"]),
        (1, &json!("highwater/max-leaked"), &json!("major"))
    );
    assert_eq!(leaked["location"], json!({"path": "sources/ch%op.rs", "lines": {"begin": 7}}));
    assert!(leaked["description"].as_str().unwrap().contains(ODD), "{leaked}");
    assert_eq!(growth["location"], json!({"path": "kitchen.hw", "lines": {"begin": 1}}));
    assert_ne!(leaked["fingerprint"], growth["fingerprint"]);
    // Another figure is the same problem.
    let (_, again) = report("check kitchen.hw --max-leaked 500");
    assert_eq!(again[0]["fingerprint"], leaked["fingerprint"]);
    assert_eq!(report("check kitchen.hw --max-peak 1MiB"), (0, json!([])));
    let (_, document) = (0, place.highwater("check kitchen.hw --max-peak 1MiB --format json").stdout);
    assert_eq!(document, place.highwater("check kitchen.hw --max-peak 1MiB --json").stdout);
}

#[test]
fn github_gets_at_most_ten_errors_and_the_last_has_the_rest() {
    let place = odd_kitchen();
    let part = |number: u32| format!("[[budget.part]]\nname = \"part {number}\"\nmax-allocations = 0\n");
    place.write("highwater.toml", (1..=12).map(part).collect::<String>());
    place.write("unused.supp", "leak:one\nleak:two\n");
    let run = place.highwater("check kitchen.hw --budget highwater.toml --suppressions unused.supp --format github");
    let errors: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("::error ")).collect();
    assert_eq!((run.code, errors.len()), (1, 10), "{errors:?}");
    let (properties, message) = annotation(errors[9]);
    assert_eq!(properties[0].1, "highwater: 3 more problems");
    assert!((10..=12).all(|number| message.contains(&format!("part {number}: "))), "{message}");
    let warnings: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("::warning ")).collect();
    assert_eq!(warnings, ["::warning title=highwater::unused suppression: leak:one%0Aunused suppression: leak:two"]);
}

/// The formats as their readers describe them: attributes that strict readers of JUnit's XML want, and members that GitLab's documentation requires.
#[test]
fn verdicts_keep_the_rules_of_their_formats() {
    let place = odd_kitchen();
    place.write("bad.jsonl", format!("{}{{\"event\":\"explode\"}}\n", as_lines(&kitchen())));
    place.write("known.supp", "leak:^chop$\nleak:nothing\n");
    let bad = "check bad.jsonl --max-peak 5";
    let suppressed = "check kitchen.hw --max-leaked 0 --baseline kitchen.hw --suppressions known.supp";
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/budgets");
    for line in [BROKEN, bad, suppressed, "check kitchen.hw"] {
        place.write("budget.xml", place.highwater(&format!("{line} --format junit")).stdout);
        let mut command = Command::new("xmllint");
        command.args(["--noout", "--nonet", "--schema"]).arg(rules.join("junit.xsd")).arg(place.file("budget.xml"));
        let valid = Run::of(command.output().expect("xmllint, of libxml2-utils"));
        assert_eq!(valid.code, 0, "{line}: {}", valid.stderr);
        let report = place.write("quality.json", place.highwater(&format!("{line} --format gitlab")).stdout);
        let check = "
import json, jsonschema, sys
schema, report = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(report)";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", check]).arg(rules.join("codequality.schema.json")).arg(report);
        let valid = Run::of(command.output().unwrap());
        assert_eq!(valid.code, 0, "{line}: {}", valid.stderr);
    }
}

#[test]
fn gitlabs_paths_are_relative_and_its_fingerprints_have_no_offsets() {
    let place = odd_kitchen();
    let report = |line: &str| -> Value { serde_json::from_str(&place.highwater(line).stdout).unwrap() };
    let absolute = place.file("kitchen.hw");
    let problems = report(&format!("check {} --max-growth 5 --each absent --format gitlab", absolute.display()));
    assert_eq!(problems[0]["location"]["path"], "kitchen.hw", "{problems}");
    std::fs::create_dir(place.file("elsewhere")).unwrap();
    let mut command = place.command(["check", "--max-growth", "5", "--each", "absent", "--format", "gitlab"]);
    let output = command.arg(&absolute).current_dir(place.file("elsewhere")).output().unwrap();
    let problems: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(problems[0]["location"]["path"], "kitchen.hw", "{problems}");
    // The same kind of damage at two offsets.
    let whole = std::fs::read(&absolute).unwrap();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        place.write("damaged.hw", bytes);
        report("check damaged.hw --format gitlab")
    };
    let mut found: Vec<Value> = (whole.len() / 4..whole.len() * 3 / 4).step_by(whole.len() / 40).map(damaged).collect();
    found.retain(|problems| problems[0]["description"].as_str().is_some_and(|text| text.starts_with("damage:")));
    let texts: std::collections::BTreeSet<&str> =
        found.iter().map(|one| one[0]["description"].as_str().unwrap()).collect();
    assert!(texts.len() > 1, "{texts:?}");
    assert!(found.iter().all(|one| one[0]["fingerprint"] == found[0][0]["fingerprint"]), "{found:?}");
}

/// The cells of the tables in a Markdown text, as GitHub reads them.
fn tables(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inner = line.strip_prefix("| ").unwrap().strip_suffix(" |").unwrap().replace("\\|", "\u{1}");
        inner.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    text.lines().filter(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn a_comparison_is_printed_as_markdown() {
    let place = odd_kitchen();
    let run = place.highwater("diff kitchen.hw@4.5s kitchen.hw --format markdown");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let rows = tables(&run.stdout);
    assert_eq!(rows[0], ["", "`kitchen.hw@4.50s`", "`kitchen.hw@end`", "change"], "{}", run.stdout);
    assert_eq!(rows[2], ["live", "5.4 KiB", "800 B", "-4.6 KiB"]);
    assert_eq!(rows[3], ["peak until then", "5.4 KiB", "5.4 KiB", "0 B"]);
    assert_eq!(rows[4], ["allocated until then", "5.4 KiB", "6.2 KiB", "+800 B"]);
    assert_eq!(rows[5], ["live blocks", "3", "1", "-2"]);
    assert_eq!(rows[6], ["change", "before", "after", "blocks", "", "site"]);
    assert_eq!(rows[8], ["-4.9 KiB", "4.9 KiB", "0 B", "-2", "went", "`bake  src/bake.rs:1 ← cook ← main`"]);
    assert!(rows[9][5].starts_with(&format!("``{ODD}  ")) && rows[9][5].ends_with("main``"), "{:?}", rows[9]);
    assert!(rows.iter().all(|row| row.len() == if row.len() == 4 { 4 } else { 6 }), "{rows:?}");
    let few = place.highwater("diff kitchen.hw@4.5s kitchen.hw --format markdown --top 1").stdout;
    assert!(few.ends_with("\n… 1 more site, +300 B together.\n"), "{few}");
    let same = place.highwater("diff kitchen.hw kitchen.hw --format markdown").stdout;
    assert!(same.ends_with("\nNothing changed.\n"), "{same}");
    let by_thread = place.highwater("diff kitchen.hw@4.5s kitchen.hw --format markdown --by thread").stdout;
    assert!(by_thread.contains("| `main (1)` |") && by_thread.contains("| thread |"), "{by_thread}");
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ci").join(name)
}

/// Runs the job's script on a shell that is the test suite.
fn memory_job(place: &Place, suite: &str, variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new("sh");
    command.arg(script("memory.sh")).args(["memory", "baselines", "--", "/bin/sh", "-c", suite]);
    command.env("HIGHWATER", HIGHWATER).env_remove("GITHUB_ACTIONS").env_remove("GITLAB_CI");
    command.envs(variables.iter().copied()).current_dir(place.path()).stdin(Stdio::null());
    Run::of(command.output().unwrap())
}

#[test]
fn the_jobs_script_keeps_a_baseline_and_writes_what_the_services_read() {
    let place = Place::new();
    let toucher = support::programs::c("toucher");
    let suite = |mib: u32| format!("{} {mib} 1 1; exit 0", toucher.display());
    place.write("highwater.toml", "[budget.programs.toucher]\nmax-peak = \"8 MiB\"\n");
    let first = memory_job(&place, &suite(4), &[]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.stdout.contains("The limit is kept."), "{}", first.stdout);
    let comment = std::fs::read_to_string(place.file("memory/comment.md")).unwrap();
    assert!(comment.starts_with("<!-- highwater -->\n### Memory: all limits are kept\n"), "{comment}");
    // The artefact of the main branch is the baseline of a change.
    std::fs::create_dir(place.file("baselines")).unwrap();
    for name in ["run.hw", "run.children"] {
        let to = place.file(&format!("baselines/{}", name.replace("run", "main")));
        std::fs::rename(place.file(&format!("memory/{name}")), to).unwrap();
    }
    let same = memory_job(&place, &suite(4), &[("HIGHWATER_ALLOW", "+10%")]);
    assert_eq!(same.code, 0, "{same:?}");
    let larger = memory_job(&place, &suite(6), &[("GITHUB_ACTIONS", "true"), ("GITLAB_CI", "true")]);
    assert_eq!(larger.code, 1, "{larger:?}");
    assert!(
        larger.stdout.contains("peak, against earlier runs") && larger.stdout.contains("::error "),
        "{}",
        larger.stdout
    );
    let read = |name: &str| std::fs::read_to_string(place.file("memory").join(name)).unwrap();
    assert!(read("comment.md").starts_with("<!-- highwater -->\n### Memory: a limit is broken\n"));
    assert!(read("comment.md").contains("| change |") && read("comment.md").contains("toucher"));
    assert!(read("budget.xml").contains("<failure ") && read("codequality.json").contains("highwater/max-peak"));
    // The suite's own failure comes first, and is what the comment says.
    assert_eq!(memory_job(&place, "exit 7", &[]).code, 7);
    assert!(read("comment.md").starts_with("<!-- highwater -->\n### Memory: not checked, the test suite failed\n"));
    assert!(!place.file("memory/budget.xml").exists(), "that of the run before is no answer to this one");
    // A budget that cannot be read is no broken limit.
    place.write("highwater.toml", "[budget]\nmax-paek = 5\n");
    let unread = memory_job(&place, "exit 0", &[]);
    assert!(unread.code == 1 && unread.stderr.contains("did you mean 'max-peak'?"), "{unread:?}");
    let comment = read("comment.md");
    assert!(comment.starts_with("<!-- highwater -->\n### Memory: nothing was judged\n"), "{comment}");
    assert!(comment.contains("did you mean 'max-peak'?"), "{comment}");
    place.write("highwater.toml", "[budget]\nmax-peak = \"1 GiB\"\n[budget.programs.absent]\nmax-peak = 5\n");
    assert_eq!(memory_job(&place, "exit 0", &[("HIGHWATER_ALLOW", "+100%")]).code, 1);
    assert!(read("comment.md").contains("### Memory: not everything could be judged\n"), "{}", read("comment.md"));
    assert_eq!(Run::of(Command::new("sh").arg(script("memory.sh")).arg("memory").output().unwrap()).code, 2);
}

/// A service that keeps comments, and answers as GitHub and GitLab do. It prints its port, and then each request.
const SERVICE: &str = r#"
import http.server, json
kept = []
class Service(http.server.BaseHTTPRequestHandler):
    def do(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        allowed = self.headers.get('Authorization') == 'Bearer secret' or self.headers.get('PRIVATE-TOKEN') == 'secret'
        print(json.dumps([self.command, self.path, json.loads(body or b'null'), allowed]), flush=True)
        if self.command == 'POST':
            kept.append({'id': 1000 + len(kept), **author('github-actions[bot]'), **json.loads(body)})
        page = int(self.path.partition('&page=')[2] or 1)
        answer = {'username': 'github-actions[bot]'} if self.path == '/user' else kept[100 * page - 100:100 * page]
        answer = json.dumps(answer if self.command == 'GET' else {}).encode()
        self.send_response(200 if allowed else 403)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST = do_PUT = do_PATCH = do
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Service)
author = lambda name: {'user': {'login': name}, 'author': {'username': name}}
kept.extend({'id': 1 + number, 'body': '<!-- highwater --> of a stranger', **author('stranger')} for number in range(150))
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Service(Child, BufReader<std::process::ChildStdout>);

impl Service {
    fn start(program: &str) -> (Self, String) {
        let mut child = Command::new("/usr/bin/python3").args(["-c", program]).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut service = Self(child, output);
        let port = service.line();
        (service, format!("http://127.0.0.1:{}", port.trim()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }

    fn request(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_comment_is_written_once_and_then_replaced() {
    let place = Place::new();
    for is_gitlab in [false, true] {
        let (mut service, address) = Service::start(SERVICE);
        let run = |text: &str, token: &str| {
            place.write("comment.md", text);
            let mut command = Command::new("sh");
            command.arg(script("comment.sh")).arg("comment.md").current_dir(place.path()).env_remove("GITLAB_CI");
            match is_gitlab {
                false => command
                    .envs([
                        ("GITHUB_API_URL", address.as_str()),
                        ("GITHUB_REPOSITORY", "us/app"),
                        ("PULL_REQUEST", "12"),
                    ])
                    .env("GITHUB_TOKEN", token),
                true => command
                    .envs([("GITLAB_CI", "true"), ("CI_API_V4_URL", &address), ("CI_PROJECT_ID", "5")])
                    .envs([("CI_MERGE_REQUEST_IID", "12"), ("GITLAB_TOKEN", token)]),
            };
            Run::of(command.output().unwrap())
        };
        let list = if is_gitlab { "/projects/5/merge_requests/12/notes" } else { "/repos/us/app/issues/12/comments" };
        // After 150 comments of strangers, which begin with the marker as well.
        let one = if is_gitlab { format!("{list}/1150") } else { "/repos/us/app/issues/comments/1150".to_owned() };
        let mut looks_for_its_comment = || {
            if is_gitlab {
                assert_eq!(service.request(), json!(["GET", "/user", null, true]));
            }
            for page in 1..=2 {
                assert_eq!(service.request(), json!(["GET", format!("{list}?per_page=100&page={page}"), null, true]));
            }
            service.request()
        };
        let (first, second) = ("<!-- highwater -->\n\"one\" & `two`\n", "<!-- highwater -->\nthree\n");
        assert_eq!(run(first, "secret").code, 0);
        assert_eq!(looks_for_its_comment(), json!(["POST", list, {"body": first}, true]));
        assert_eq!(run(second, "secret").code, 0);
        let change = if is_gitlab { "PUT" } else { "PATCH" };
        assert_eq!(looks_for_its_comment(), json!([change, one, {"body": second}, true]));
        // Longer than services take.
        let long = format!("<!-- highwater -->\n<details>\n```text\n{}```\n</details>\n", "a line\n".repeat(20_000));
        // At once: what the service prints of it does not fit into a pipe.
        let sent = std::thread::scope(|scope| {
            let done = scope.spawn(|| run(&long, "secret").code);
            let sent = looks_for_its_comment();
            assert_eq!(done.join().unwrap(), 0);
            sent
        });
        let body = sent[2]["body"].as_str().unwrap();
        assert!((59_000..62_000).contains(&body.len()), "{}", body.len());
        let (start, end) = body.split_at(59_000);
        assert!(long.starts_with(start) && end.contains("a line\n```\n\n</details>\n\n… cut: "), "{end}");
        assert_ne!(run(second, "wrong").code, 0, "a refusal is no success");
    }
}

/// A service with the artefacts of earlier runs: those of GitHub's runs 31 and 32, of which 31's has expired, and that of GitLab's main branch, which is
/// there if the token is good.
const ARTEFACTS: &str = r#"
import http.server, io, json, zipfile
def packed(folder):
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w') as archive:
        archive.writestr(folder + 'run.hw', 'recording')
        archive.writestr(folder + 'run.children/7-child.hw', 'child')
        archive.writestr(folder + 'budget.txt', 'kept')
    return file.getvalue()
class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        code, answer, to = 200, b'', None
        if self.path == '/projects/5/jobs/artifacts/main/download?job=memory':
            code = {'secret': 302, 'early': 404}.get(self.headers.get('JOB-TOKEN'), 401)
            to = f'http://127.0.0.1:{server.server_port}/store/artefact?signed=yes'
        elif self.path == '/store/artefact?signed=yes':
            # An object store, which must not get the token.
            code, answer = (500, b'') if self.headers.get('JOB-TOKEN') else (200, packed('memory/'))
        elif self.headers.get('Authorization') != 'Bearer secret':
            code = 401
        elif self.path == '/repos/us/app/actions/workflows/memory.yml/runs?branch=main&status=success&per_page=3':
            answer = json.dumps({'workflow_runs': [{'id': 32}, {'id': 31}]}).encode()
        elif self.path in ('/repos/us/app/actions/runs/31/artifacts?name=memory', '/repos/us/app/actions/runs/32/artifacts?name=memory'):
            url = f'http://127.0.0.1:{server.server_port}/archive'
            answer = json.dumps({'artifacts': [{'expired': '/31/' in self.path, 'archive_download_url': url}]}).encode()
        elif self.path == '/archive':
            answer = packed('')
        else:
            code = 500
        self.send_response(code)
        if code == 302: self.send_header('Location', to)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Service)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn recordings_of_the_main_branch_are_downloaded_as_baselines() {
    let (_service, address) = Service::start(ARTEFACTS);
    let run = |place: &Place, is_gitlab: bool, token: &str| {
        let mut command = Command::new("sh");
        command.arg(script("baselines.sh")).arg("baselines").current_dir(place.path());
        command.env_remove("GITLAB_CI").env_remove("MAIN");
        match is_gitlab {
            false => command
                .envs([("GITHUB_API_URL", address.as_str()), ("GITHUB_REPOSITORY", "us/app"), ("GITHUB_TOKEN", token)])
                .env("GITHUB_WORKFLOW_REF", "us/app/.github/workflows/memory.yml@refs/pull/12/merge"),
            true => command
                .envs([("GITLAB_CI", "true"), ("CI_API_V4_URL", address.as_str()), ("CI_PROJECT_ID", "5")])
                .envs([("CI_DEFAULT_BRANCH", "main"), ("CI_JOB_TOKEN", token)]),
        };
        Run::of(command.output().unwrap())
    };
    for (is_gitlab, name) in [(false, "32"), (true, "main")] {
        let place = Place::new();
        let done = run(&place, is_gitlab, "secret");
        assert_eq!(done.code, 0, "{done:?}");
        let files = std::fs::read_dir(place.file("baselines")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        assert_eq!(files, [format!("{name}.children"), format!("{name}.hw")]);
        assert!(place.file(&format!("baselines/{name}.children/7-child.hw")).exists());
        let refused = run(&Place::new(), is_gitlab, "wrong");
        assert!(refused.code != 0 && refused.stderr.contains("401"), "{refused:?}");
    }
    let early = run(&Place::new(), true, "early");
    assert!(early.code == 0 && early.stdout.contains("no recording yet"), "{early:?}");
}

#[test]
fn the_jobs_use_the_scripts_that_are_tested() {
    for job in ["github.yml", "gitlab.yml"] {
        let text = std::fs::read_to_string(script(job)).unwrap();
        for used in [
            "docs/ci/baselines.sh baselines",
            "docs/ci/memory.sh memory baselines -- ",
            "docs/ci/comment.sh memory/comment.md",
        ] {
            assert!(text.contains(used), "{job}: {used}");
        }
    }
}
