"""Objects, texts and tables as scripts use them. With PYTHONMALLOC=malloc each of them is a block.
usage: python.py TURNS"""
import json
import re
import sys


class Node:
    def __init__(self, name, children):
        self.name = name
        self.children = children


def tree(depth, name):
    return Node(name, [tree(depth - 1, f"{name}.{i}") for i in range(3)] if depth else [])


def count(node):
    return 1 + sum(count(child) for child in node.children)


def turn(number):
    records = [{"id": i, "name": f"name {i}", "tags": [str(i % 7), str(i % 11)], "score": i * 0.5} for i in range(800)]
    text = json.dumps(records)
    again = json.loads(text)
    by_tag = {}
    for record in again:
        for tag in record["tags"]:
            by_tag.setdefault(tag, []).append(record["name"])
    words = re.findall(r"\w+", text)
    ranked = sorted(set(words), key=lambda word: (len(word), word))
    return len(text) + len(by_tag) + len(ranked) + count(tree(5, str(number)))


total = sum(turn(number) for number in range(int(sys.argv[1])))
print("checksum", total)
