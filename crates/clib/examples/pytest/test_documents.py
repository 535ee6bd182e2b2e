"""Tests whose memory has a budget. LEAK=1 in the environment keeps every parsed document, as a cache without a limit would."""
import os

cache = []


def parse(text):
    document = [line.split() for line in text.splitlines()]
    if os.environ.get("LEAK"):
        cache.append(document)
    return document


def test_parse():
    text = "one two three\n" * 1000
    assert len(parse(text)) == 1000


def test_render():
    assert len(", ".join("word" for _ in range(100_000))) == 599_998
