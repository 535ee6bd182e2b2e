"""Measures what the live table costs: bench/live builds everything and calls this."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BEGIN, END = "<!-- live: written by bench/live -->", "<!-- live: end -->"
DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def say(text):
    print(text, file=sys.stderr, flush=True)


def measured(command):
    """The `NAME VALUE` lines that a command prints."""
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: float(value) for name, value in (line.split() for line in output.splitlines())}


def median_of(rounds, work):
    results = [work() for _ in range(rounds)]
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


class Collector:
    """A collector of our own, and what it has used."""

    def __init__(self, highwater, folder):
        self.highwater, self.socket = highwater, f"{folder}/socket"
        self.environment = dict(os.environ, HIGHWATER_SOCKET=self.socket)
        store = ["--store", f"{folder}/kept", "--quiet"]
        self.process = subprocess.Popen([highwater, "collector", *store], env=self.environment)
        while subprocess.run([highwater, "ps"], env=self.environment, capture_output=True).returncode != 0:
            time.sleep(0.05)

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def highest_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def own_highest_bytes(self):
        """Without the process's memory, which is shared: what the collector itself needs."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024

    def end(self):
        self.process.terminate()
        self.process.wait()


def user_cpu(command, **options):
    """CPU seconds of a command and of those that it waits for, and its output."""
    before = os.times()
    done = subprocess.run(command, check=True, capture_output=True, text=True, **options)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system), done


def snapshots(highwater, work, blocks):
    """A report of a process that holds many blocks."""
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(highwater, folder)
        program = subprocess.Popen(
            [highwater, "run", "-q", "--", str(work / "holding"), str(blocks)],
            env=collector.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        program.stdout.readline()
        processes = json.loads(subprocess.run([highwater, "ps", "--json"], env=collector.environment, check=True, capture_output=True, text=True).stdout)
        about = next(process for process in processes["processes"] if process["name"] == "holding")
        found = {"table_bytes_per_block": about["table_bytes"] / about["live_blocks"]}
        results = []
        for _ in range(5):
            cpu, wall = collector.cpu_seconds(), time.monotonic()
            own, done = user_cpu([highwater, "snapshot", "--pid", str(about["pid"]), "--json", "--top", "20"], env=collector.environment)
            report = json.loads(done.stdout)
            assert report["cut"]["exact"] and report["cut"]["verified"], report["cut"]
            assert report["totals"]["live_blocks"] >= blocks
            results.append({
                "report_cpu": collector.cpu_seconds() - cpu + own,
                "report_wall": time.monotonic() - wall,
                "scan": report["cut"]["scan_ns"] / 1e9,
            })
        for name in results[0]:
            found[name] = statistics.median(result[name] for result in results)
        found["collector_bytes"] = collector.highest_bytes()
        found["collector_own_bytes"] = collector.own_highest_bytes()
        wall = time.monotonic()
        subprocess.run([highwater, "snapshot", "--pid", str(about["pid"]), "--force", "-o", f"{folder}/all.hw"], env=collector.environment, check=True, capture_output=True)
        found["file_wall"] = time.monotonic() - wall
        found["file_bytes_per_block"] = os.path.getsize(f"{folder}/all.hw") / blocks
        found["collector_bytes_all"] = collector.highest_bytes()
        program.stdin.close()
        program.wait()
        collector.end()
        return found


def latency(highwater, work, rounds):
    """Median and 99th percentile of requests: native and live, in turn."""
    modes = {"native": [], "native again": [], "sampled": ["--sample", "512KiB"], "exact": []}
    found = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(highwater, folder)
        for _ in range(rounds):
            for mode, options in modes.items():
                prefix = [] if mode.startswith("native") else [highwater, "run", "-q", *options, "--"]
                output = subprocess.run([*prefix, str(work / "server")], env=collector.environment, check=True, capture_output=True, text=True).stdout
                found[mode].append([float(number) for number in output.split()[:2]])
        collector.end()
    # The least of each: what is more was somebody else's doing. And the median of the rounds' ratios.
    result = {}
    for mode, values in found.items():
        for at, name in enumerate(["half", "most"]):
            result[f"{mode} {name}"] = min(value[at] for value in values)
            ratios = [value[at] / native[at] for value, native in zip(values, found["native"])]
            result[f"{mode} {name} ratio"] = statistics.median(ratios)
    return result


def number(value, digits=0):
    return f"{value:,.{digits}f}"


def document(table, stalls, held, served, blocks, rounds):
    mebibytes = 1 << 20
    ratio = lambda mode, name: served[f"{mode} {name}"] / served[f"native {name}"]
    lines = [
        f"Measured by `bench/live` on {processor()}, {os.cpu_count()} processors; CPU time unless it says otherwise.",
        "",
        "| what | asked | measured |",
        "|---|---|---|",
        f"| table, allocation + free, hot, without walking the stack | ≤ 60 ns | {number(table['hot'], 1)} ns (the predecessor's layout: {number(table['hot_predecessor'], 1)}) |",
        f"| the same with {blocks / 1e6:g} M live blocks, random frees | ≤ 700 ns | {number(table['random'])} ns (the predecessor's layout: {number(table['random_predecessor'] / 1000, 1)} µs, {number(table['random_predecessor'] / table['random'])} × as much) |",
        f"| making the cut | ≤ 5 µs median | {number(stalls['cut'] / 1000, 2)} µs (worst {number(stalls['cut_worst'] / 1000, 1)}), {number(stalls['snapshots'])} snapshots of 1 M blocks, all verified |",
        f"| a writer's worst operation, while its table is read without a cut and with snapshots, apart from those during which the system ran another program there (median of 7 rounds each) | ≤ 2 × | {number(stalls['worst_own_without'] / 1000, 1)} and {number(stalls['worst_own_with'] / 1000, 1)} µs: {number(stalls['worst_own_with'] / stalls['worst_own_without'], 2)} × |",
        f"| those included | | {number(stalls['worst_without'] / 1000, 1)} and {number(stalls['worst_with'] / 1000, 1)} µs |",
        f"| one in 100,000 operations takes longer than | | {number(stalls['one_in_100000_without'])} and {number(stalls['one_in_100000_with'])} ns |",
        f"| report of {blocks / 1e6:g} M live blocks | ≤ 2 s | {number(held['report_cpu'], 2)} s of CPU in collector and command together ({number(held['report_wall'], 2)} s on the clock; {number(held['scan'], 2)} s of it reading the table) |",
        f"| memory of the collector for it | ≤ 1.5 GB | {number(held['collector_bytes'] / mebibytes)} MiB, of which {number(held['collector_own_bytes'] / mebibytes)} MiB its own, the rest the program's table |",
        f"| every block of them into a file | | {number(held['file_wall'], 2)} s on the clock, {number(held['file_bytes_per_block'], 1)} bytes a block; collector {number(held['collector_bytes_all'] / mebibytes)} MiB |",
        f"| shared memory per live block | ≤ 64 bytes | {number(held['table_bytes_per_block'], 1)} bytes |",
        f"| server, 500 allocations a request, `--sample 512KiB`: median request | ≤ 1.05 × | {number(ratio('sampled', 'half'), 3)} × ({number(served['native half'] / 1000, 1)} → {number(served['sampled half'] / 1000, 1)} µs; a second native run: {number(ratio('native again', 'half'), 3)}) |",
        f"| its 99th percentile | ≤ 1.05 × | {number(ratio('sampled', 'most'), 3)} × ({number(served['native most'] / 1000, 1)} → {number(served['sampled most'] / 1000, 1)} µs; a second native run: {number(ratio('native again', 'most'), 3)}) |",
        f"| the same server, every block | | median {number(ratio('exact', 'half'), 2)} ×, 99th percentile {number(ratio('exact', 'most'), 2)} × |",
        "",
        f"Latencies are the least of {rounds} rounds in turn.",
    ]
    return "\n".join(lines)


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write_document(text):
    content = DOCUMENT.read_text()
    before, rest = content.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--work", required=True, type=Path)
    arguments.add_argument("--highwater", required=True, type=Path)
    arguments.add_argument("--table", required=True, type=Path)
    arguments.add_argument("--blocks", type=int, default=10_000_000)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--dry", action="store_true", help="print the table, write nothing")
    options = arguments.parse_args()
    table_program, highwater = str(options.table), str(options.highwater.absolute())
    work = options.work.absolute()
    say("the table …")
    table = median_of(3, lambda: measured([table_program, "hot"]))
    table |= median_of(3, lambda: measured([table_program, "random", str(options.blocks)]))
    say("cuts and stalls …")
    stalls = measured([table_program, "stalls"])
    say("reports …")
    held = snapshots(highwater, work, options.blocks)
    say("latencies …")
    served = latency(highwater, work, options.rounds)
    text = document(table, stalls, held, served, options.blocks, options.rounds)
    print(text)
    if not options.dry:
        write_document(text)


main()
