"""Reads a DHAT profile, version 2, as the comments of Valgrind's dhat/dh_main.c describe it."""
import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
assert document["dhatFileVersion"] == 2 and document["ftbl"][0] == "[root]"
assert document["bkacc"] is False
keys = {"tb", "tbk", "fs"}
if document["bklt"]:
    keys |= {"tl", "mb", "mbk", "gb", "gbk", "eb", "ebk"}
    assert "tg" in document and "tuth" in document
seen = set()
for point in document["pps"]:
    assert set(point) == keys, point
    assert 0 not in point["fs"] and tuple(point["fs"]) not in seen
    seen.add(tuple(point["fs"]))
    point["fs"] = [document["ftbl"][at] for at in point["fs"]]
print(json.dumps({key: value for key, value in document.items() if key != "ftbl"}))
