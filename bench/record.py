"""Measures what recording costs: bench/record builds everything and calls this.

Each workload runs in every mode, in turn, several times over. CPU time is that of the whole process tree (the measuring process
adopts orphans and waits until none is left) and, apart from that, of the program alone (workloads/own_cost.c reports it).
"""

import argparse
import ctypes
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
WORKLOADS = Path(__file__).parent / "workloads"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
SAMPLE = "512KiB"
BEGIN, END = "<!-- recording: written by bench/record -->", "<!-- recording: end -->"

# Modes that record everything run at one scale, modes that cost almost nothing at a larger one, and each beside a native run.
FULL = ["native", "heaptrack", "exact"]
LIGHT = ["native", "sampled", "jemalloc", "jemalloc-prof"]


class Workload:
    """A program, and how much it has to do in either kind of mode."""

    def __init__(self, name, title, command, process, full, light, environment=None, stdin=None):
        self.name, self.title, self.command, self.process = name, title, command, process
        self.scale = {"full": full, "light": light}
        self.environment = environment or {}
        self.stdin = stdin


def workloads(work):
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True).stdout.strip()
    script = (WORKLOADS / "sqlite.sql").read_text() + "drop table people; drop table visits;\n"
    own = lambda program, *arguments: lambda scale: [str(work / program), str(scale), *arguments]
    return [
        Workload("short", "short-lived small blocks", own("short_lived"), "short_lived", 6_000_000, 36_000_000),
        Workload("deep", "depth 50, 10,000 stacks", own("deep_stacks", "walk"), "deep_stacks", 3_000_000, 16_000_000),
        Workload("deep-random", "the same in random order", own("deep_stacks", "random"), "deep_stacks", 3_000_000, None),
        Workload("one-thread", "1 thread, a quarter through a queue", own("threads", "1"), "threads", 4_000_000, None),
        Workload("threads", "4 threads, a quarter freed by another", own("threads", "4"), "threads", 4_000_000, 24_000_000),
        Workload("live-2", "2 million live blocks", own("live_blocks"), "live_blocks", 2_000_000, None),
        Workload("live", "5 million live blocks", own("live_blocks"), "live_blocks", 5_000_000, 5_000_000),
        Workload("index", "parse, index, sort (C++)", own("index"), "index", 1500, 4500),
        Workload("sqlite", "sqlite3", lambda scale: ["sqlite3", ":memory:"], "sqlite3", 4, 12, stdin=lambda scale: script * scale),
        Workload(
            "python", "python3", lambda scale: ["/usr/bin/python3", str(WORKLOADS / "python.py"), str(scale)], "python3", 100, 500,
            environment={"PYTHONMALLOC": "malloc"},
        ),
        Workload(
            "g++", "g++ (cc1plus)",
            lambda scale: [compiler, "-quiet", "-fpreprocessed", "-std=c++17", "-O1", str(work / "compile.ii"), "-o", str(work / "compile.s")],
            "cc1plus", 1, 1,
        ),
    ]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = Path(arguments.work).resolve()
        self.highwater = str(Path(arguments.highwater).resolve())
        self.out = self.work / "out"

    def command(self, mode, program):
        """The command line that runs a program in a mode, and the environment it needs."""
        preload = str(self.work / "own_cost.so")
        environment = {"LD_PRELOAD": preload, "OWN_COST": str(self.out / "own_cost.txt")}
        recording = str(self.out / "recording")
        if mode == "heaptrack":
            program = ["heaptrack", "-o", recording, *program]
        elif mode == "exact":
            program = [self.highwater, "record", "--force", "-o", recording + ".hw", "--", *program]
        elif mode == "sampled":
            program = [self.highwater, "record", "--force", "-o", recording + ".hw", "--sample", SAMPLE, "--", *program]
        elif mode.startswith("jemalloc"):
            environment["LD_PRELOAD"] = f"{preload} {JEMALLOC}"
            environment["MALLOC_CONF"] = "prof:true,lg_prof_sample:19" if mode == "jemalloc-prof" else "prof:false"
        return program, environment

    def run(self, workload, mode, scale):
        """One run: CPU seconds of the tree and of the program, its high-water mark in bytes, and what it said and wrote."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        program, environment = self.command(mode, workload.command(scale))
        stdin = workload.stdin(scale) if workload.stdin else ""
        (self.out / "stdin").write_text(stdin)
        result = supervised(program, {**os.environ, **workload.environment, **environment}, self.out)
        said = (self.out / "stdout").read_text(errors="replace")
        if result["status"] != 0:
            sys.exit(f"bench/record: {' '.join(program)}: status {result['status']}\n{said}\n{(self.out / 'stderr').read_text(errors='replace')}")
        own = [line.split() for line in (self.out / "own_cost.txt").read_text().splitlines()]
        mine = [line for line in own if line[0] == workload.process]
        if len(mine) != 1:
            sys.exit(f"bench/record: {workload.process} should have told its cost once: {own}")
        result["own_cpu"], result["memory"] = int(mine[0][1]) / 1e6, int(mine[0][2]) * 1024
        words = said.split()
        if "pairs" in words:
            result["pairs"] = int(words[words.index("pairs") + 1])
        if "wall" in words:
            result["work_wall"] = float(words[words.index("wall") + 1])
        self.look_at_recording(workload, mode, result)
        return result

    def look_at_recording(self, workload, mode, result):
        if mode == "heaptrack":
            written = next(self.out.glob("recording.*"))
            result["size"] = written.stat().st_size
            if not hasattr(workload, "heaptrack_events"):
                unpacked = subprocess.Popen(["zstd", "-dc", str(written)], stdout=subprocess.PIPE)
                kinds = [line[:1] for line in unpacked.stdout]
                workload.heaptrack_events = (kinds.count(b"+"), kinds.count(b"-"))
            result["pairs"] = result.get("pairs", workload.heaptrack_events[0])
            result["events"] = sum(workload.heaptrack_events)
        elif mode in ("exact", "sampled"):
            written = self.out / "recording.hw"
            result["size"] = written.stat().st_size
            info = subprocess.run([self.highwater, "info", str(written), "--json"], check=True, capture_output=True, text=True).stdout
            result["events"] = json.loads(info)["file"]["events"]
            if mode == "exact" and "pairs" not in result:
                report = subprocess.run([self.highwater, "report", "--top", "1", str(written), "--json"], check=True, capture_output=True, text=True)
                totals = json.loads(report.stdout)["totals"]
                result["pairs"] = totals["allocations"] + totals["reallocations"]

    def start_up(self):
        """Milliseconds that recording adds to a program that does nothing, on the clock and in CPU."""
        kinds = {"native": ["/bin/true"], "exact": [self.highwater, "record", "--force", "-o", str(self.out / "true.hw"), "--", "/bin/true"]}
        if self.has("heaptrack"):
            kinds["heaptrack"] = ["heaptrack", "-o", str(self.out / "true"), "/bin/true"]
        kinds = {kind: command for kind, command in kinds.items() if self.has(kind)}
        runs = {kind: [] for kind in kinds}
        for _ in range(40 if not self.arguments.quick else 10):
            for kind, command in kinds.items():
                shutil.rmtree(self.out, ignore_errors=True)
                self.out.mkdir(parents=True)
                (self.out / "stdin").write_text("")
                runs[kind].append(supervised(command, dict(os.environ), self.out))
        native = {figure: statistics.median(run[figure] for run in runs["native"]) for figure in ("wall", "cpu")}
        return {
            kind: {figure: (statistics.median(run[figure] for run in runs[kind]) - native[figure]) * 1000 for figure in native}
            for kind in runs if kind != "native"
        }

    def has(self, mode):
        return self.arguments.modes is None or mode in self.arguments.modes

    def measure(self, chosen):
        results = {}
        rounds = self.arguments.rounds
        for number in range(rounds):
            for workload in chosen:
                for kind, modes in (("full", FULL), ("light", LIGHT)):
                    scale = workload.scale[kind]
                    if scale is None:
                        continue
                    if self.arguments.quick:
                        scale = max(1, scale // 4)
                    for mode in modes:
                        if not self.has(mode):
                            continue
                        if mode == "native" and kind == "light" and scale == results[workload.name]["scale"]["full"]:
                            run = results[workload.name]["full"]["native"][number]
                        else:
                            run = self.run(workload, mode, scale)
                            progress(f"round {number + 1}/{rounds}  {workload.name} {mode}: {run['cpu']:.2f} s CPU")
                        entry = results.setdefault(workload.name, {"scale": {}, "title": workload.title})
                        entry["scale"][kind] = scale
                        entry.setdefault(kind, {}).setdefault(mode, []).append(run)
        progress("")
        return results


def progress(text):
    if sys.stderr.isatty():
        print("\r" + text.ljust(78) + "\r", end="", flush=True, file=sys.stderr)


def supervised(command, environment, out):
    """Runs a command and waits for it and for all it left behind: seconds on the clock until it ended, CPU seconds of them all."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            with open(out / "stdin", "rb") as stdin, open(out / "stdout", "wb") as stdout, open(out / "stderr", "wb") as stderr:
                start = time.perf_counter()
                started = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment)
                status, wall = None, None
                peak = PeakMemory(started.pid)
                while True:
                    try:
                        pid, ended, _ = os.wait4(-1, 0)
                    except ChildProcessError:
                        break
                    if pid == started.pid:
                        status, wall = os.waitstatus_to_exitcode(ended), time.perf_counter() - start
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            answer = {"status": status, "wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "command_memory": peak.bytes}
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return json.loads(answer)


class PeakMemory(threading.Thread):
    """The most memory that a process held, itself and not with its children."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status, self.bytes = Path(f"/proc/{pid}/status"), 0
        self.start()

    def run(self):
        while True:
            try:
                line = next(line for line in self.status.read_text().splitlines() if line.startswith("VmHWM:"))
            except (OSError, StopIteration):
                return
            self.bytes = int(line.split()[1]) * 1024
            time.sleep(0.02)


def middle(runs, figure):
    return statistics.median(run[figure] for run in runs)


def least(runs, figure):
    return min(run[figure] for run in runs)


class Tables:
    """The figures, in the words of people."""

    def __init__(self, results, start_up, linked, rounds):
        self.results, self.start_up, self.linked, self.rounds = results, start_up, linked, rounds

    def added_ns(self, name, mode, figure, of=middle):
        """Nanoseconds that a mode adds to each pair of allocation and free."""
        full = self.results.get(name, {}).get("full", {})
        if mode not in full or "native" not in full:
            return None
        pairs = next((run["pairs"] for runs in full.values() for run in runs if "pairs" in run), None)
        return pairs and (of(full[mode], figure) - of(full["native"], figure)) * 1e9 / pairs

    def ratio(self, name, figure):
        ours, theirs = self.added_ns(name, "exact", figure), self.added_ns(name, "heaptrack", figure)
        return ours / theirs if ours is not None and theirs else None

    def light(self, name, mode, figure, over="native", of=middle):
        """A figure of a mode as a multiple of the one without it."""
        light = self.results.get(name, {}).get("light", {})
        if mode not in light or over not in light:
            return None
        return of(light[mode], figure) / of(light[over], figure)

    def rate(self, name, mode):
        """Events per second on the clock, the best of all rounds."""
        runs = self.results.get(name, {}).get("full", {}).get(mode)
        return runs and max(run["pairs"] * 2 / run["work_wall"] for run in runs)

    def asked(self):
        """The table of the issue."""
        rows = []

        def row(what, asked, value, shown, reached):
            rows.append([what, asked, "–" if value is None else shown(value), "" if value is None else "reached" if reached(value) else "**short**"])

        def against_heaptrack(what, names, figure, part):
            for name in names:
                ours, theirs = self.added_ns(name, "exact", figure), self.added_ns(name, "heaptrack", figure)
                shown = lambda ratio: f"{ours:.0f} ns of {theirs:.0f}: 1/{1 / ratio:.1f}" if ratio > 0 else f"{ours:.0f} ns of {theirs:.0f}"
                title = self.results.get(name, {}).get("title", name)
                row(what.format(title), f"≤ 1/{part} of heaptrack's", self.ratio(name, figure), shown, lambda ratio: ratio <= 1 / part)

        for names, cpu, clock in ((["short"], 8, 6), (["deep", "deep-random"], 6, 4), (["live-2", "live"], 5, 4), (["index"], 5, 4), (["sqlite", "python"], 7, 5), (["g++"], 4, 4)):
            against_heaptrack("CPU added by everything, {}", names, "cpu", cpu)
            against_heaptrack("… on the clock", names, "wall", clock)
        against_heaptrack("CPU added by everything, {}", ["threads"], "cpu", 7)
        one, four = self.rate("one-thread", "exact"), self.rate("threads", "exact")
        native = [self.rate("one-thread", "native"), self.rate("threads", "native")]
        scaling = four / one if one and four else None
        row("… events per second against 1 thread", "≥ 1.3 ×", scaling,
            lambda value: f"{value:.2f} × ({four / 1e6:.1f} M/s; native {native[1] / native[0]:.2f} ×)", lambda value: value >= 1.3)
        against_heaptrack("CPU added inside the program, {}", ["short"], "own_cpu", 4)
        against_heaptrack("CPU added inside the program, {}", ["deep", "deep-random"], "own_cpu", 6)
        per_block = self.recorder_bytes_per_block("live")
        row("memory of the recorder, 5 million live blocks", "≤ 80 bytes a block", per_block, lambda value: f"{value:.0f} bytes", lambda value: value <= 80)
        sizes = [(self.bytes_per_event(name), name) for name in self.results]
        worst = max(((size, name) for size, name in sizes if size), default=(None, None))
        row("recording size with time, thread, address, stack", "≤ 3.1 bytes per event", worst[0], lambda value: f"at most {value:.2f} ({worst[1]})", lambda value: value <= 3.1)
        added = [(self.memory_added(name) - self.memory_allowed(name), name) for name in self.results if self.memory_added(name) is not None]
        excess = max(added, default=(None, None))
        row("memory added to the program", "≤ 32 MB + 8 bytes per live block", excess[0],
            lambda value: f"at most {self.memory_added(excess[1]) / 1e6:.1f} MB ({excess[1]}, {self.memory_allowed(excess[1]) / 1e6:.0f} allowed)", lambda value: value <= 0)
        costs = [(self.light(name, "sampled", "cpu") - 1, name) for name in self.results if self.light(name, "sampled", "cpu")]
        worst_cost = max(costs, default=(None, None))
        row(f"`--sample {SAMPLE}`: CPU over native, worst workload", "≤ 2 %", worst_cost[0], lambda value: f"{value * 100:+.1f} % ({worst_cost[1]})", lambda value: value <= 0.02)
        memory = [(self.light(name, "sampled", "memory"), name) for name in self.results if self.light(name, "sampled", "memory")]
        worst_memory = max(memory, default=(None, None))
        row("… its memory", "≤ 1.05 ×", worst_memory[0], lambda value: f"{value:.2f} × ({worst_memory[1]})", lambda value: value <= 1.05)
        row("crate linked in, not recording", "≤ 1 ns per call", self.linked, lambda value: f"{value:.2f} ns", lambda value: value <= 1)
        ours = self.start_up.get("exact", {}).get("wall")
        row("start-up added to `true`", "≤ 8 ms", ours, lambda value: f"{value:.1f} ms", lambda value: value <= 8)
        return table(["what", "asked", "measured", ""], rows)

    def bytes_per_event(self, name, mode="exact"):
        runs = self.results[name].get("full", {}).get(mode)
        return runs and middle(runs, "size") / middle(runs, "events")

    def memory_added(self, name, mode="exact"):
        full = self.results[name].get("full", {})
        return middle(full[mode], "memory") - middle(full["native"], "memory") if mode in full and "native" in full else None

    def recorder_bytes_per_block(self, name):
        """What the recorder holds for each block that is live at the peak, beyond what it holds for a program without any."""
        runs = self.results.get(name, {}).get("full", {}).get("exact")
        base = self.results.get("short", {}).get("full", {}).get("exact")
        return runs and base and (middle(runs, "command_memory") - middle(base, "command_memory")) / self.results[name]["scale"]["full"]

    def memory_allowed(self, name):
        return 32e6 + 8 * (self.results[name]["scale"]["full"] if name.startswith("live") else 0)

    def exact(self):
        """Every workload, recorded in full."""
        rows = []
        for name, entry in self.results.items():
            full = entry.get("full", {})
            if "native" not in full:
                continue
            pairs = next((run["pairs"] for runs in full.values() for run in runs if "pairs" in run), 0)
            cells = [entry["title"], f"{pairs / 1e6:.2f} M", f"{middle(full['native'], 'own_cpu'):.2f} s"]
            for mode in ("heaptrack", "exact"):
                inside, whole = self.added_ns(name, mode, "own_cpu"), self.added_ns(name, mode, "cpu")
                cells.append("–" if inside is None else f"{inside:.0f}")
                cells.append("–" if whole is None else f"{whole:.0f}")
            ratios = [self.ratio(name, figure) for figure in ("own_cpu", "cpu", "wall")]
            cells.append(" ".join("–" if ratio is None else f"1/{1 / ratio:.1f}" if ratio > 0 else "0" for ratio in ratios))
            for mode in ("heaptrack", "exact"):
                size = self.bytes_per_event(name, mode)
                cells.append("–" if not size else f"{size:.2f}")
            for mode in ("heaptrack", "exact"):
                added = self.memory_added(name, mode)
                cells.append("–" if added is None else f"{added / 1e6:.1f}")
            rows.append(cells)
        head = ["workload", "pairs", "native CPU", "heaptrack inside", "whole", "highwater inside", "whole", "ratios",
                "bytes/event heaptrack", "highwater", "MB added heaptrack", "highwater"]
        return table(head, rows)

    def sampled(self):
        """Every workload, sampled, beside the best sampler there is."""
        rows = []
        for name, entry in self.results.items():
            light = entry.get("light", {})
            if "native" not in light:
                continue
            cells = [entry["title"], f"{middle(light['native'], 'cpu'):.2f} s"]
            for mode, over in (("sampled", "native"), ("jemalloc-prof", "jemalloc")):
                for figure, of in (("own_cpu", middle), ("cpu", middle), ("cpu", least)):
                    change = self.light(name, mode, figure, over, of)
                    cells.append("–" if change is None else f"{(change - 1) * 100:+.1f} %")
                memory = self.light(name, mode, "memory", over)
                cells.append("–" if memory is None else f"{memory:.2f} × ({(middle(light[mode], 'memory') - middle(light[over], 'memory')) / 1e6:+.1f} MB)")
                if mode == "jemalloc-prof":
                    del cells[-3]  # it is all inside
            rows.append(cells)
        head = ["workload", "native CPU", "highwater inside", "whole", "best of all", "memory", "jemalloc's profiler", "best of all", "memory"]
        return table(head, rows)

    def document(self):
        """The section of docs/benchmarks.md."""
        start = {kind: figures["wall"] for kind, figures in self.start_up.items()}
        beside = f" Heaptrack adds {start['heaptrack']:.0f} ms to `true`." if "heaptrack" in start else ""
        return f"""## Recording

`bench/record` writes this part. Every workload runs {self.rounds} times in each mode, in turn; medians count. CPU is user and system time, of the
program alone (*inside*) and of all processes that take part (*whole*: for heaptrack with its interpreter and compressor). {machine()}

{self.asked()}

Recorded in full, nanoseconds per pair of allocation and free beyond the native run. Ratios to heaptrack {version("heaptrack")}: inside, whole, on the clock until the command ends.{beside}

{self.exact()}

Sampled, one sample for each 512 KiB, at a scale of its own. jemalloc's profiler (`lg_prof_sample:19`) is compared with jemalloc without it. What is not inside is mostly the naming of addresses at the end.

{self.sampled()}
"""


def table(head, rows):
    """Markdown that also reads well on a terminal."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    show = lambda cells: "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |"
    return "\n".join([show(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *(show(row) for row in rows)])


def machine():
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown processor")
    return f"This run: {os.cpu_count()} cores of an {model}, Linux {platform.release().split('-')[0]}."


def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]


def linked_in_but_silent(arguments):
    """Nanoseconds that the crate's allocator adds to a call while it does not record: the best of several runs, in turn."""
    programs = [Path(arguments.highwater).resolve().parent / name for name in ("linked-out", "linked-in")]
    if not all(program.exists() for program in programs):
        return None
    one = lambda program: float(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout)
    runs = [[one(program) for program in programs] for _ in range(7)]
    without, linked = (min(column) for column in zip(*runs))
    return linked - without


def write_document(text):
    path = Path(__file__).parent.parent / "docs" / "benchmarks.md"
    old = path.read_text()
    section = f"{BEGIN}\n{text}{END}\n"
    if BEGIN in old and END in old:
        new = old[: old.index(BEGIN)] + section + old[old.index(END) + len(END) + 1 :]
    else:
        new = old.rstrip("\n") + "\n\n" + section
    path.write_text(new)
    print(f"written: {path.relative_to(path.parent.parent)}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(prog="bench/record", description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--highwater", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="two rounds at a quarter of the scale; docs/benchmarks.md is left alone")
    parser.add_argument("--rounds", type=int, help="how often everything runs [5]")
    parser.add_argument("--only", metavar="NAMES", help="workloads, separated by commas; docs/benchmarks.md is left alone")
    parser.add_argument("--modes", type=lambda text: text.split(","), metavar="NAMES",
                        help="of native, heaptrack, exact, sampled, jemalloc, jemalloc-prof; docs/benchmarks.md is left alone")
    arguments = parser.parse_args()
    whole = not (arguments.quick or arguments.only or arguments.modes)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 5)
    bench = Bench(arguments)
    every = workloads(bench.work)
    chosen = [workload for workload in every if not arguments.only or workload.name in arguments.only.split(",")]
    began = time.time()
    results = bench.measure(chosen)
    start_up = bench.start_up() if not arguments.only else {}
    (bench.work / "results.json").write_text(json.dumps({"results": results, "start_up": start_up}, indent=1))
    text = Tables(results, start_up, linked_in_but_silent(arguments), arguments.rounds).document()
    print(text)
    print(f"took {time.time() - began:.0f} s", file=sys.stderr)
    if whole:
        write_document(text)


main()
