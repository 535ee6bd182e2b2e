"""Asks `highwater view` about a recording, as a page would, and prints how long it takes: see bench/view."""
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

program, recording = sys.argv[1:]
server = subprocess.Popen([program, "view", recording, "--no-open"], stdout=subprocess.PIPE, text=True)
port, token = re.match(r"http://127\.0\.0\.1:(\d+)/\?token=(\w+)", server.stdout.readline()).groups()


def ask(question):
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    began = time.monotonic()
    connection.request("GET", f"/api/1/{question}", headers={"Authorization": f"Bearer {token}"})
    body = connection.getresponse().read()
    took = time.monotonic() - began
    answer = json.loads(body.strip().split(b"\n")[-1])
    assert "error" not in answer, answer
    return took, answer.get("result", answer)


def processor_seconds():
    fields = open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row(what, asked, *cells):
    print(f"| {what:<58} | {asked:<9} | " + " | ".join(f"{cell:<14}" for cell in cells) + " |", flush=True)


def measure(what, asked, questions):
    before = processor_seconds()
    times = [ask(question)[0] * 1000 for question in questions]
    processor = (processor_seconds() - before) * 1000 / len(times)
    row(what, asked, f"{statistics.median(times):.0f} ms", f"{max(times):.0f} ms", f"{processor:.0f} ms")


try:
    began = time.monotonic()
    duration = ask("sources")[1]["sources"][0]["duration_ns"]
    row("what", "asked", "median", "worst", "CPU for each")
    row("-" * 58, "-" * 9, "-" * 14, "-" * 14, "-" * 14)
    measure("timeline of the whole, while it is still being read", "≤ 300 ms", ["timeline?points=1000"] * 3)
    early = random.Random(2).randrange
    measure("flame graph of a random instant, likewise", "≤ 300 ms", [f"tree?at={early(duration)}" for _ in range(5)])
    measure("allocated in a random window, likewise", "≤ 300 ms", [f"rows?metric=allocated&from={early(duration // 2)}&to={duration // 2 + early(duration // 2)}" for _ in range(3)])
    while ask("timeline?points=1000")[1]["approximate"]:
        time.sleep(0.1)
    row("until it is indexed", "", f"{time.monotonic() - began:.1f} s", "", f"{processor_seconds():.1f} s")
    choose = random.Random(1).randrange
    instants = [choose(duration) for _ in range(15)]
    windows = [tuple(sorted((choose(duration), choose(duration)))) for _ in range(8)]
    in_window = [f"from={a}&to={b}" for a, b in windows]
    measure("timeline of the whole", "≤ 300 ms", ["timeline?points=1000"] * 5)
    measure("flame graph of a random instant", "≤ 300 ms", [f"tree?at={at}" for at in instants])
    measure("table of an instant that was asked for before", "≤ 300 ms", [f"rows?by=function&at={instants[-1]}"] * 5)
    measure("allocated in a random window", "≤ 300 ms", [f"rows?metric=allocated&{window}" for window in in_window])
    measure("the peak of a random window", "≤ 300 ms", [f"rows?metric=peak&{window}" for window in in_window])
    measure("overview of a window that was asked for before", "≤ 300 ms", [f"overview?{window}" for window in in_window[-3:]])
    measure("timeline of a random window", "≤ 300 ms", [f"timeline?points=1000&{window}" for window in in_window])
    measure("timeline of a random millisecond", "≤ 300 ms", [f"timeline?points=1000&from={at}&to={at + 10**6}" for at in instants[:6]])
    measure("leaks", "≤ 300 ms", ["leaks"])
    measure("comparison of two random instants", "≤ 300 ms", [f"compare?a=0@{a}&b=0@{b}" for a, b in windows[:4]])
    measure("live, by size", "≤ 1 s", [f"rows?at={at}&filter=size:1000.." for at in instants[:5]])
    measure("live, by lifetime", "≤ 1 s", [f"rows?at={at}&filter=lifetime:1000000.." for at in instants[:5]])
    measure("the largest blocks, and when they died", "≤ 1 s", [f"blocks?at={at}" for at in instants[5:9]])
    measure("histograms of what is live", "≤ 1 s", [f"histograms?at={at}" for at in instants[9:12]])
    measure("allocated in the whole, by size and thread", "≤ 1 s", ["rows?metric=allocated&filter=size:1000..&filter=thread:4242"])
    measure("allocated in a random window, by size", "≤ 1 s", [f"rows?metric=allocated&filter=size:1000..&{window}" for window in in_window[:4]])
    measure("the same again, as a flame graph", "≤ 1 s", [f"tree?metric=allocated&filter=size:1000..&{in_window[3]}"])
    measure("allocated in the whole, by lifetime", "≤ 1 s", ["rows?metric=allocated&filter=lifetime:..1000"])
    measure("timeline of the whole, by size", "≤ 1 s", ["timeline?points=1000&filter=size:1000.."])
    measure("stacked by function, the whole", "≤ 300 ms", ["bands?by=function"] * 5)
    measure("stacked by site, the whole", "≤ 300 ms", ["bands?by=site"] * 3)
    measure("stacked by thread, a random window", "≤ 300 ms", [f"bands?by=thread&{window}" for window in in_window])
    measure("stacked by function, a random window", "≤ 300 ms", [f"bands?by=function&{window}" for window in in_window])
    measure("stacked by function, a random millisecond", "≤ 300 ms", [f"bands?by=function&from={at}&to={at + 10**6}" for at in instants[:6]])
    measure("stacked by function, a random half second", "≤ 300 ms", [f"bands?by=function&from={at}&to={at + 5 * 10**8}" for at in instants[:6]])
    measure("stacked by site, one thread, a random window", "≤ 300 ms", [f"bands?by=site&filter=thread:4242&{window}" for window in in_window[:4]])
    measure("stacked by function, by size, the whole", "≤ 1 s", ["bands?by=function&filter=size:1000.."])
    measure("stacked by function, by lifetime, the whole", "≤ 1 s", ["bands?by=function&filter=lifetime:..1000000"])
    memory = re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{server.pid}/status").read())[1]
    files = [os.stat(f"/proc/{server.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{server.pid}/fd")]
    unnamed = sum(file.st_size for file in files if file.st_nlink == 0)
    row("its temporary file", "", f"{unnamed / 1e9:.2f} GB", "", "")
    row("its peak memory", "≤ 1 GB", f"{int(memory) * 1024 / 1e9:.2f} GB", "", "")
finally:
    server.terminate()
