"""Measures a fleet's lake and the questions: bench/fleet builds everything and calls this."""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import servers
from spark_cluster import SparkCluster, TreeWatch

SERVICES = ["compiler", "python", "git", "sqlite", "jq"]
# The second half of a run: a service has started long ago.
INSTANTS = [50 + 3 * step for step in range(17)]
QUESTIONS = {
    "top": ["top"],
    "growth": ["growth"],
    "leaks": ["leaks"],
    "diff": ["diff", "--a", "region=eu-west-1", "--b", "region=us-east-1"],
    "processes": ["processes"],
    "timeline": ["timeline", "--by", "version"],
    "flamegraph": ["flamegraph"],
}
# These read sums by hour if the times are whole hours, and every slot otherwise.
BY_SLOT = ["growth", "leaks", "diff"]
# Slots of servers under load, and which of them count: the longer apart, the more has changed.
CHURN_SLOTS, CHURN_STEPS = 240, [1, 5]
CHANGING = "'changing' is only those sites of all of them whose figures change in at least half of the slots."
# Goals: bytes a row of the compacted table, and for each question CPU seconds and MB at a number of rows.
MOST_BYTES_PER_ROW = 3
MOST_CPU, MOST_MB, GOAL_ROWS = 10, 600, 128e6
PYTHON = """
import json, collections
store = collections.OrderedDict(); words = {}
for i in range(60000):
    text = json.dumps({"id": i, "name": "user%d" % i, "tags": ["t%d" % (i % 97)] * 3})
    store[i] = json.loads(text); words.setdefault(i % 5000, []).append(text)
    if len(store) > 8000: store.popitem(last=False)
    if i % 20000 == 0: words.clear()
"""


def verdict(is_reached):
    return "reached" if is_reached else "**short**"


class Bench:
    def __init__(self, options):
        self.options = options
        self.work = options.work.resolve()
        self.highwater = str((options.programs / "highwater").resolve())
        self.simulator = str((options.programs / "fleet-lake").resolve())
        self.asked = {}
        self.cluster = SparkCluster(self.work) if options.spark == "cluster" else None
        self.master = self.cluster.address if self.cluster else options.spark

    def measured(self, command, out):
        """CPU seconds of a program and its children, and the largest resident set of any of them in MB."""
        with open(out, "wb") as stdout:
            child = subprocess.Popen(command, stdout=stdout)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"failed: {' '.join(command)}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def record(self, name):
        """Records a program, once."""
        path = self.work / f"{name}.hw"
        if path.exists():
            return path
        stdin = subprocess.DEVNULL
        if name == "compiler":
            source = self.work / "compile.ii"
            subprocess.run(["g++", "-E", "bench/workloads/compile.cpp", "-o", source], check=True)
            compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True).stdout.strip()
            command = [compiler, "-quiet", "-O1", str(source), "-o", "/dev/null"]
        elif name == "python":
            command = ["python3", "-c", PYTHON]
        elif name == "git":
            command = ["git", "log", "--stat", "-n", "400"]
        elif name == "sqlite":
            command, stdin = ["sqlite3", ":memory:"], open("bench/workloads/sqlite.sql", "rb")
        else:
            numbers = self.work / "numbers.json"
            numbers.write_text(json.dumps([{"id": i, "name": f"user{i}", "tags": [str(i % 97)] * 3} for i in range(20000)]))
            command = ["jq", "group_by(.tags[0]) | map({tag: .[0].tags[0], names: map(.name) | sort | join(\",\")})", str(numbers)]
        part = path.with_suffix(".part.hw")
        with open(self.work / f"{name}.log", "wb") as log:
            record = [self.highwater, "record", "--force", "--no-children", "-o", str(part), "--", *command]
            subprocess.run(record, check=True, stdin=stdin, stdout=subprocess.DEVNULL, stderr=log)
        return part.rename(path)

    def sites(self):
        """Writes the sites of all recordings at all instants, the largest first, once."""
        path = self.work / "sites.tsv"
        if path.exists():
            return path
        part = path.with_suffix(".part")
        with open(part, "w") as out:
            for name in SERVICES:
                recording = self.record(name)
                sites = {}
                for place, instant in enumerate(INSTANTS):
                    table = self.work / "instant.csv"
                    export = [self.highwater, "export", str(recording), "--at", f"{instant}%", "--force", "-o", str(table)]
                    subprocess.run(export, check=True, capture_output=True)
                    with open(table, newline="") as rows:
                        for row in csv.DictReader(rows):
                            about = tuple(row[column].replace("\t", " ") for column in ("function", "module", "stack"))
                            # Stacks that differ in lines only are one site.
                            states = sites.setdefault(about[2], (about, [[0] * 4 for _ in INSTANTS]))[1]
                            for at, column in enumerate(("live_bytes", "live_blocks", "allocated_bytes", "allocations")):
                                states[place][at] += int(row[column])
                live = [site for site in sites.values() if any(state[1] > 0 for state in site[1])]
                live.sort(key=lambda site: (-max(state[0] for state in site[1]), site[0]))
                out.write(f"service\t{name}\n")
                for about, states in live:
                    out.write("\t".join([*about, *(",".join(map(str, state)) for state in states)]) + "\n")
        return part.rename(path)

    def churn(self):
        """Ships servers under load, once, and prints what a row takes: of all their sites, and of those alone that always change."""
        lake, minutes = self.work / "churn-lake", self.work / "minutes"
        if not lake.exists():
            servers.ship(self.highwater, lake, CHURN_SLOTS)
        print("| service | slots | processes | rows | unlike those of the slot before | bytes a row, compacted | goal |\n|---|---|---|---|---|---|---|")
        for changing in ([], ["--changing"]):
            for step in CHURN_STEPS:
                made = [os.environ["HIGHWATER_PYTHON"], "bench/minutes.py", str(lake), str(minutes), "--step", str(step), *changing]
                report = json.loads(subprocess.run(made, check=True, capture_output=True).stdout)
                subprocess.run([self.highwater, "lake", "compact", str(minutes)], check=True, stdout=subprocess.DEVNULL)
                for service, (processes, rows, changed) in report.items():
                    per_row = self.bytes_of(minutes, service) / rows
                    goal = f"≤ {MOST_BYTES_PER_ROW}: {verdict(per_row <= MOST_BYTES_PER_ROW)}"
                    print(f"| {service} | each {step * servers.EVERY} s | {processes} | {rows:,} | {changed / rows:.0%} | {per_row:.2f} | {goal} |")
        print(f"Servers under load as 'highwater ship' wrote them, one slot a minute in place of each {servers.EVERY} s: nothing is copied. {CHANGING}")

    def bytes_of(self, lake, service):
        """Bytes of a service's compacted sites."""
        return sum(file.stat().st_size for file in (lake / "sites").glob(f"*/service={service}/*.parquet"))

    def lake(self, sites, scale):
        """Writes and compacts a lake, and asks all questions. Returns the cells of its column."""
        options = self.options
        lake = self.work / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        shape = [options.processes * scale, options.minutes, options.sites, options.file_minutes]
        truth_file = self.work / "truth.json"
        write, _ = self.measured([self.simulator, str(sites), str(lake), *map(str, shape)], truth_file)
        truth = json.loads(truth_file.read_text())
        incoming = sum(file.stat().st_size for file in (lake / "incoming/sites").rglob("*.parquet"))
        compact, compact_memory = self.measured([self.highwater, "lake", "compact", str(lake)], os.devnull)
        millions = truth["rows"] / 1e6
        size = {table: sum(file.stat().st_size for file in (lake / table).rglob("*.parquet")) for table in ("sites", "sites_hour", "stacks", "frames", "processes")}
        self.same("rows, live and allocated bytes", self.sums(lake), [truth[key] for key in ("rows", "live_bytes", "alloc_bytes")])
        cells = {
            "processes at a time": f"{shape[0]:,}",
            "rows of sites": f"{truth['rows']:,}",
            "bytes a row, from hosts": f"{incoming / truth['rows']:.2f}",
            "bytes a row, compacted": f"{size['sites'] / truth['rows']:.2f}",
            "bytes a row, with all other tables": f"{sum(size.values()) / truth['rows']:.2f}",
            "making and writing, CPU s per million rows": f"{write / millions:.2f}",
            "compaction and roll-up, CPU s per million rows": f"{compact / millions:.2f}",
            "compaction, MB": f"{compact_memory:.0f}",
        }
        second_slot = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(truth["first_slot"] + 60))
        asked = [(name, arguments) for name, arguments in QUESTIONS.items()]
        asked += [(f"{name}, every slot", [*QUESTIONS[name], "--since", second_slot]) for name in BY_SLOT]
        for name, arguments in asked:
            cells[name] = self.ask(name, lake, arguments)
        self.bytes_per_row, self.rows = size["sites"] / truth["rows"], truth["rows"]
        self.by_service = {service: self.bytes_of(lake, service) / rows for service, rows in self.rows_by_service(lake)}
        top = json.loads((self.work / "top.json").read_text())
        self.same("bytes of all sites at the peak", sum(row["bytes"] for row in top["rows"]), truth["peak_bytes"])
        self.leaks(truth)
        if not options.keep:
            shutil.rmtree(lake)
        return cells, truth

    def ask(self, name, lake, arguments):
        """Asks DuckDB, and Spark too if that is wanted: the answers must be the same bytes."""
        command = [self.highwater, "fleet", arguments[0], str(lake), *arguments[1:]]
        is_picture = name == "flamegraph"
        command += ["-o", str(self.work / "flamegraph.svg"), "--force"] if is_picture else ["--json"]
        answer = self.work / f"{name}.json"
        cpu, memory = self.measured(command, answer)
        cell = f"{cpu:.2f} s, {memory:.0f} MB"
        self.asked[name] = (cpu, memory)
        if not self.options.spark:
            return cell
        picture = (self.work / "flamegraph.svg").read_bytes() if is_picture else b""
        on_spark = self.work / f"{name}-spark.json"
        began = time.monotonic()
        with TreeWatch() as watch:
            self.measured([*command, "--engine", "spark", "--master", self.master], on_spark)
        if is_picture:
            self.same("flamegraph on Spark", (self.work / "flamegraph.svg").read_bytes() == picture, True)
        else:
            self.same(f"{name} on Spark is DuckDB's answer", on_spark.read_bytes() == answer.read_bytes(), True)
        return f"{cell}; Spark {watch.cpu_seconds():.0f} s, {watch.megabytes:,.0f} MB, {time.monotonic() - began:.0f} s on the clock"

    def verdicts(self):
        """The goal of each row of the table, judged by the last lake. A smaller one is scaled to the goal's rows: time grows linearly."""
        goals = {"bytes a row, compacted": f"≤ {MOST_BYTES_PER_ROW}: {verdict(self.bytes_per_row <= MOST_BYTES_PER_ROW)}"}
        scale = max(1, GOAL_ROWS / self.rows)
        for name, (cpu, memory) in self.asked.items():
            goals[name] = f"≤ {MOST_CPU} CPU s, ≤ {MOST_MB} MB: {verdict(cpu * scale <= MOST_CPU and memory <= MOST_MB)}"
        return goals

    def sums(self, lake):
        sql = "SELECT count(*) AS n, CAST(sum(live_bytes) AS BIGINT) AS live, CAST(sum(alloc_bytes) AS BIGINT) AS alloc FROM sites"
        answer = subprocess.run([self.highwater, "fleet", "sql", str(lake), sql, "--json"], check=True, capture_output=True)
        row = json.loads(answer.stdout)["rows"][0]
        return [row["n"], row["live"], row["alloc"]] if isinstance(row, dict) else row

    def rows_by_service(self, lake):
        sql = "SELECT service, count(*) AS n FROM sites GROUP BY service ORDER BY service"
        answer = subprocess.run([self.highwater, "fleet", "sql", str(lake), sql, "--json"], check=True, capture_output=True)
        return json.loads(answer.stdout)["rows"]

    def leaks(self, truth):
        """Exactly the known leaks, in exactly the processes that have them, at the known rate."""
        rows = json.loads((self.work / "leaks.json").read_text())["rows"]
        found = {(row["service"], str(row["site_id"])): row for row in rows}
        known = {(leak["service"], leak["site_id"]): leak for leak in truth["leaks"]}
        self.same("leaks", sorted(found), sorted(known))
        for key, leak in known.items():
            row = found[key]
            self.same(f"processes and hosts of {key}", [row["processes"], row["hosts"]], [leak["processes"], leak["hosts"]])
            for rate in (row["slowest"], row["fastest"]):
                if abs(rate - leak["blocks_per_hour"]) > 0.02 * leak["blocks_per_hour"]:
                    sys.exit(f"{key}: {rate} blocks an hour, not {leak['blocks_per_hour']}")

    def same(self, what, found, wanted):
        if found != wanted:
            sys.exit(f"{what}: {found}, not {wanted}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=250, help="at a time, in the smallest fleet")
    parser.add_argument("--minutes", type=int, default=120, help="at least 72: a leak is found in processes with 30 slots")
    parser.add_argument("--sites", type=int, default=1000, help="call stacks of a process")
    parser.add_argument("--file-minutes", type=int, default=60, help="minutes in a file of a host")
    parser.add_argument("--scales", default="1,2,4", help="multiples of the processes")
    parser.add_argument("--spark", metavar="MASTER", help="ask Spark, too: 'local[2]', an address (the cluster's own CPU and memory are not counted), or 'cluster' "
                        "for a master and two workers on this machine")
    parser.add_argument("--churn", action="store_true", help="only ship servers under load, and print bytes a row")
    parser.add_argument("--keep", action="store_true", help="keep the last lake")
    bench = Bench(parser.parse_args())
    try:
        report(bench)
    finally:
        if bench.cluster:
            bench.cluster.end()


def report(bench):
    if bench.options.churn:
        bench.churn()
        return
    sites = bench.sites()
    columns = []
    for scale in map(int, bench.options.scales.split(",")):
        cells, truth = bench.lake(sites, scale)
        columns.append((scale, cells))
    for service in truth["services"]:
        size = bench.by_service[service["name"]]
        print("{name}: {recorded} recorded sites of {sites}, {steady} with the same blocks at all instants; ".format(**service) + f"{size:.2f} bytes a row")
    goals = bench.verdicts()
    print("| | " + " | ".join(f"{scale}×" for scale, _ in columns) + f" | goal at {GOAL_ROWS / 1e6:.0f} M rows |\n|---|" + "---|" * (len(columns) + 1))
    for name in columns[0][1]:
        print(f"| {name} | " + " | ".join(cells[name] for _, cells in columns) + f" | {goals.get(name, '')} |")
    print(f"Sums and the peak are those that the simulator counted. Leaks found: exactly the {len(truth['leaks'])} known ones, in exactly their processes.")


if __name__ == "__main__":
    main()
