"""Reads the processed profile format of the Firefox Profiler, version 57, as its src/types/profile.ts describes it."""
import itertools
import json
import sys

from common import show

document = json.load(open(sys.argv[1], encoding="utf-8"))
assert document["meta"]["preprocessedProfileVersion"] == 57
assert any(category["color"] == "grey" for category in document["meta"]["categories"])
[thread] = document["threads"]
strings = document["shared"]["stringArray"]
names = "samples markers stackTable frameTable funcTable resourceTable nativeSymbols".split()
for name in names + [name for name in ["nativeAllocations"] if name in thread]:
    table = thread[name]
    for column, cells in table.items():
        assert not isinstance(cells, list) or len(cells) == table["length"], (name, column)

calls, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
for call, prefix in enumerate(calls["prefix"]):
    assert prefix is None or prefix < call
for resource in functions["resource"]:
    assert resource == -1 or document["libs"][thread["resourceTable"]["lib"][resource]]


def stack_of(call):
    while call is not None:
        yield strings[functions["name"][frames["func"][calls["frame"][call]]]]
        call = calls["prefix"][call]


def stacks_of(table):
    return [(list(stack_of(call)), weight) for call, weight in zip(table["stack"], table["weight"])]


def rises(times):
    return all(a <= b for a, b in itertools.pairwise(times))


profiles = {"samples": stacks_of(thread["samples"])}
if "nativeAllocations" in thread:
    profiles["nativeAllocations"] = stacks_of(thread["nativeAllocations"])
memory = []
for counter in document["counters"]:
    assert counter["category"] == "Memory" and counter["pid"] == thread["pid"]
    assert rises(counter["samples"]["time"])
    memory = list(zip(counter["samples"]["time"], itertools.accumulate(counter["samples"]["count"])))
assert rises(thread["samples"]["time"])
markers = [[strings[name], time] for name, time in zip(thread["markers"]["name"], thread["markers"]["startTime"])]
show(profiles, times=thread["samples"]["time"], weight_type=thread["samples"]["weightType"], memory=memory, markers=markers,
     lines=[[strings[functions["name"][func]], line] for func, line in zip(frames["func"], frames["line"])])
