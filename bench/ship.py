"""Measures what shipping costs a host: bench/ship builds everything and calls this."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


# Goals: part of a core for 100 processes at one slot a minute, memory that is flat but for noise, and bytes a row.
GOAL_PROCESSES, MOST_SHARE, MOST_GROWTH, MOST_BYTES_PER_ROW = 100, 0.01, 4, 3


def verdict(is_reached):
    return "reached" if is_reached else "**short**"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    """Resident memory in MB, without mapped files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--highwater", required=True)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--every", type=int, default=3, help="seconds from slot to slot: the cost of a slot is the same in a minute")
    parser.add_argument("--slots", type=int, default=60)
    options = parser.parse_args()
    folder = tempfile.mkdtemp()
    environment = dict(os.environ, HIGHWATER_SOCKET=f"{folder}/socket", XDG_CACHE_HOME=f"{folder}/cache")
    highwater = os.path.abspath(options.highwater)
    collector = subprocess.Popen([highwater, "collector", "--store", f"{folder}/kept", "--quiet"], env=environment)
    while subprocess.run([highwater, "ps"], env=environment, capture_output=True).returncode != 0:
        time.sleep(0.1)
    programs = []
    shipper = None

    def start_program():
        command = [highwater, "run", "-q", "--", str(options.work / "sites")]
        program = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        program.stdout.readline()
        programs.append(program)

    def replace_programs(seconds):
        """Each slot the oldest process ends, and a new one starts. Returns the median of the shipper's memory: while it makes a slot it has more."""
        until = time.monotonic() + seconds
        looks = []
        while time.monotonic() + options.every <= until:
            oldest = programs.pop(0)
            oldest.terminate()
            oldest.wait()
            start_program()
            for _ in range(4):
                looks.append(resident(shipper.pid))
                time.sleep(options.every / 4)
        time.sleep(max(0, until - time.monotonic()))
        return statistics.median(looks)

    try:
        for _ in range(options.processes):
            start_program()
        idle = cpu_seconds(collector.pid)
        time.sleep(20)
        idle = (cpu_seconds(collector.pid) - idle) / 20 * 60
        command = [highwater, "ship", "--to", f"{folder}/lake", "--spool", f"{folder}/spool", "--every", f"{options.every}s", "--jitter", "0s"]
        command += ["--file-every", f"{options.every * 5}s"]
        shipper = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        last = Path(f"{folder}/spool/last")
        while not last.exists():
            time.sleep(0.05)
        first = cpu_seconds(shipper.pid)
        memory = [replace_programs(options.every * 10)]
        began = (cpu_seconds(shipper.pid), cpu_seconds(collector.pid), int(last.read_text().split()[0]), time.monotonic())
        for _ in range(4):
            memory.append(replace_programs(options.every * options.slots / 4))
        slots = (int(last.read_text().split()[0]) - began[2]) // options.every
        elapsed = time.monotonic() - began[3]
        of_shipper = (cpu_seconds(shipper.pid) - began[0]) / slots
        of_collector = (cpu_seconds(collector.pid) - began[1] - idle / 60 * elapsed) / slots
        # All that shipping adds, of the processes that the goal is for.
        share = (of_shipper + of_collector) / 60 * GOAL_PROCESSES / options.processes
        growth = max(memory[1:]) - memory[0]
        shipper.terminate()
        if shipper.wait() != 0:
            sys.exit("the shipper could not send everything")
        # Its hour is not over: as minutes of a past day.
        minutes = [os.environ["HIGHWATER_PYTHON"], "bench/minutes.py", f"{folder}/lake", f"{folder}/minutes"]
        report = json.loads(subprocess.run(minutes, check=True, capture_output=True).stdout)
        subprocess.run([highwater, "lake", "compact", f"{folder}/minutes"], check=True, stdout=subprocess.DEVNULL)
        changed = sum(service[2] for service in report.values())
        info = subprocess.run([highwater, "lake", "info", f"{folder}/minutes", "--json"], check=True, capture_output=True)
        sites = next(table for table in json.loads(info.stdout)["tables"] if table["table"] == "sites")
        rows, per_row = sites["compacted"]["rows"], sites["bytes_per_row"]
        table = [
            (
                f"shipper and collector, {GOAL_PROCESSES} processes, one slot a minute",
                f"{share:.2%} of a core; goal ≤ {MOST_SHARE:.0%}: {verdict(share <= MOST_SHARE)}",
            ),
            ("growth of the shipper's memory", f"{max(0, growth):.0f} MB; goal ≤ {MOST_GROWTH} MB: {verdict(growth <= MOST_GROWTH)}"),
            (
                f"bytes a row of its compacted lake: {rows:,} rows, {changed / rows:.0%} of them unlike those of the slot before",
                f"{per_row:.2f}; goal ≤ {MOST_BYTES_PER_ROW}: {verdict(per_row <= MOST_BYTES_PER_ROW)}",
            ),
            ("CPU of the first slot, with all names", f"{first:.2f} s"),
            ("CPU of the shipper for a slot", f"{of_shipper * 1000:.0f} ms, {of_shipper / 60:.2%} of a core at one slot a minute"),
            ("CPU of the collector for a slot", f"{of_collector * 1000:.0f} ms, {of_collector / 60:.2%}"),
            ("CPU of the collector without a shipper", f"{idle * 1000:.0f} ms a minute, {idle / 60:.2%}"),
            (f"anonymous memory of the shipper, medians of the first ten slots and of quarters of {slots} more", ", ".join(f"{value:.0f}" for value in memory) + " MB"),
        ]
        print(f"{options.processes} processes of 1,000 sites, {slots} slots measured, one process replaced in each\n\n| | |\n|---|---|")
        for name, value in table:
            print(f"| {name} | {value} |")
    finally:
        for process in [*programs, shipper, collector]:
            if process is not None:
                process.terminate()
        for process in [*programs, shipper, collector]:
            if process is not None:
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
