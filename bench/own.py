"""Measures the agent's own memory inside programs: bench/own builds everything and calls this."""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BEGIN, END = "<!-- own: written by bench/own -->", "<!-- own: end -->"
DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
# From crates/shm: the list in the session's header, the header's fields, and the layout of the memory after it.
LIST_OFFSET, MOST_AREAS = 2216, 64
VARIOUS, BLOCK_INDEX, STACK_INDEX = 0, 1, 2
SHARED = ("/memfd:highwater (deleted)", "/memfd:highwater-live-v1 (deleted)")
MOST_PRIVATE, MOST_PER_BLOCK = 4 << 20, 40
# With fewer the fixed part of the table is most of it.
MANY_BLOCKS = 100_000


def say(text):
    print(text, file=sys.stderr, flush=True)


def mappings(pid):
    """(start, end, name, resident bytes) of each mapping."""
    found = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+\s*(.*)$", line)
        if head:
            found.append([int(head[1], 16), int(head[2], 16), head[3], 0])
        elif line.startswith("Rss:"):
            found[-1][3] = int(line.split()[1]) * 1024
    return found


def resident(pid, start, end):
    """Bytes of present pages between two addresses."""
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        pagemap.seek(start // 4096 * 8)
        words = pagemap.read((end - start) // 4096 * 8)
    return 4096 * sum(word >> 63 for (word,) in struct.iter_unpack("Q", words))


def own_memory(pid):
    """Resident bytes of the agent by kind; None if the process has no agent yet."""
    every = mappings(pid)
    shared = next((mapping for mapping in every if mapping[2] in SHARED), None)
    if shared is None:
        return None
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(shared[0])
        header = memory.read(4096)
    rings, nodes = struct.unpack_from("II", header, 32)
    used_nodes, = struct.unpack_from("I", header, 44)
    unlisted, = struct.unpack_from("Q", header, LIST_OFFSET)
    private = {VARIOUS: unlisted, BLOCK_INDEX: 0, STACK_INDEX: 0}
    for number in range(MOST_AREAS):
        start, size = struct.unpack_from("QQ", header, LIST_OFFSET + 8 + number * 16)
        if size >= 4096:
            start, use = start & ~4095, start & 4095
            private[use] += resident(pid, start, start + size)
    stacks = (4096 + rings * 128 + 4095) // 4096 * 4096 + (4 << 20)
    node_bytes = nodes * 16
    is_live = shared[2] == SHARED[1]
    trie = resident(pid, shared[0] + stacks, shared[0] + stacks + min(node_bytes, (used_nodes * 16 + 4095) // 4096 * 4096))
    return {
        "various": private[VARIOUS], "block index": private[BLOCK_INDEX], "stack index": private[STACK_INDEX],
        "stacks": trie, "nodes": used_nodes,
        "table": shared[3] - trie if is_live else 0,
        "rings": 0 if is_live else shared[3] - trie,
    }


class Collector:
    """A collector of our own: another one that happens to run is left alone."""

    def __init__(self, highwater, folder):
        self.highwater = highwater
        self.environment = dict(os.environ, HIGHWATER_SOCKET=f"{folder}/socket")
        self.process = subprocess.Popen([highwater, "collector", "--store", f"{folder}/kept", "--quiet"], env=self.environment)
        while subprocess.run([highwater, "ps"], env=self.environment, capture_output=True).returncode != 0:
            time.sleep(0.05)

    def end(self):
        self.process.terminate()
        self.process.wait()


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def named(root, name):
    """The process of this name that a command started, once there is one; None after the command has ended."""
    while root.poll() is None:
        for pid in [root.pid, *descendants(root.pid)]:
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == name and own_memory(pid):
                    return pid
            except OSError:
                pass
        time.sleep(0.01)
    return None


def waiting(collector, command, name, prepare=lambda: None):
    """A program that prints a line when it has done its work, or is prepared, and waits for the end of its input."""
    program = subprocess.Popen(
        [collector.highwater, "run", "-q", "--", *command],
        env=collector.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    prepared = prepare()
    if not prepared:
        program.stdout.readline()
    pid = named(program, name)
    found = own_memory(pid)
    processes = json.loads(subprocess.run([collector.highwater, "ps", "--json"], env=collector.environment, check=True, capture_output=True, text=True).stdout)
    found["blocks"] = next(process["live_blocks"] for process in processes["processes"] if process["pid"] == pid)
    program.stdin.close()
    if prepared:
        os.kill(pid, 15)
    program.wait()
    return found


def redis(collector, folder, keys):
    socket = f"{folder}/redis"
    client = ["redis-cli", "-s", socket]

    def fill():
        while subprocess.run([*client, "ping"], capture_output=True, text=True).stdout.strip() != "PONG":
            time.sleep(0.1)
        subprocess.run([*client, "debug", "populate", str(keys)], check=True, capture_output=True)
        return True

    server = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--enable-debug-command", "yes", "--dir", str(folder)]
    return waiting(collector, server, "redis-server", fill)


def compiled(command, environment):
    """cc1plus, at the moment at which the agent had most private memory."""
    compiler = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid, most = named(compiler, "cc1plus"), {}
    try:
        while compiler.poll() is None:
            now = own_memory(pid)
            if now and (not most or now["various"] + now["stack index"] > most["various"] + most["stack index"]):
                most = now
            time.sleep(0.1)
    except OSError:
        pass
    compiler.wait()
    return most


def row(what, found):
    mebibytes = lambda key: f"{found[key] / (1 << 20):.2f}"
    private = found["various"] + found["stack index"]
    verdict = "reached" if private <= MOST_PRIVATE else "**short**"
    per_block = ""
    blocks = found.get("blocks", 0)
    if blocks >= MANY_BLOCKS:
        each = (found["table"] + found["block index"]) / blocks
        per_block = f"{each:.1f} ({'reached' if each <= MOST_PER_BLOCK else '**short**'})"
    return (
        f"| {what} | {private / (1 << 20):.2f} MiB ({verdict}) | {mebibytes('stack index')} | {per_block} | {mebibytes('table')} | "
        f"{mebibytes('block index')} | {mebibytes('stacks')} ({found['nodes']:,}) | {mebibytes('rings')} |"
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--work", required=True, type=Path)
    arguments.add_argument("--highwater", required=True, type=Path)
    arguments.add_argument("--dry", action="store_true", help="print the table, write nothing")
    options = arguments.parse_args()
    highwater, work = str(options.highwater.absolute()), options.work.absolute()
    source = Path(__file__).parent / "workloads" / "compile.cpp"
    lines = [
        "| program | private memory (≤ 4 MiB) | of it the index of stacks | bytes a live block (≤ 40) | table | its index | stacks (nodes) | rings |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(highwater, folder)
        for blocks in (1_000_000, 1_250_000, 1_500_000, 2_000_000):
            say(f"{blocks} blocks …")
            found = waiting(collector, [str(work / "holding"), str(blocks)], "holding")
            lines.append(row(f"{blocks / 1e6:g} M live blocks", found))
        say("redis …")
        found = redis(collector, folder, 1_000_000)
        lines.append(row(f"redis-server, 1 M keys ({found['blocks']:,} blocks)", found))
        say("threads …")
        lines.append(row("64 threads, 60 deep", waiting(collector, [str(work / "many_threads")], "many_threads")))
        say("cc1plus …")
        compiler = ["g++", "-std=c++17", "-O2", "-c", str(source), "-o", f"{folder}/compiled.o"]
        lines.append(row("cc1plus, `run`", compiled([highwater, "run", "-q", "--", *compiler], collector.environment)))
        recorded = [highwater, "record", "-o", f"{folder}/compiled.hw", "--", *compiler]
        lines.append(row("cc1plus, `record`", compiled(recorded, collector.environment)))
        collector.end()
    text = "\n".join(lines)
    print(text)
    if not options.dry:
        content = DOCUMENT.read_text()
        before, rest = content.split(BEGIN, 1)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


main()
