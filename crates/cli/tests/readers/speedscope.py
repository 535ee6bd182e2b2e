"""Reads a speedscope file, as https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources describes it."""
import json
import sys

from common import show

document = json.load(open(sys.argv[1], encoding="utf-8"))
frames = document["shared"]["frames"]
assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
assert all(set(frame) <= {"name", "file", "line"} for frame in frames)
profiles = {}
for profile in document["profiles"]:
    assert profile["type"] == "sampled" and profile["startValue"] == 0
    assert len(profile["samples"]) == len(profile["weights"]) and profile["endValue"] == sum(profile["weights"])
    assert profile["unit"] == ("none" if profile["name"] in ("allocations", "temporary allocations") else "bytes")
    stacks = [[frames[at]["name"] for at in sample] for sample in profile["samples"]]
    profiles[profile["name"]] = list(zip(stacks, profile["weights"]))
show(profiles, first=document["profiles"][document["activeProfileIndex"]]["name"], frames=frames)
