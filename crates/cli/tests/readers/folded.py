"""Reads folded stacks: 'outermost;innermost value'."""
import sys

from common import show

stacks = []
for line in open(sys.argv[1], encoding="utf-8"):
    text, value = line.rstrip("\n").rsplit(" ", 1)
    stacks.append((text.split(";"), int(value)))
show({"stacks": stacks})
