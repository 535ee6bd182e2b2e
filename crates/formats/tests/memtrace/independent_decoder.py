#!/usr/bin/env python3
"""A second decoder of memtrace traces, written from a description of the format alone.

It shares no code with Highwater, and is strict: whatever a correct writer would not do is an error. It prints a line
for each event, in the order of the file:

    TIME ID alloc SAMPLES WORDS HEAP CODE[NAME@FILE:LINE:START-END,…] …
    TIME ID promote
    TIME ID collect

    python3 independent_decoder.py FILE
"""

import struct
import sys

MAGIC = 0xC1FC1FC1
BUCKETS = 16384
LOW = (1 << 25) - 1
HEAPS = ["minor", "major", "external"]


def require(condition, what):
    if not condition:
        sys.exit(f"independent_decoder.py: {what}")


class Input:
    """Bytes, read from front to back."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, form):
        size = struct.calcsize("<" + form)
        require(self.at + size <= len(self.data), "the bytes end too early")
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += size
        return value

    def int63(self):
        value = self.take("Q") & (1 << 63) - 1
        return value - (1 << 63) if value >= 1 << 62 else value

    def vint(self):
        first = self.take("B")
        if first == 253:
            return self.take("H")
        if first == 254:
            return self.take("i")
        return self.int63() if first == 255 else first

    def text(self):
        end = self.data.index(0, self.at)
        text = self.data[self.at:end].decode("utf-8", "replace")
        self.at = end + 1
        return text

    def at_end(self):
        return self.at == len(self.data)


class Domain:
    """The state that packets of one domain change."""

    def __init__(self, start):
        self.files = []
        self.codes = [0] * BUCKETS
        self.following = [0] * BUCKETS
        self.backtrace = []
        self.time = start
        self.packets = 0
        self.next_id = None


class Trace:
    def __init__(self, data):
        self.data = data
        self.locations = {}
        self.domains = {}
        self.start = self.pid = None
        self.known = set()
        self.lines = []

    def decode(self):
        at = 0
        while at < len(self.data):
            at += self.packet(at)
        return self.lines

    def packet(self, at):
        header = Input(self.data[at:at + 68])
        require(header.take("I") == MAGIC, f"no packet begins at {at}")
        bits = header.take("I")
        require(bits % 8 == 0 and bits // 8 <= 32768, f"the packet at {at} is too long")
        begin, end, _, version, pid = (header.take(form) for form in "qqIHq")
        require(1 <= version <= 3, f"version {version}")
        domain = header.take("H") if version >= 3 else 0
        index, prediction, value = header.take("H"), header.take("H"), header.int63()
        first_id, end_id = header.take("q"), header.take("q")
        size = bits // 8
        require(size >= header.at and at + size <= len(self.data), f"the packet at {at} has no size that can be")
        require(begin <= end < begin + (1 << 25), "a packet's times cannot be")
        require(first_id <= end_id, "a packet's numbers cannot be")
        content = Input(self.data[at + header.at:at + size])
        if self.start is None:
            require((begin, index, first_id, end_id) == (end, 0xFFFF, 0, 0), "the first packet is not as it should be")
            self.info(content, begin, version)
            return size
        require(pid == self.pid, "a packet of another process")
        state = self.domains.setdefault(domain, Domain(self.start))
        if index != 0xFFFF:
            require(index < BUCKETS, "a verifier is out of range")
            require((state.following[index], state.codes[index]) == (prediction, value), "a verifier does not agree")
        next_id = first_id
        only_locations = True
        while not content.at_end():
            word = content.take("I")
            code, low = word >> 25, word & LOW
            time = begin & ~LOW | low
            time += (1 << 25) if low < begin & LOW else 0
            require(begin <= time <= end, "a time is not within its packet")
            if code == 1:
                self.location(content, state)
                continue
            only_locations = False
            require(time >= state.time, "times run backwards")
            state.time = time
            next_id = self.event(code, content, state, next_id, time - self.start)
        require(next_id == end_id, "a packet has another number of allocations than it says")
        if not only_locations:
            require(state.packets == 0 or index != 0xFFFF, "a packet has no verifier")
            if state.next_id not in (None, first_id):
                require(version >= 3 and first_id % 10000 == 0 and state.next_id % 10000 == 0, "numbers are missing")
            state.next_id = end_id
            state.packets += 1
        return size

    def info(self, content, begin, version):
        word = content.take("I")
        require(word == begin & LOW, "the first event is not about the trace")
        rate, word_size = content.take("d"), content.take("B")
        require(0 < rate <= 1 and word_size in (32, 64), "the rate or the word cannot be")
        for _ in range(3):
            content.text()
        self.pid = content.take("q")
        if version >= 2:
            content.text()
        require(content.at_end(), "there is more in the first packet")
        self.start = begin

    def location(self, content, state):
        code = content.int63()
        require(code != 0, "a location has no code")
        places = []
        for _ in range(content.take("B")):
            bits = content.take("I") | content.take("H") << 32
            line, start, end = bits & 0xFFFFF, bits >> 20 & 0xFF, bits >> 28 & 0x3FF
            file_index, name_index = bits >> 38 & 31, bits >> 43
            if file_index == 31:
                # The last of a full table hands its names on.
                names = state.files.pop()[1] if len(state.files) == 31 else []
                state.files.insert(0, (content.text(), names))
            else:
                require(file_index < len(state.files), "a file is not known")
                state.files.insert(0, state.files.pop(file_index))
            file, names = state.files[0]
            if name_index == 31:
                names.insert(0, content.text())
                del names[31:]
            else:
                require(name_index < len(names), "a name is not known")
                names.insert(0, names.pop(name_index))
            places.append(f"{names[0]}@{file}:{line}:{start}-{end}")
        require(self.locations.setdefault(code, places) == places, "a location is described in two ways")

    def event(self, code, content, state, next_id, time):
        if code == 2 or 101 <= code <= 116:
            if code == 2:
                words, samples, heap = content.vint(), content.vint(), content.take("B")
                common, count = content.vint(), content.take("H")
            else:
                words, samples, heap = code - 100, 1, 0
                common, count = content.vint(), content.take("B")
            require(words >= 0 and samples >= 1 and heap <= 2 and common >= 0, "an allocation cannot be")
            start = content.at
            frames = self.codewords(content, state, count)
            require(content.at - start <= 4096 + 2, "a backtrace is too long")
            if common <= len(state.backtrace):
                state.backtrace[common:] = frames
            slots = " ".join(self.slot(frame) for frame in state.backtrace)
            self.known.add(next_id)
            self.lines.append(f"{time} {next_id} alloc {samples} {words} {HEAPS[heap]} {slots}")
            return next_id + 1
        require(code in (3, 4), f"an event of kind {code}")
        distance = content.vint()
        object = next_id - 1 - distance
        require(object in self.known, "an object is not known")
        require(code == 4 or distance >= 0, "an object is promoted that was not yet there")
        if code == 4:
            self.known.remove(object)
        self.lines.append(f"{time} {object} {'promote' if code == 3 else 'collect'}")
        return next_id

    def slot(self, code):
        require(code in self.locations, f"location {code} is not described")
        return f"{code}[{','.join(self.locations[code])}]"

    @staticmethod
    def codewords(content, state, count):
        frames = []
        previous = 0
        for _ in range(count):
            word = content.take("H")
            kind, bucket = word & 3, word >> 2
            state.following[previous] = bucket
            predictions = content.take("B") if kind == 2 else kind % 3
            if kind == 3:
                state.codes[bucket] = content.int63()
            previous = bucket
            frames.append(state.codes[bucket])
            for _ in range(predictions):
                previous = state.following[previous]
                frames.append(state.codes[previous])
        return frames


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: python3 independent_decoder.py FILE")
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    sys.stdout.reconfigure(encoding="utf-8")
    for line in Trace(data).decode():
        print(line)


if __name__ == "__main__":
    main()
