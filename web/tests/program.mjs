// A made-up program whose every event is known, so that the tests can compute each figure from the events themselves: see replay.mjs.

const frame = (name, file, line, module) => ({ function: name, file: `src/${file}`, line, module });
const MAIN = frame("main", "main.c", 10, "app");
const LOAD = [frame("load", "load.c", 21, "app"), MAIN];
const READ = [frame("read_file", "load.c", 44, "libio.so"), ...LOAD];
const PARSE = [frame("parse_line", "parse.c", 7, "libparse.so"), frame("parse", "parse.c", 90, "libparse.so"), ...LOAD];
const INDEX = [frame("index_all", "index.c", 60, "app"), MAIN];
const SERVE = [frame("serve", "serve.c", 33, "app"), MAIN];
const NODE = frame("make_node", "node.c", 5, "app");
const COPY = frame("copy_text", "text.c", 3, "libtext.so");
const WALK = frame("walk", "index.c", 71, "app");

/** What is allocated, by whom, and how much at a time. */
const KINDS = {
  buffer: { stack: [frame("grow", "buffer.c", 12, "libio.so"), ...READ], sizes: [256, 9000] },
  mapping: { stack: [frame("map_file", "load.c", 52, "libio.so"), ...READ], sizes: [4096, 32768], heap: "mmap" },
  line: { stack: [COPY, ...PARSE], sizes: [1, 120], type: "Text" },
  node: { stack: [NODE, ...PARSE], sizes: [48, 48], type: "Node" },
  entry: { stack: [NODE, ...INDEX], sizes: [48, 64], type: "Node" },
  branch: { stack: [WALK, WALK, ...INDEX], sizes: [500, 3000] },
  session: { stack: [frame("open_session", "serve.c", 80, "app"), ...SERVE], sizes: [600, 1200], type: "Session" },
  reply: { stack: [COPY, ...SERVE], sizes: [10, 5000], type: "Text" },
};
/** The phases of its life: what it allocates, and how likely it is that a step frees something instead. Each kind is largest at another time. */
const PHASES = [
  { kinds: ["buffer", "mapping", "buffer", "line"], frees: 0.15 },
  { kinds: ["line", "node", "node", "buffer"], frees: 0.45 },
  { kinds: ["entry", "branch", "node"], frees: 0.3 },
  { kinds: ["session", "reply", "reply", "mapping"], frees: 0.4 },
  { kinds: ["reply", "session", "line"], frees: 0.5 },
];
export const THREADS = { 1: "loader", 2: "indexer", 3: "server" };
/** No whole number, so that sums of rounded estimates differ from rounded sums. */
export const BYTES_PER_SAMPLE = 341.3;

/** Its events, the same for the same seed. `sampled`: each block counts for several, as a sampling source writes it. */
export function program({ seed, steps = 240, sampled = false }) {
  let state = BigInt(seed);
  const random = () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffff_ffff_ffff_ffffn;
    return Number(state >> 40n) / 2 ** 24;
  };
  const between = (low, high) => low + Math.floor(random() * (high - low + 1));
  const pick = (list) => list[between(0, list.length - 1)];
  const events = [{ event: "source", program: sampled ? "sampled" : "exact", pid: 7, ...(sampled && { sample_rate: Math.round(BYTES_PER_SAMPLE) }) }];
  for (const [thread, name] of Object.entries(THREADS)) events.push({ event: "thread", thread: Number(thread), name });
  const live = [];
  let time = 1000;
  let address = 0x10000;
  const happen = (event) => {
    // Some things happen at the same instant.
    time += pick([0, 137, 1_911, 20_023]);
    events.push({ time_ns: time, ...event });
  };
  const placed = (kind, size) => ({
    address: `0x${(address += 0x100000).toString(16)}`, size, stack: kind.stack, type: kind.type, heap: kind.heap,
    ...(sampled && { weight: between(1, 4), samples: between(1, 5), bytes_per_sample: BYTES_PER_SAMPLE }),
  });
  const free = (block, thread) => happen({ event: "deallocate", thread, address: block.address, heap: block.kind.heap });
  for (const phase of PHASES) {
    for (let step = 0; step < steps; step += 1) {
      const chance = random();
      const thread = between(1, 3);
      if (live.length > 5 && chance < phase.frees) {
        // Mostly by the thread that owns it.
        const block = live.splice(between(0, live.length - 1), 1)[0];
        free(block, random() < 0.8 ? block.thread : thread);
      } else if (live.length > 5 && chance < phase.frees + 0.12) {
        const at = between(0, live.length - 1);
        const old = live[at];
        // It may grow on behalf of another kind: then it changes its site, its type and its owner.
        const kind = old.kind.heap ? old.kind : KINDS[pick(phase.kinds.filter((name) => !KINDS[name].heap))];
        const block = { ...placed(kind, between(...kind.sizes)), kind, thread };
        const { kind: _, thread: __, ...place } = block;
        happen({ event: "reallocate", thread, old_address: old.address, ...place });
        live[at] = block;
      } else {
        const kind = KINDS[pick(phase.kinds)];
        const place = placed(kind, between(...kind.sizes));
        happen({ event: "allocate", thread, ...place });
        const block = { ...place, kind, thread };
        // A quarter is freed at once.
        if (random() < 0.25) free(block, thread);
        else live.push(block);
      }
    }
  }
  happen({ event: "mark", name: "done" });
  return events;
}
