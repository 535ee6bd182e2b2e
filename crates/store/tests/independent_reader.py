#!/usr/bin/env python3
"""A second reader of .hw recordings, written from docs/format.md alone.

It shares no code with Highwater. It finds every block, decodes it, replays the operations with dictionaries, compares
each keyframe and each block's summary with the replayed state, and prints what it found as JSON. It is slow and keeps
everything in memory: it is a proof that the document suffices, not a tool.

    python3 independent_reader.py FILE

Needs the `zstd` command, because the standard library has no Zstandard.
"""

import collections
import fractions
import json
import math
import struct
import subprocess
import sys
import zlib

WORD = (1 << 64) - 1
NO_ALLOCATION = WORD
UNKNOWN_THREAD = (1 << 53) - 1

SOURCE, CATALOG, EVENTS, KEYFRAME, LIVE_BLOCKS, INDEX, END = range(1, 8)
RSS = 9
BLOCK_KINDS_IN_INDEX = (SOURCE, CATALOG, EVENTS, KEYFRAME, LIVE_BLOCKS)

SOURCE_KINDS = ["native", "memtrace", "objlog", "events", "image"]
OPERATIONS = ["allocate", "free", "reallocate", "unmatched_free", "mark", "gauge", "evict", "note", "promote"]
ANOMALIES = [
    "unmatched_frees", "unmatched_reallocations", "duplicate_allocations", "size_mismatches", "type_mismatches",
    "out_of_order_events", "repaired_times", "dropped_events", "truncated_stacks", "clamped_sizes", "lost_to_damage",
    "unmatched_promotions", "clock_steps", "clock_step_us", "guessed_locations",
]
UNMATCHED_FREE, DUPLICATE_ALLOCATION, LOST_TO_DAMAGE = 0, 2, 10
FIGURES = [
    "allocations", "frees", "reallocations", "reallocated_away", "allocated_bytes", "freed_bytes", "peak_bytes",
    "cross_thread_frees", "temporary_allocations",
]
RECORDS = ["records", "freed_records"]
FURTHER = ["promotions", "promoted_records", "more_samples", "more_samples_gone"]
NOTHING_SAID = (0, 0, 0, 0)
HEAPS = ["malloc", "mmap", "minor", "major", "external"]
SUMMARY = [
    "first_event", "events", "steps", "first_allocation", "first_time", "time_span", "live_bytes", "live_blocks",
    "highest_bytes", "marks", "gauges",
]


class Malformed(Exception):
    """A block that breaks the rules."""


def require(condition, what):
    if not condition:
        raise Malformed(what)


# ---- Numbers: conventions and §3.1 ---------------------------------------------------------------------------------


class Varints:
    """Base-128 numbers and byte strings."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def at_end(self):
        return self.at >= len(self.data)

    def left(self):
        return len(self.data) - self.at

    def byte(self):
        require(self.at < len(self.data), "the bytes end too early")
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                require(value <= WORD, "a number is beyond 64 bits")
                return value
        raise Malformed("a number is beyond 64 bits")

    def numbers(self, count):
        return [self.number() for _ in range(count)]

    def take(self, length):
        require(self.at + length <= len(self.data), "the bytes end too early")
        self.at += length
        return self.data[self.at - length:self.at]

    def text(self):
        return bytes(self.take(self.number())).decode("utf-8", "replace")


class Packed:
    """The packed numbers of a column."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self):
        require(self.at < len(self.data), "a column ends too early")
        first = self.data[self.at]
        form = first & 3
        length = 9 if form == 3 else 1 + form
        require(self.at + length <= len(self.data), "a column ends too early")
        raw = self.data[self.at:self.at + length]
        self.at += length
        return int.from_bytes(raw[1:], "little") if form == 3 else int.from_bytes(raw, "little") >> 2

    def byte(self):
        require(self.at < len(self.data), "a column ends too early")
        self.at += 1
        return self.data[self.at - 1]


class Exceptions:
    """A column of exceptions (§4.4): values that are 0 unless it says otherwise."""

    def __init__(self, data):
        self.packed = Packed(data)
        self.zeros = self.next_zeros()

    def next_zeros(self):
        at_end = self.packed.at >= len(self.packed.data)
        return float("inf") if at_end else self.packed.number()

    def number(self):
        if self.zeros > 0:
            self.zeros -= 1
            return 0
        value = self.packed.number()
        self.zeros = self.next_zeros()
        return value


def sound_weight(bits, hits, spacing, rounded):
    """Bits, samples, their spacing as the bits of a float, and whether bytes are rounded record by record. Samples and spacing are 0 where
    samples were not counted."""
    require(bits < 1 << 22, "a weight is too large")
    require(hits < 1 << 32, "there are too many samples")
    return bits, hits, spacing if hits else 0, int(bool(rounded and (bits or hits)))


def float_of(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def bits_of(number):
    """The bits of a spacing; 0 for what is none."""
    return struct.unpack("<Q", struct.pack("<d", min(number, 2.0 ** 63)))[0] if number > 0 else 0


def old_spacing(bits):
    require(bits < 1 << 32, "a spacing is too large")
    return bits_of(((bits & (1 << 27) - 1) << (bits >> 27)) / 65536)


def from_zigzag(value):
    require(value < 1 << 32, "a surplus is too large")
    return value >> 1 ^ -(value & 1)


# ---- §3: columns ---------------------------------------------------------------------------------------------------


def zstd_decompress(data, raw_length):
    try:
        result = subprocess.run(["zstd", "-d", "-q", "-c"], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        sys.exit("independent_reader.py: the zstd command is missing")
    require(result.returncode == 0 and len(result.stdout) == raw_length, "a column does not unpack")
    return result.stdout


def unpack_columns(varints, known, longest):
    """The raw bytes of the columns, by id; those that are not stored are empty."""
    allowed = 32 * varints.left()
    directory = [(varints.byte(), varints.number(), varints.number(), varints.number())
                 for _ in range(varints.number())]
    require(sum(raw_length for _, _, raw_length, _ in directory) <= allowed, "columns unpack to too much")
    columns = {id: b"" for id in range(known)}
    for id, codec, raw_length, stored_length in directory:
        stored = varints.take(stored_length)
        require(raw_length <= longest, "a column is too long")
        if id not in columns:
            continue
        require(not columns[id], "a column is stored twice")
        if codec == 0:
            require(raw_length == stored_length, "a column's lengths differ")
            columns[id] = stored
        elif codec == 1:
            columns[id] = zstd_decompress(stored, raw_length)
        else:
            raise Malformed("a column's codec is not known")
    return columns


# ---- §4.2: prediction ----------------------------------------------------------------------------------------------


def chunk(size):
    return max(min(size + 23, WORD) & ~15, 32)


def address_at(origin, distance):
    magnitude = (distance >> 1 & (1 << 59) - 1) << 4 | distance >> 60
    if distance & 1 == 0:
        return (origin + magnitude) & WORD
    return (origin - magnitude if magnitude else origin + (1 << 63)) & WORD


class SizeClass:
    def __init__(self):
        self.latest = 0
        self.freed = [0] * 16
        self.top = 0
        self.depth = 0


class Predictor:
    def __init__(self):
        self.classes = {}
        self.arenas = [0] * 64
        self.site_sizes = [0] * 4096
        self.class_numbers = {}

    def size_class(self, thread, size):
        key = (thread, chunk(size))
        number = self.class_numbers.get(key)
        if number is None:
            number = ((key[1] ^ thread << 40 & WORD) * 0x9E3779B97F4A7C15 & WORD) >> 54
            self.class_numbers[key] = number
        return self.classes.setdefault(number, SizeClass())

    def latest(self, thread, size):
        return self.size_class(thread, size).latest

    def reused(self, thread, size):
        known = self.size_class(thread, size)
        return known.freed[known.top] if known.depth > 0 else 0

    def fresh(self, thread):
        return self.arenas[thread % 64]

    def allocated(self, thread, size, address, reused):
        known = self.size_class(thread, size)
        known.latest = address
        if reused:
            known.top = (known.top - 1) % 16
            known.depth = max(known.depth - 1, 0)
        else:
            self.arenas[thread % 64] = (address + chunk(size)) & WORD

    def freed(self, thread, size, address):
        known = self.size_class(thread, size)
        known.top = (known.top + 1) % 16
        known.freed[known.top] = address
        known.depth = min(known.depth + 1, 16)


# ---- §4: events ----------------------------------------------------------------------------------------------------

MOST_STEPS = 1 << 18


def read_summary(varints):
    summary = dict(zip(SUMMARY, varints.numbers(len(SUMMARY))))
    require(summary["steps"] <= MOST_STEPS and summary["events"] <= summary["steps"], "too many steps")
    require(max(summary["first_event"], summary["first_allocation"]) <= 1 << 40, "a count is too large")
    require(summary["first_time"] + summary["time_span"] <= WORD, "a time is too large")
    return summary


def steps_of(payload, catalog):
    """The steps of an events block, one after the other: (time, thread, operation, fields)."""
    varints = Varints(payload)
    summary = read_summary(varints)
    require(summary["steps"] <= 4 * (len(payload) + 1), "too many steps for so few bytes")
    count = varints.number()
    require(count <= summary["steps"], "too many threads")
    threads = varints.numbers(count)
    columns = unpack_columns(varints, 16, 2 * MOST_STEPS * 9)
    surpluses, old_weights, samples, old_spacings = (Exceptions(columns[id]) for id in (9, 10, 11, 12))
    weights, spacings = (Exceptions(columns[id]) for id in (13, 14))
    latest_spacing = (0, False)
    packed = [Packed(columns[id]) for id in range(9)]
    operations, times, switches, sizes, stacks, tags, addresses, distances, rest = packed
    free_stacks, freeing = Packed(columns[15]), []
    first = following = summary["first_allocation"]
    time = summary["first_time"]
    thread = None
    predictor = Predictor()
    sites = []
    places = []

    def site_tag_size(code):
        site = stacks.number()
        if site == len(sites):
            sites.append(stacks.number())
        require(site < len(sites), "a site is not known")
        tag = tags.number() if code & 0x20 else 0
        if not code & 0x80:
            predictor.site_sizes[site % 4096] = sizes.number()
        size = predictor.site_sizes[site % 4096]
        stack = sites[site]
        return stack if stack < len(catalog.nodes) else 0, tag if tag < len(catalog.tags) else 0, size

    def surplus_and_weight():
        nonlocal latest_spacing
        surplus, hits = from_zigzag(surpluses.number()), samples.number()
        old_weight, weight = old_weights.number(), weights.number()
        said, old_said = spacings.number(), old_spacings.number()
        require(not (old_weight and weight), "a weight is said in two ways")
        if said:
            latest_spacing = (bits_of(float_of(said)), False)
        elif old_said:
            latest_spacing = (old_spacing(old_said), True)
        spacing, is_old = latest_spacing
        return surplus, sound_weight(old_weight or weight, hits, spacing, old_weight or (hits and is_old))

    def free_stack():
        if not columns[15]:
            return 0
        number = free_stacks.number()
        if number == 0:
            return 0
        if number == len(freeing) + 1:
            freeing.append(free_stacks.number())
        require(number <= len(freeing), "a stack of a free is not known")
        stack = freeing[number - 1]
        return stack if stack < len(catalog.nodes) else 0

    def number_of_block():
        distance = distances.number()
        require(0 < distance <= following, "a block's number is out of range")
        return following - distance

    for _ in range(summary["steps"]):
        code = operations.byte()
        if code & 8:
            thread = switches.number()
            require(thread < len(threads), "a thread is not known")
        require(thread is not None, "the first step has no thread")
        time += times.number()
        require(time <= WORD, "a time is too large")
        operation = "promote" if code & 0x17 == 0x13 else OPERATIONS[code & 7]
        if operation == "allocate":
            stack, tag, size = site_tag_size(code)
            surplus, weight = surplus_and_weight()
            reused = bool(code & 0x10)
            if reused:
                address = predictor.reused(thread, size)
            elif code & 0x40:
                address = predictor.fresh(thread)
            else:
                address = address_at(predictor.latest(thread, size), addresses.number())
            predictor.allocated(thread, size, address, reused)
            places.append((address, size))
            fields = (following, address, size, stack, tag, surplus, weight)
            following += 1
        elif operation == "free":
            number = number_of_block()
            if number >= first:
                address, size = places[number - first]
                predictor.freed(thread, size, address)
            fields = (number, free_stack())
        elif operation == "reallocate":
            stack, tag, size = site_tag_size(code)
            surplus, weight = surplus_and_weight()
            number = number_of_block()
            moved_to = None
            if not code & 0x10:
                moved_to = address_at(predictor.latest(thread, size), addresses.number())
                predictor.allocated(thread, size, moved_to, False)
            if number >= first:
                old_address, old_size = places[number - first]
                if moved_to is not None:
                    predictor.freed(thread, old_size, old_address)
                places[number - first] = (old_address if moved_to is None else moved_to, size)
            fields = (number, moved_to, size, stack, tag, surplus, weight)
        elif operation == "evict":
            fields = (number_of_block(),)
        elif operation == "promote":
            number = number_of_block()
            tag = tags.number() if code & 0x20 else 0
            fields = (number, tag if tag < len(catalog.tags) else 0)
        elif operation in ("unmatched_free", "mark"):
            fields = (rest.number(),)
        else:
            fields = (rest.number(), rest.number())
            require(operation == "gauge" or fields[0] < len(ANOMALIES), "an anomaly is not known")
        yield time, threads[thread], operation, fields


# ---- §5: catalog ---------------------------------------------------------------------------------------------------


class Catalog:
    def __init__(self):
        self.strings = [""]
        self.frames = []
        self.nodes = [(0, 0)]
        self.modules = []
        self.tags = [(0, 0)]
        self.thread_names = []
        # Tag to heap, frame to the frames it stands for, module to when it was loaded and unloaded.
        self.heaps = {}
        self.tasks = {}
        self.resolutions = {}
        self.module_times = {}
        self.columns = {}

    def string(self, number):
        return self.strings[number] if number < len(self.strings) else ""

    def add(self, at, payload):
        varints = Varints(payload)
        ranges = [(varints.number(), varints.number()) for _ in range(6)]
        require(all(count <= 1 << 16 for _, count in ranges), "too many entries")
        require(sum(count for _, count in ranges) <= 2 * len(payload), "too many entries for so few bytes")
        require(sum(first for first, _ in ranges) <= 2 * at, "too many entries are lost")
        columns = unpack_columns(varints, 11, 1 << 26)
        room = 2 * len(payload) - sum(count for _, count in ranges)
        lost = ["[lost]", (0, 0, 0, 0, 0), (0, None), (0, 0, 0, 0, 0), (0, 0)]
        tables = [self.strings, self.frames, self.nodes, self.modules, self.tags]
        for table, (first, count) in enumerate(ranges):
            column = Varints(columns[table])
            if table == 5:
                self.thread_names.extend((column.number(), column.number()) for _ in range(count))
                continue
            entries = tables[table]
            require(first >= len(entries), "entries overlap")
            entries.extend([lost[table]] * (first - len(entries)))
            for _ in range(count):
                entries.append(self.entry(table, column, len(entries)))
        remarks = 0
        for id, width in ((6, 2), (7, 3), (8, 3), (9, 3), (10, 2)):
            column = Varints(columns[id])
            while not column.at_end():
                remarks += 1
                require(remarks <= room, "too many remarks for so few bytes")
                self.remark(id, column.numbers(width))

    def remark(self, id, numbers):
        """What is said of an entry that is not known is left out."""
        subject = numbers[0]
        if id == 6 and 0 < subject < len(self.tags):
            self.heaps[subject] = numbers[1] if numbers[1] < len(HEAPS) else 0
        elif id == 7:
            first, count = numbers[1:]
            if subject < len(self.frames) and first + count <= len(self.frames) and count <= 256:
                self.resolutions[subject] = range(first, first + count) if count else [subject]
        elif id == 8 and subject < len(self.modules):
            self.module_times[subject] = numbers[1:]
        elif id == 9 and subject < len(self.frames):
            require(max(numbers[1:]) < 1 << 16, "a column is too large")
            self.columns[subject] = numbers[1:]
        elif id == 10 and 0 < subject < len(self.tags):
            require(numbers[1] < 1 << 32, "a string number is too large")
            self.tasks[subject] = numbers[1]

    def entry(self, table, column, number):
        if table == 0:
            return column.text()
        entry = tuple(column.numbers([None, 5, 2, 5, 2][table]))
        if table == 2:
            require(1 <= entry[0] <= number and entry[1] < len(self.frames), "a stack node is not sound")
            return number - entry[0], entry[1]
        return entry

    def site_text(self, stack):
        """Innermost frame first."""
        lines = []
        while stack != 0:
            stack, frame = self.nodes[stack]
            if frame is None:
                return "unknown"
            lines.extend(self.frame_text(resolved) for resolved in self.resolutions.get(frame, [frame]))
        return " < ".join(lines) or "unknown"

    def frame_text(self, frame):
        address, function, file, line, place = self.frames[frame]
        module = self.modules[(place >> 1) - 1][0] if 0 < place >> 1 <= len(self.modules) else 0
        text = f"{self.string(function)} {self.string(file)}:{line} {self.string(module)} {address:x}"
        start, end = self.columns.get(frame, (0, 0))
        return text + (" inlined" if place & 1 else "") + (f" {start}-{end}" if (start, end) != (0, 0) else "")

    def tag_text(self, tag):
        variable, type_name = self.tags[tag]
        return f"{self.string(variable)}: {self.string(type_name)} {HEAPS[self.heaps.get(tag, 0)]} {self.string(self.tasks.get(tag, 0))}"

    def module_texts(self):
        for number, module in enumerate(self.modules):
            path, build_id, start, end, file_offset = module
            loaded, unloaded = self.module_times.get(number, (0, 0))
            unloaded = "-" if unloaded == 0 else unloaded - 1
            yield f"{self.string(path)} {self.string(build_id)} {start} {end} {file_offset} {loaded} {unloaded}"


# ---- §10: the ledger -----------------------------------------------------------------------------------------------


Block = collections.namedtuple("Block", "number address size birth thread stack tag surplus weight")


def weight_in_parts(weight):
    """A weight as a whole number of 2 ** -17."""
    bits = weight[0]
    return (bits & (1 << 17) - 1 | 1 << 17) << (bits >> 17)


def rounded(units):
    """Units of 2 ** -32 bytes as bytes."""
    return min(units + (1 << 31) >> 32, WORD)


def weighted_bytes(size, weight):
    """The bytes that a block stands for, in units of 2 ** -32."""
    _, hits, spacing, is_rounded = weight
    if hits:
        units = hits * math.floor(fractions.Fraction(float_of(spacing)) * (1 << 32) + fractions.Fraction(1, 2))
    else:
        units = size * weight_in_parts(weight) << 15
    units = min(units, WORD << 32)
    return rounded(units) << 32 if is_rounded else units


def weighted_blocks(number, weight):
    number = (number + 0x9E3779B97F4A7C15) & WORD
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & WORD
    return weight_in_parts(weight) + ((number ^ number >> 31) >> 47) >> 17


def most_blocks(weight):
    return weight_in_parts(weight) + (1 << 17) >> 17


def bytes_of(block):
    return weighted_bytes(block.size, block.weight)


def blocks_of(block):
    return weighted_blocks(block.number, block.weight)


def more_samples_of(block):
    return max(block.weight[1], 1) - 1


def no_figures():
    return dict.fromkeys(FIGURES + RECORDS + FURTHER, 0)


def live_bytes(figures):
    return rounded(live_units(figures))


def live_units(figures):
    """Sums of bytes are kept in units, and rounded when they are shown."""
    return figures["allocated_bytes"] - figures["freed_bytes"]


def live_blocks(figures):
    return figures["allocations"] + figures["reallocations"] - figures["frees"] - figures["reallocated_away"]


class Ledger:
    """The state: what a keyframe holds."""

    def __init__(self):
        self.events = 0
        self.last_time = 0
        self.next_number = 0
        self.totals = no_figures()
        self.high = {"peak_blocks": 0, "peak_time": 0, "peak_event": 0, "peak_inside_reallocation": 0}
        self.anomalies = [0] * len(ANOMALIES)
        # Thread id to figures and latest allocation; the order of appearance is the order of the dictionary.
        self.threads = {}
        self.sites = {}
        self.tags = {}
        # Number to Block.
        self.blocks = {}

    def figures(self):
        """Everything but the live blocks, in a form that can be compared."""
        def rows(table):
            return {key: row for key, row in table.items() if row["allocations"] + row["reallocations"] > 0}
        return (self.events, self.last_time, self.next_number, self.totals, self.high, self.anomalies,
                list(self.threads.items()), rows(self.sites), rows(self.tags))

    def count(self, anomaly, count):
        self.anomalies[anomaly] = min(self.anomalies[anomaly] + count, WORD)

    def thread(self, thread):
        return self.threads.setdefault(thread, {"figures": no_figures(), "last_allocation": NO_ALLOCATION})

    def owners(self, thread, stack, tag):
        yield self.totals
        yield self.threads[thread]["figures"]
        yield self.sites.setdefault(stack, no_figures())
        if tag != 0:
            yield self.tags.setdefault(tag, no_figures())

    def receive(self, block, counter):
        """Gives a block to its owners, which may make a new peak."""
        before = self.totals["peak_bytes"]
        for figures in self.owners(block.thread, block.stack, block.tag):
            figures[counter] += blocks_of(block)
            figures["allocated_bytes"] += bytes_of(block)
            figures["records"] += 1
            figures["more_samples"] += more_samples_of(block)
            figures["peak_bytes"] = max(figures["peak_bytes"], live_bytes(figures))
        if self.totals["peak_bytes"] > before:
            self.high["peak_time"], self.high["peak_event"] = self.last_time, self.events
        self.high["peak_blocks"] = max(self.high["peak_blocks"], live_blocks(self.totals))

    def release(self, block, counter, **more):
        for figures in self.owners(block.thread, block.stack, block.tag):
            figures[counter] += blocks_of(block)
            figures["freed_bytes"] += bytes_of(block)
            figures["freed_records"] += 1
            figures["more_samples_gone"] += more_samples_of(block)
            for name, is_so in more.items():
                figures[name] += blocks_of(block) * is_so

    def admissible(self, size, weight):
        allocated, moved = self.totals["allocated_bytes"], self.moved()["allocated_bytes"]
        room = (WORD << 32) - allocated - moved
        blocks = self.totals["allocations"] + self.totals["reallocations"] + most_blocks(weight)
        samples = self.totals["more_samples"] + max(weight[1], 1)
        fits = weighted_bytes(size, weight) <= room and blocks <= (1 << 40) - (1 << 36) and samples <= 1 << 62
        if weight == NOTHING_SAID or not fits:
            return min(size, room >> 32), NOTHING_SAID
        return size, weight

    def moved(self):
        """What promotions took from one tag to another: the row of tag 0."""
        return self.tags.get(0) or no_figures()

    def apply(self, step):
        time, thread, operation, fields = step
        self.last_time = max(self.last_time, time)
        if operation not in ("evict", "note"):
            self.events += 1
        if operation == "allocate":
            _, address, size, stack, tag, surplus, weight = fields
            account = self.thread(thread)
            size, weight = self.admissible(size, weight)
            block = Block(self.next_number, address, size, self.last_time, thread, stack, tag, surplus, weight)
            account["last_allocation"] = self.next_number
            self.receive(block, "allocations")
            self.blocks[self.next_number] = block
            self.next_number += 1
        elif operation in ("free", "reallocate", "evict", "promote"):
            old = self.blocks.get(fields[0])
            if old is None:
                self.count(LOST_TO_DAMAGE, 1)
            else:
                getattr(self, operation)(old, thread, *fields)
        elif operation == "unmatched_free":
            self.count(UNMATCHED_FREE, 1)
            self.end_sequence(thread)
        elif operation == "note":
            self.count(*fields)

    def free(self, old, thread, number, _stack):
        self.thread(thread)
        owner = old.thread
        temporary = int(self.threads[owner]["last_allocation"] == number)
        self.release(old, "frees", temporary_allocations=temporary, cross_thread_frees=int(owner != thread))
        self.end_sequence(thread)
        del self.blocks[number]

    def end_sequence(self, thread):
        """A free by threads that are not told apart: what follows is not temporary."""
        if thread == UNKNOWN_THREAD and thread in self.threads:
            self.threads[thread]["last_allocation"] = NO_ALLOCATION

    def evict(self, old, _thread, number):
        self.count(DUPLICATE_ALLOCATION, 1)
        self.release(old, "frees")
        del self.blocks[number]

    def promote(self, old, _thread, number, tag):
        blocks, size, more = blocks_of(old), bytes_of(old), more_samples_of(old)
        moved, totals = self.moved(), self.totals
        promoted = moved["allocated_bytes"] + size
        possible = (totals["promotions"] + blocks <= totals["allocations"] + totals["reallocations"]
                    and promoted <= totals["allocated_bytes"] and promoted + totals["allocated_bytes"] <= WORD << 32
                    and moved["more_samples"] + more <= totals["more_samples"])
        if not possible:
            return self.count(LOST_TO_DAMAGE, 1)
        for figures in self.owners(old.thread, old.stack, 0):
            figures["promotions"] += blocks
            figures["promoted_records"] += 1
        if tag == old.tag:
            return None
        moved = self.tags.setdefault(0, no_figures())
        for figures in [moved] + ([self.tags.setdefault(old.tag, no_figures())] if old.tag else []):
            figures["reallocated_away"] += blocks
            figures["freed_bytes"] += size
            figures["freed_records"] += 1
            figures["more_samples_gone"] += more
        for figures in [moved] + ([self.tags.setdefault(tag, no_figures())] if tag else []):
            figures["reallocations"] += blocks
            figures["allocated_bytes"] += size
            figures["records"] += 1
            figures["more_samples"] += more
        if tag:
            figures["promotions"] += blocks
            figures["promoted_records"] += 1
            figures["peak_bytes"] = max(figures["peak_bytes"], live_bytes(figures))
        self.blocks[number] = old._replace(tag=tag)

    def reallocate(self, old, thread, number, moved_to, size, stack, tag, surplus, weight):
        account = self.thread(thread)
        address = old.address if moved_to is None else moved_to
        size, weight = self.admissible(size, weight)
        block = Block(number, address, size, old.birth, thread, stack or old.stack, tag or old.tag, surplus, weight)
        if address != old.address:
            both = rounded(live_units(self.totals) + bytes_of(block))
            self.high["peak_inside_reallocation"] = max(self.high["peak_inside_reallocation"], both)
        self.release(old, "reallocated_away")
        self.receive(block, "reallocations")
        account["last_allocation"] = number
        self.blocks[number] = block


# ---- §6: keyframes -------------------------------------------------------------------------------------------------


def read_figures(varints):
    figures = dict(zip(FIGURES, varints.numbers(len(FIGURES))))
    require(all(name.endswith("bytes") or count <= 1 << 40 for name, count in figures.items()), "a count is too large")
    # Where no column says otherwise, each block has its own record.
    figures["records"] = figures["allocations"] + figures["reallocations"]
    figures["freed_records"] = figures["frees"] + figures["reallocated_away"]
    figures.update(dict.fromkeys(FURTHER, 0))
    figures["allocated_bytes"] <<= 32
    figures["freed_bytes"] <<= 32
    return figures


def read_records(column, rows):
    varints = Varints(column)
    if not varints.at_end():
        for figures in rows:
            records, freed_records = varints.numbers(2)
            require(records <= figures["records"] <= records + (1 << 40), "a row has no such records")
            require(freed_records <= figures["freed_records"] <= freed_records + (1 << 40), "a row has no such records")
            figures["records"], figures["freed_records"] = records, freed_records


def read_further(column, rows):
    varints = Varints(column)
    if not varints.at_end():
        for figures in rows:
            counts = dict(zip(FURTHER, varints.numbers(4)))
            require(counts["promoted_records"] <= counts["promotions"] <= 1 << 40, "a row has no such promotions")
            require(counts["more_samples_gone"] <= counts["more_samples"] <= 1 << 62, "a row has no such samples")
            figures.update(counts)


def read_rests(column, rows):
    """What rounding left of the bytes."""
    varints = Varints(column)
    if not varints.at_end():
        for figures in rows:
            for name in ("allocated_bytes", "freed_bytes"):
                rest = varints.number()
                require(rest < 1 << 32, "a rest is too large")
                figures[name] += from_zigzag(rest)


def read_sparse(column, bound):
    varints = Varints(column)
    rows = {}
    row = 0
    while not varints.at_end():
        row += varints.number()
        require(row < bound, "a row is not known")
        rows[row] = read_figures(varints)
        row += 1
    return rows


def read_keyframe(payload, catalog):
    """The state without its live blocks."""
    varints = Varints(payload)
    state = Ledger()
    state.events, state.last_time, _parts, state.next_number = varints.numbers(4)
    state.totals = read_figures(varints)
    state.high = dict(zip(["peak_blocks", "peak_time", "peak_event", "peak_inside_reallocation"], varints.numbers(4)))
    counters = varints.numbers(varints.number())[:len(ANOMALIES)]
    state.anomalies = counters + [0] * (len(ANOMALIES) - len(counters))
    columns = unpack_columns(varints, 12, 1 << 27)
    threads = Varints(columns[0])
    while not threads.at_end():
        id, last_allocation = threads.number(), (threads.number() - 1) & WORD
        state.threads[id] = {"last_allocation": last_allocation, "figures": read_figures(threads)}
    state.sites = read_sparse(columns[1], len(catalog.nodes))
    state.tags = read_sparse(columns[2], len(catalog.tags))
    for first, read in ((3, read_records), (6, read_further), (9, read_rests)):
        read(columns[first], [account["figures"] for account in state.threads.values()])
        read(columns[first + 1], state.sites.values())
        read(columns[first + 2], state.tags.values())
    for name in RECORDS + FURTHER:
        state.totals[name] = sum(account["figures"][name] for account in state.threads.values())
    for name in ("allocated_bytes", "freed_bytes"):
        units = sum(account["figures"][name] for account in state.threads.values())
        require(rounded(units) == state.totals[name] >> 32, "the threads do not add up")
        state.totals[name] = units
    return state


def read_live_blocks(payload, state):
    varints = Varints(payload)
    count = varints.number()
    require(count <= 1 << 18 and count <= 4 * (len(payload) + 1), "too many live blocks")
    columns = unpack_columns(varints, 13, count * 9)
    optional = [Packed(columns[id] or bytes(count)) for id in range(7, 13)]
    surpluses, old_weights, samples, old_spacings, weights, spacings = optional
    numbers, times, addresses, sizes, owners, stacks, tags = (Packed(columns[id]) for id in range(7))
    threads = list(state.threads)
    predictor = Predictor()
    number = time = 0
    for _ in range(count):
        number += numbers.number()
        time += times.number()
        size = sizes.number()
        owner = owners.number()
        require(owner < len(threads) and number < state.next_number, "a live block is not sound")
        require(number not in state.blocks, "a live block is there twice")
        address = address_at(predictor.latest(owner, size), addresses.number())
        predictor.allocated(owner, size, address, False)
        stack, tag = stacks.number(), tags.number()
        surplus = from_zigzag(surpluses.number())
        old_weight, old_said, hits = old_weights.number(), old_spacings.number(), samples.number()
        weight, said = weights.number(), spacings.number()
        is_old = bool(old_weight or old_said)
        require(not (is_old and (weight or said)), "a weight is said in two ways")
        spacing = old_spacing(old_said) if is_old else bits_of(float_of(said))
        weight = sound_weight(old_weight or weight, hits, spacing, is_old)
        state.blocks[number] = Block(number, address, size, time, threads[owner], stack, tag, surplus, weight)


# ---- §17: resident memory ------------------------------------------------------------------------------------------


RSS_FIELDS = ["uncertain", "rss", "rss_after", "rss_peak", "anonymous", "data", "swap", "page_tables", "huge", "threads",
              "pss", "lazily_free", "limit", "used", "arenas", "trim", "other_tops"]
MOST_BYTES = 1 << 60
LAST_ROW_KIND = 16


def require_bounded(rows):
    require(all(sum(column) <= MOST_BYTES for column in zip(*rows)), "a sum of resident memory is too large")


def read_rss_rows(column):
    rows = []
    while not column.at_end():
        kind, resident, beyond, swapped = column.numbers(4)
        kind = min(kind, LAST_ROW_KIND)
        row = [kind, resident, resident + beyond, swapped]
        if rows and rows[-1][0] == kind == LAST_ROW_KIND:
            row = [kind] + [a + b for a, b in zip(rows.pop()[1:], row[1:])]
        require(not rows or rows[-1][0] < kind, "rows are out of order")
        rows.append(row)
    require_bounded([row[1:] for row in rows])
    return rows


def read_rss_areas(areas, runs, sites):
    found, end = [], 0
    while not areas.at_end():
        kind, page, count = areas.numbers(3)
        require(page * 4096 >= end, "areas are out of order")
        area = {"kind": min(kind, 2), "start": page * 4096, "runs": []}
        for _ in range(count):
            pages, live, owner = (column.number() for column in runs)
            require(0 < pages < 1 << 32 and live <= 4096 and owner < 4 + sites, "a run of pages is malformed")
            area["runs"].append([pages, live, owner])
            page += pages
        end = page * 4096
        require(end < WORD, "an area reaches too far")
        found.append(area)
    require(all(column.at_end() for column in runs), "there are runs of no area")
    return found


def read_rss(payload, catalog):
    varints = Varints(payload)
    time, reason, flags = varints.numbers(3)
    fields = dict(zip(RSS_FIELDS, varints.numbers(len(RSS_FIELDS))))
    require(all(number <= MOST_BYTES for number in fields.values()), "a figure of resident memory is too large")
    allocator = varints.text()
    columns = [Varints(column) for column in unpack_columns(varints, 7, 1 << 26).values()]
    rows = read_rss_rows(columns[0])
    sites, is_lost = [], False
    while not columns[1].at_end():
        stack, tag, *figures = columns[1].numbers(7)
        is_lost |= stack >= len(catalog.nodes) or tag >= len(catalog.tags)
        sites.append([stack, tag, *figures])
    require_bounded([site[2:] for site in sites])
    files = []
    while not columns[2].at_end():
        files.append([columns[2].text(), *columns[2].numbers(2)])
    require_bounded([file[1:] for file in files])
    areas = read_rss_areas(columns[3], columns[4:], len(sites))
    entries = len(rows) + len(sites) + len(files) + len(areas) + sum(len(area["runs"]) for area in areas)
    require(entries <= 4 * (len(payload) + 1), "resident memory has too many entries")
    for bit, names in [(1, ["pss"]), (2, ["lazily_free"]), (3, ["limit", "used"]), (4, ["trim"])]:
        if not flags >> bit & 1:
            fields.update({name: None for name in names})
    return is_lost, {"at": time, "reason": reason if reason <= 3 else 0, "knows_every_block": flags & 1 == 1,
                     "trim_is_upper_bound": flags & 32 == 32, "allocator": allocator, "rows": rows, "sites": sites,
                     "files": files, "areas": areas, **fields}


# ---- §1, §2, §8, §11: the file ------------------------------------------------------------------------------------


def block_header(data, at):
    """Kind, payload length, sequence number and payload checksum of a sound header, else None."""
    header = data[at:at + 24]
    if len(header) < 24 or header[:4] != b"HWB1" or zlib.crc32(header[:20]) != int.from_bytes(header[20:], "little"):
        return None
    return header[4], *(int.from_bytes(header[at:at + 4], "little") for at in (8, 12, 16))


class File:
    def __init__(self, data):
        self.data = data
        self.damage = []
        self.complete = False
        self.version = self.read_header()
        # (offset, kind, sequence number, payload)
        self.blocks = list(self.find_blocks())

    def read_header(self):
        data = self.data
        sound = (data[:6] == b"\x89HW\r\n\x1a" and zlib.crc32(data[:8]) == int.from_bytes(data[8:12], "little")
                 and data[12:16] == bytes(4))
        if not sound:
            if data[16:20] != b"HWB1":
                sys.exit("independent_reader.py: not a Highwater recording")
            self.damage.append(0)
            return 4
        version = int.from_bytes(data[6:8], "little")
        if version > 4:
            sys.exit(f"independent_reader.py: version {version} is too new")
        return version

    def find_blocks(self):
        at = 16
        while at < len(self.data):
            header = block_header(self.data, at)
            if header is None:
                self.damage.append(at)
                at = self.next_header(at + 1)
                continue
            kind, length, sequence, checksum = header
            payload = self.data[at + 24:at + 24 + length]
            if len(payload) < length:
                self.damage.append(at)
                return
            if zlib.crc32(payload) != checksum:
                self.damage.append(at)
            else:
                self.complete |= kind == END
                yield at, kind, sequence, payload
            at += 24 + length

    def next_header(self, at):
        while at != -1:
            at = self.data.find(b"HWB1", at)
            if at != -1 and block_header(self.data, at):
                return at
            at = at + 1 if at != -1 else -1
        return len(self.data)

    def index_agrees(self):
        """Whether the index lists exactly the blocks that are there; None without an index."""
        sound = {(at, kind): payload for at, kind, _, payload in self.blocks}
        end = sound.get((len(self.data) - 32, END), b"")
        payload = sound.get((int.from_bytes(end, "little"), INDEX))
        if payload is None:
            return None
        listed = []
        varints = Varints(payload)
        behind = 0
        for _ in range(varints.number()):
            kind, gap, length, sequence = varints.numbers(4)
            require(kind in BLOCK_KINDS_IN_INDEX, "the index lists a block of unknown kind")
            summary = varints.numbers({EVENTS: len(SUMMARY), KEYFRAME: 3}.get(kind, 0))
            listed.append((behind + gap, kind, sequence, length, summary))
            behind += gap + 24 + length
        found = []
        for at, kind, sequence, payload in self.blocks:
            if kind in BLOCK_KINDS_IN_INDEX:
                summary = Varints(payload).numbers({EVENTS: len(SUMMARY), KEYFRAME: 3}.get(kind, 0))
                found.append((at, kind, sequence, len(payload), summary))
        return listed == found and varints.at_end()


def clock_of(flags):
    clocks = {8: "lines", 16: "instructions", 32: "bytes"}
    return next((name for bit, name in clocks.items() if flags & bit), "ns")


def known_figures(flags):
    if not flags & 64:
        return ["all"]
    figures = {128: "live blocks", 256: "allocated", 512: "own peaks", 1024: "samples"}
    return [name for bit, name in figures.items() if flags & bit]


def read_source(payload):
    varints = Varints(payload)
    kind, pid, start_unix_ns, duration_ns, sample_rate = varints.numbers(5)
    key = SOURCE_KINDS[kind] if kind < len(SOURCE_KINDS) else "events"
    program, host = varints.text(), varints.text()
    parent_pid, flags, command = 0, 0, []
    if not varints.at_end():
        parent_pid, flags = varints.numbers(2)
        command = [varints.text() for _ in range(varints.number())]
    context = runtime_parameters = ""
    word_bytes = rate_bits = 0
    if not varints.at_end():
        context, runtime_parameters, word_bytes = varints.text(), varints.text(), varints.number()
        rate_bits = int.from_bytes(varints.take(8), "little")
    executable, reserved_bytes, mapped_file_bytes = "", 0, 0
    if not varints.at_end():
        executable, reserved_bytes, mapped_file_bytes = varints.text(), varints.number(), varints.number()
    notes = []
    if not varints.at_end():
        notes = [varints.text() for _ in range(varints.number())]
    if not varints.at_end():
        named = varints.text()
        if 1 <= len(named) <= 32 and set(named) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_"):
            key = named
    store = b""
    if not varints.at_end():
        store = varints.take(varints.number())
    returned_bytes = 0 if varints.at_end() else varints.number()
    has_past = flags & 2 == 2 and flags & 2048 == 2048
    return {"store": store.hex() if len(store) == 16 else "", "has_past": has_past, "notes": notes, "executable": executable, "reserved_bytes": reserved_bytes, "mapped_file_bytes": mapped_file_bytes, "returned_bytes": returned_bytes,
            "context": context, "runtime_parameters": runtime_parameters, "word_bytes": word_bytes,
            "rate_bits": rate_bits,"parent_pid": parent_pid, "usable_sizes": flags & 1 == 1, "snapshot": flags & 2 == 2,
            "aggregated": flags & 4 == 4, "clock": clock_of(flags), "known": known_figures(flags), "command": command,
            "kind": key, "pid": pid, "start_unix_ns": start_unix_ns, "duration_ns": duration_ns,
            "sample_rate": sample_rate, "program": program, "host": host}


class Replay:
    """Goes through the blocks of a file in order."""

    def __init__(self, file):
        self.file = file
        self.catalog = Catalog()
        self.source = {}
        self.ledger = Ledger()
        self.operations = dict.fromkeys(OPERATIONS, 0)
        self.events_read = 0
        self.event_blocks = 0
        self.keyframes = []
        self.summaries_agree = True
        self.marks = []
        self.gauges = []
        self.breakdowns = []
        self.steps_checksum = 0
        self.each(SOURCE, lambda _, payload: self.source.update(read_source(payload)))
        self.each(CATALOG, self.catalog.add)
        self.each(EVENTS, self.extend_duration)
        self.each(RSS, self.take_breakdown)
        for position, (at, kind, _, payload) in enumerate(file.blocks):
            try:
                if kind == EVENTS:
                    self.replay_events(payload)
                elif kind == KEYFRAME:
                    self.compare_keyframe(position, payload)
            except Malformed:
                file.damage.append(at)

    def each(self, wanted, use):
        for at, kind, _, payload in self.file.blocks:
            if kind == wanted:
                try:
                    use(at, payload)
                except Malformed:
                    self.file.damage.append(at)

    def take_breakdown(self, at, payload):
        is_lost, breakdown = read_rss(payload, self.catalog)
        if is_lost:
            self.file.damage.append(at)
        self.breakdowns.append(breakdown)

    def extend_duration(self, _, payload):
        summary = read_summary(Varints(payload))
        last_time = summary["first_time"] + summary["time_span"]
        self.source["duration_ns"] = max(self.source.get("duration_ns", 0), last_time)

    def replay_events(self, payload):
        ledger = self.ledger
        summary = read_summary(Varints(payload))
        lost = summary["first_event"] - ledger.events
        require(lost >= 0 and summary["first_allocation"] >= ledger.next_number, "a block is out of place")
        if lost > 0:
            ledger.next_number = summary["first_allocation"]
            ledger.events += lost
            ledger.count(LOST_TO_DAMAGE, lost)
        self.event_blocks += 1
        highest = live_bytes(ledger.totals)
        counts_before = dict(self.operations)
        lines = []
        for step in steps_of(payload, self.catalog):
            ledger.apply(step)
            highest = max(highest, live_bytes(ledger.totals))
            self.take_note(step, lines)
        self.steps_checksum = zlib.crc32("".join(lines).encode(), self.steps_checksum)
        if ledger.anomalies[LOST_TO_DAMAGE] == 0:
            counted = {name: self.operations[name] - counts_before[name] for name in OPERATIONS}
            notes = counted["evict"] + counted["note"]
            reached = {
                "events": summary["steps"] - notes,
                "last_time": ledger.last_time,
                "live_bytes": live_bytes(ledger.totals),
                "live_blocks": live_blocks(ledger.totals),
                "highest_bytes": highest,
                "marks": counted["mark"],
                "gauges": counted["gauge"],
            }
            summary["last_time"] = summary["first_time"] + summary["time_span"]
            self.summaries_agree &= all(summary[name] == value for name, value in reached.items())

    def take_note(self, step, lines):
        time, thread, operation, fields = step
        self.operations[operation] += 1
        self.events_read += operation not in ("evict", "note")
        if operation == "mark":
            fields = (self.catalog.string(fields[0]),)
            self.marks.append([time, self.ledger.events, *fields])
        elif operation == "gauge":
            fields = (self.catalog.string(fields[0]), fields[1])
            self.gauges.append([time, *fields])
        elif operation == "note":
            fields = (ANOMALIES[fields[0]], fields[1])
        values = " ".join(self.text_of(field) for field in fields)
        lines.append(f"{time} {thread} {operation} {values}\n")

    @staticmethod
    def text_of(field):
        if field is None:
            return "-"
        return "/".join(map(str, field)) if isinstance(field, tuple) else str(field)

    def is_beginning(self, position):
        """Whether a keyframe is the one that a snapshot begins with (§14)."""
        before = self.file.blocks[:position]
        return self.source.get("snapshot", False) and all(kind not in (EVENTS, KEYFRAME) for _, kind, _, _ in before)

    def compare_keyframe(self, position, payload):
        events, _, parts = Varints(payload).numbers(3)
        lost = self.ledger.anomalies[LOST_TO_DAMAGE] > 0 or self.ledger.events < events
        state = read_keyframe(payload, self.catalog)
        sequence = self.file.blocks[position][2]
        following = self.file.blocks[position + 1:position + 1 + parts]
        expected = [(LIVE_BLOCKS, (sequence + part) & 0xFFFFFFFF) for part in range(1, parts + 1)]
        require([(kind, number) for _, kind, number, _ in following] == expected, "live blocks are missing")
        for block in following:
            read_live_blocks(block[3], state)
        kept = list(state.blocks.values())
        found = (sum(map(blocks_of, kept)), sum(map(bytes_of, kept)), len(kept), sum(map(more_samples_of, kept)))
        expected = (live_blocks(state.totals), live_units(state.totals),
                    state.totals["records"] - state.totals["freed_records"],
                    state.totals["more_samples"] - state.totals["more_samples_gone"])
        if self.source.get("aggregated", False):
            require(found == (0, 0, 0, 0) and min(expected) >= 0, "there are live blocks where only figures are known")
        else:
            require(found == expected, "live blocks do not belong to their keyframe")
        is_state = self.source.get("aggregated", False) and not self.source.get("snapshot", False)
        if is_state or self.is_beginning(position):
            self.ledger = state
            return
        self.keyframes.append({
            "figures_equal": state.figures() == self.ledger.figures(),
            "live_blocks_equal": state.blocks == self.ledger.blocks,
        })
        if lost:
            self.ledger = state

    def report(self):
        ledger = self.ledger
        totals = ledger.totals
        aggregated = self.source.get("aggregated", False)
        sites = {}
        for stack, figures in ledger.figures()[7].items():
            text = self.catalog.site_text(stack)
            sites[text] = sites.get(text, 0) + live_bytes(figures)
        tags = {}
        for tag, figures in ledger.figures()[8].items():
            text = self.catalog.tag_text(tag)
            tags[text] = tags.get(text, 0) + live_bytes(figures)
        return {
            "version": self.file.version,
            "complete": self.file.complete,
            "damage": sorted(set(self.file.damage)),
            "index_agrees": self.file.index_agrees(),
            "summaries_agree": self.summaries_agree,
            "source": self.source,
            "events": self.events_read,
            "event_blocks": self.event_blocks,
            "operations": self.operations,
            "steps_crc32": self.steps_checksum,
            "allocations": totals["allocations"],
            "frees": totals["frees"],
            "reallocations": totals["reallocations"],
            "allocated_bytes": rounded(totals["allocated_bytes"]),
            "freed_bytes": rounded(totals["freed_bytes"]),
            "live_blocks": live_blocks(totals) if aggregated else sum(map(blocks_of, ledger.blocks.values())),
            "live_bytes": live_bytes(totals) if aggregated else rounded(sum(map(bytes_of, ledger.blocks.values()))),
            "live_records": len(ledger.blocks),
            "records": totals["records"],
            "samples": totals["records"] + totals["more_samples"],
            "promotions": totals["promotions"],
            "surplus_bytes": sum(block.surplus for block in ledger.blocks.values()),
            "peak_bytes": totals["peak_bytes"],
            "peak_blocks": ledger.high["peak_blocks"],
            "peak_event": ledger.high["peak_event"],
            "peak_time_ns": ledger.high["peak_time"],
            "peak_inside_reallocation": ledger.high["peak_inside_reallocation"],
            "cross_thread_frees": totals["cross_thread_frees"],
            "temporary_allocations": totals["temporary_allocations"],
            "anomalies": dict(zip(ANOMALIES, ledger.anomalies)),
            "threads": {
                str(id): {
                    "live_bytes": live_bytes(account["figures"]),
                    "allocations": account["figures"]["allocations"],
                }
                for id, account in ledger.threads.items()
            },
            "thread_names": {str(id): self.catalog.string(name) for id, name in self.catalog.thread_names},
            "sites": sites,
            "tags": tags,
            "modules": list(self.catalog.module_texts()),
            "marks": self.marks,
            "gauges": self.gauges,
            "breakdowns": sorted(self.breakdowns, key=lambda breakdown: breakdown["at"]),
            "keyframes": len(self.keyframes),
            "keyframe_checks": self.keyframes,
        }


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: python3 independent_reader.py FILE")
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    sys.stdout.reconfigure(encoding="utf-8")
    print(json.dumps(Replay(File(data)).report(), indent=1, sort_keys=True, ensure_ascii=False))


if __name__ == "__main__":
    main()
