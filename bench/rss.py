"""Measures `highwater rss` on real programs: bench/rss builds everything and calls this."""

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BEGIN, END = "<!-- rss: written by bench/rss -->", "<!-- rss: end -->"
DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
WORKLOADS = Path(__file__).parent / "workloads"
MIB = 1 << 20
ROUNDS = 20
# What is promised: not explained, milliseconds per GiB, the longest wait of mmap in milliseconds.
MOST_OTHER, MOST_PER_GIB, MOST_WAIT = 0.01, 50, 5


def say(text):
    print(text, file=sys.stderr, flush=True)


class Collector:
    """A collector of our own."""

    def __init__(self, highwater, folder):
        self.highwater = highwater
        self.environment = dict(os.environ, HIGHWATER_SOCKET=f"{folder}/socket")
        store = ["--store", f"{folder}/kept", "--quiet"]
        self.process = subprocess.Popen([highwater, "collector", *store], env=self.environment)
        while self.run("ps").returncode != 0:
            time.sleep(0.05)

    def run(self, *words):
        return subprocess.run([self.highwater, *words], env=self.environment, capture_output=True, text=True)

    def json(self, *words):
        done = self.run(*words, "--json")
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def process_named(self, name):
        found = [each for each in self.json("ps")["processes"] if each["name"] == name]
        return found[0] if found else None

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.terminate()
        self.process.wait()


class Program:
    """A program, what it reads, and how much it holds when it is ready."""

    def __init__(self, title, command, least, name=None, stdin="", after=None):
        self.title, self.command, self.least, self.stdin, self.after = title, command, least, stdin, after
        self.name = name or Path(command[0]).name


def programs(work, folder):
    python = "import time\nx = [str(i) * 9 for i in range(300000)]\ny = bytearray(64 << 20)\ndel x[::3]\ntime.sleep(1000)"
    node = "const x = []; for (let i = 0; i < 1e6; i++) x.push({i}); setTimeout(() => x.length, 1e6)"
    sql = ("create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n limit 300000) "
           "insert into t select x, hex(randomblob(50)) from n; delete from t where a % 3 = 0;\n")
    redis = f"{folder}/redis"
    # Redis listens soon after it has started.
    populate = lambda: subprocess.run(["redis-cli", "-s", redis, "debug", "populate", "200000", "key", "100"], capture_output=True)
    settings = Path(folder) / "nginx.conf"
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    settings.write_text(f"pid {folder}/pid; error_log {folder}/log; events {{}} http {{ access_log off; {temporary} server {{ listen unix:{folder}/nginx; }} }}")
    nginx = ["nginx", "-p", folder, "-c", str(settings), "-e", "stderr", "-g", "daemon off; master_process off;"]
    compiler = ["g++", "-O2", "-c", str(WORKLOADS / "compile.cpp"), "-o", f"{folder}/compile.o"]
    return [
        Program("python3", ["/usr/bin/python3", "-c", python], 80 * MIB),
        Program("node", ["node", "-e", node], 30 * MIB),
        Program("java", ["java", "-Xmx256m", "-cp", str(work), "Held"], 5 * MIB),
        Program("sqlite3", ["sqlite3", ":memory:"], 20 * MIB, stdin=sql),
        Program("nginx", nginx, 0),
        Program("cc1plus", compiler, 40 * MIB, name="cc1plus"),
        Program("redis (jemalloc)", ["redis-server", "--port", "0", "--unixsocket", redis, "--save", "", "--dir", folder, "--enable-debug-command", "yes"], 0, after=populate),
        Program("1 GiB mapped", [str(work / "mapper"), "1024"], 1024 * MIB, after=lambda: time.sleep(3)),
    ]


@contextlib.contextmanager
def running(collector, program):
    """The pid of a program that has done its work."""
    child = subprocess.Popen([collector.highwater, "run", "-q", "--", *program.command], env=collector.environment,
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    pid = None
    try:
        child.stdin.write(program.stdin)
        child.stdin.flush()
        deadline = time.time() + 60
        while time.time() < deadline:
            found = collector.process_named(program.name)
            if found:
                pid = found["pid"]
                if found["live_bytes"] >= program.least:
                    break
            time.sleep(0.02)
        time.sleep(1 if program.name != "cc1plus" else 0)
        if program.after:
            program.after()
        yield pid
    finally:
        for each in filter(None, [pid, child.pid]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        child.wait()


def measure(collector, program):
    """The rows of a program that is stopped while it is read, and what reading costs."""
    with running(collector, program) as pid:
        os.kill(pid, signal.SIGSTOP)
        answer = collector.json("rss", "--pid", str(pid))
        before = collector.cpu_seconds()
        took = []
        for _ in range(ROUNDS):
            took.append(collector.json("rss", "--pid", str(pid), "--top", "1")["cut"]["pages_ns"] / 1e6)
        cpu = (collector.cpu_seconds() - before) / ROUNDS * 1000
        os.kill(pid, signal.SIGCONT)
    return answer, cpu, sorted(took)[len(took) // 2]


def row_of(program, answer, cpu, took):
    resident = {row["key"]: row["resident_bytes"] for row in answer["rows"]}
    size = {row["key"]: row["size_bytes"] for row in answer["rows"]}
    of = lambda *keys: sum(resident.get(key, 0) for key in keys) / MIB
    rss = answer["rss_bytes"]
    other = resident.get("other", 0)
    judged = "" if other <= MIB or other <= MOST_OTHER * rss else " **short**"
    mappings = f"{of('mappings'):.2f} ({size.get('mappings', 0) / MIB:.0f})"
    per_gib = cpu / rss * (1 << 30)
    return [
        program.title, f"{rss / MIB:.2f}", f"{of('live_blocks', 'slack', 'allocator_own'):.2f}",
        f"{of('free_top', 'free_pages', 'free_pinned', 'thread_caches', 'allocator_rest'):.2f}", mappings, f"{of('stacks', 'cached_stacks'):.2f}",
        f"{of('file_shared'):.2f} + {of('file_private'):.2f}", f"{of('agent'):.2f}", f"{other / MIB:.2f}{judged}",
        f"{(rss - answer['sum_bytes']) / MIB:.2f}", f"{took:.1f}", f"{cpu:.1f}", f"{per_gib:.0f}",
    ]


def wait_of_mmap(collector, work):
    """The longest wait of mmap beside a reader, alone and while it is read, in milliseconds."""
    child = subprocess.Popen([collector.highwater, "run", "-q", "--", str(work / "mapper"), "1024"], env=collector.environment,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    pid = collector.process_named("mapper")["pid"]

    def longest():
        child.stdin.write("\n")
        child.stdin.flush()
        return int(child.stdout.readline()) / 1000

    longest()
    time.sleep(3)
    alone = longest()
    for _ in range(ROUNDS):
        collector.json("rss", "--pid", str(pid), "--top", "1")
    read = longest()
    os.kill(pid, signal.SIGKILL)
    child.wait()
    return alone, read


def table(rows, wait):
    heads = ["MiB", "VmRSS", "live, slack, headers", "free or the allocator's", "mappings (of)", "stacks", "files: cache + private", "agent", "not explained",
             "VmRSS − sum", "ms", "CPU ms", "CPU ms per GiB"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)]
    alone, read = wait
    largest = float(rows[-1][-1])
    judged = lambda value, most: "holds" if value <= most else "**short**"
    lines += ["", f"For each GiB resident the collector took {largest:.0f} ms of CPU time (promised: at most {MOST_PER_GIB}): {judged(largest, MOST_PER_GIB)}. "
              f"The longest wait of `mmap` in a process of 1 GiB was {alone:.1f} ms alone and {read:.1f} ms while it was read {ROUNDS} times "
              f"(promised: at most {MOST_WAIT} ms more): {judged(read - alone, MOST_WAIT)}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--highwater", required=True)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    options.highwater = str(Path(options.highwater).resolve())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(options.highwater, folder)
        try:
            for program in programs(options.work.resolve(), folder):
                say(program.title)
                rows.append(row_of(program, *measure(collector, program)))
            wait = wait_of_mmap(collector, options.work.resolve())
        finally:
            collector.end()
    text = f"{BEGIN}\nMeasured on {os.cpu_count()} processors, Linux {platform.release()}. Programs were stopped while they were read.\n\n{table(rows, wait)}\n{END}"
    print(text)
    if not options.dry:
        document = DOCUMENT.read_text()
        before, after = document.split(BEGIN)[0], document.split(END)[1]
        DOCUMENT.write_text(before + text + after)


main()
