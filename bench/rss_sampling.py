"""Measures what reading the resident memory costs in 'highwater record': bench/rss-sampling builds everything and calls this.

Each workload is recorded with and without it, in turn, several times over. CPU time is that of the program and of the recorder; on a busy machine it varies by
more than what is measured. So the CPU time of the thread that reads pages is printed too, as a part of the elapsed time: the goal is one percent.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

GOAL = 1.0
MODES = {"with": [], "without": ["--rss-every", "off"]}


def workloads(work):
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True).stdout.strip()
    compile_it = [compiler, "-quiet", "-fpreprocessed", "-std=c++17", "-O1", str(work / "compile.ii"), "-o", str(work / "compile.s")]
    return {
        "1,000 live blocks, replaced at random": [str(work / "churn"), "1000", "60000000"],
        "1 million live blocks, replaced at random": [str(work / "churn"), "1000000", "20000000"],
        "g++ (cc1plus)": compile_it,
    }


class PagesThread(threading.Thread):
    """Looks at the CPU time of the recorder's thread that reads pages, as long as the recorder runs."""

    def __init__(self, pid):
        super().__init__()
        self.tasks, self.seconds = Path(f"/proc/{pid}/task"), 0.0

    def run(self):
        while True:
            try:
                for task in self.tasks.iterdir():
                    if (task / "comm").read_text().strip() == "pages":
                        self.seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)


def recorded(highwater, command, mode, recording):
    """CPU seconds of program and recorder, and seconds on the clock."""
    start = time.perf_counter()
    # A recording also waits for the names of functions, which is the same in both modes.
    child = subprocess.Popen(
        [highwater, "record", "--force", "-o", str(recording), *MODES[mode], "--", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )
    pages = PagesThread(child.pid)
    pages.start()
    said = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"bench/rss-sampling: {command[0]} failed:\n{said}")
    wall = time.perf_counter() - start
    pages.join()
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "pages": 100 * pages.seconds / wall}


def facts(highwater, recording):
    info = json.loads(subprocess.run([highwater, "info", str(recording), "--json"], check=True, capture_output=True, text=True).stdout)
    readings = {gauge["name"]: gauge["readings"] for gauge in info["gauges"]}
    return readings.get("rss", 0), readings.get("free resident bytes", 0), info["source"]["duration_ns"] / 1e9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--highwater", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    work, highwater = arguments.work.resolve(), str(Path(arguments.highwater).resolve())
    print(f"{'workload':44} {'CPU without':>12} {'CPU with':>10} {'more CPU':>9} {'more time':>10} {'pages':>7}  curve points")
    for title, command in workloads(work).items():
        runs = {mode: [] for mode in MODES}
        for _ in range(arguments.rounds):
            for mode in MODES:
                runs[mode].append(recorded(highwater, command, mode, work / f"{mode}.hw"))
        median = {mode: {kind: statistics.median(run[kind] for run in all) for kind in ("cpu", "wall")} for mode, all in runs.items()}
        pairs = list(zip(runs["with"], runs["without"]))
        # Of the two runs of a round: what changes on the machine from round to round then counts little.
        more = {kind: 100 * statistics.median(a[kind] / b[kind] - 1 for a, b in pairs) for kind in ("cpu", "wall")}
        rss, curves, seconds = facts(highwater, work / "with.hw")
        share = statistics.median(run["pages"] for run in runs["with"])
        verdict = "" if share <= GOAL else f"  short of the goal of {GOAL:.0f} %"
        print(
            f"{title:44} {median['without']['cpu']:10.2f} s {median['with']['cpu']:8.2f} s {more['cpu']:+8.2f}% {more['wall']:+9.2f}% {share:6.2f}%"
            f"  {rss} of RSS, {curves} of free memory in {seconds:.1f} s{verdict}"
        )


if __name__ == "__main__":
    main()
