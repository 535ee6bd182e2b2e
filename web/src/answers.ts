// What the server answers: docs/api.md, as types. Nothing here is checked at run time; views take missing members as absent.

export type Nanos = number;
export type Metric = "live" | "peak" | "allocated" | "leaked" | "temporary" | "freed";
export type Measure = "bytes" | "blocks";

export interface Source {
  id: number;
  kind: string;
  path: string;
  name: string;
  program?: string | null;
  pid?: number | null;
  host?: string | null;
  started?: string | null;
  /** The first instant there is, and the last. */
  begins_ns?: Nanos;
  duration_ns: Nanos;
  events: number;
  /** How much of a long recording was gone through, while that is being done. */
  reading?: number | null;
  estimated: boolean;
  sampling?: string | null;
  peak?: { at_ns: Nanos; bytes: number } | null;
  live_at_end?: { bytes: number; blocks: number } | null;
  threads?: { id: number; name: string | null }[];
  heaps?: string[];
  has: string[];
  /** What it can be asked for: one instant knows only what is live. */
  metrics?: Metric[];
  /** False for a log without times: what are nanoseconds elsewhere are lines of it. */
  timed?: boolean | null;
  damage?: { offset: number; length: number; what: string }[];
  problem?: string | null;
}

export interface Sources {
  schema: number;
  version: string;
  sources: Source[];
}

export interface Frame {
  function?: string | null;
  file?: string | null;
  line?: number | null;
  module?: string | null;
  address?: string | null;
  inlined?: boolean;
}

/** Keys of `highwater report --json`. */
export type Figures = { [name: string]: number | undefined };

export interface Interval {
  interval_95?: { [name: string]: [number, number] } | [number, number];
  samples?: number;
}

export interface Row extends Interval {
  key: string;
  id: number | null;
  value: number;
  blocks: number;
  share: number;
  self?: number;
  total?: number;
  total_blocks?: number;
  frame?: Frame | null;
  stack?: Frame[];
}

export interface Rows {
  total: Figures & Interval;
  count: number;
  rows: Row[];
}

export interface Overview {
  at_ns: Nanos;
  window?: { from_ns?: Nanos; to_ns?: Nanos };
  figures: Figures & Interval;
  top: { live: Row[]; peak: Row[]; allocated: Row[]; temporary: Row[] };
  anomalies: string[];
  notes: string[];
}

export interface Envelope {
  low: number[];
  high: number[];
  last: number[];
}

export interface Timeline {
  t: Nanos[];
  live_bytes: Envelope;
  live_blocks: Envelope;
  allocated_bytes: number[];
  allocations: number[];
  freed_bytes: number[];
  gauges: { name: string; unit: string | null; t: Nanos[]; value: number[] }[];
  marks: { t: Nanos; name: string; thread?: number | null }[];
  peak?: { at_ns: Nanos; bytes: number } | null;
  /** Rates are reckoned, while a long recording is still being read. */
  approximate?: boolean;
}

/** Where the most is live within the window, of everything and of what the filters keep. */
export interface Peak {
  at_ns: Nanos;
  bytes: number;
  filtered: { at_ns: Nanos; bytes: number } | null;
}

export interface Tree {
  names: string[];
  files: string[];
  node_name: number[];
  node_file: number[];
  node_line: number[];
  node_depth: number[];
  node_value: number[];
  node_self: number[];
  node_blocks: number[];
  node_before?: number[];
  node_after?: number[];
  total: number;
  left_out?: { nodes: number; value: number };
}

export interface FocusedTree {
  callers: Tree;
  callees: Tree;
}

export interface Callers {
  function: string;
  self: number;
  total: number;
  callers: { function: string; value: number }[];
  callees: { function: string; value: number }[];
}

export interface Block {
  id: number;
  address: string;
  size: number;
  usable?: number | null;
  allocated_ns: Nanos;
  freed_ns: Nanos | null;
  lifetime_ns: Nanos | null;
  thread: number | null;
  heap: string | null;
  type: string | null;
  site: number | null;
  weight?: number | null;
  stack: Frame[];
}

export interface Blocks {
  count: number;
  bytes: number;
  blocks: Block[];
}

export interface Bin {
  from?: number;
  to?: number;
  from_ns?: number;
  to_ns?: number;
  blocks: number;
  bytes: number;
}

export interface Histograms {
  size: Bin[];
  lifetime: Bin[];
  never_freed: { blocks: number; bytes: number };
}

export interface Change {
  key: string;
  id_a: number | null;
  id_b: number | null;
  before: number;
  after: number;
  change: number;
  blocks_before: number;
  blocks_after: number;
  what: string;
  frame?: Frame | null;
  stack?: Frame[];
}

export interface Compare {
  before: Figures;
  after: Figures;
  change: { bytes: number; blocks: number };
  rows: Change[];
  tree?: Tree | null;
}

export interface LeakSite {
  id: number;
  key: string;
  frame?: Frame | null;
  stack?: Frame[];
  live_bytes: number;
  live_blocks: number;
  curve: number[];
  blocks_curve: number[];
  /** Null where there are no times; then there is `growth_per_line`. */
  growth_per_s: number | null;
  growth_per_line?: number | null;
  steadiness: number;
  score: number;
  oldest_ns: Nanos | null;
}

export interface Leaks {
  sites: LeakSite[];
  t: Nanos[];
}

export interface Process {
  pid: number;
  name: string;
  since_unix_ns: number;
  live_bytes: number;
  live_blocks: number;
  mode: string;
}

export interface Live {
  collector: string | null;
  processes: Process[];
  problem: string | null;
}

export interface ObjectType {
  type: string;
  allocations: number;
  allocated_bytes: number;
  drops: number;
  dropped_bytes: number;
  live_objects: number;
  live_bytes: number;
  doubtful_objects?: number;
  perfect: boolean;
}

export interface Types {
  totals: Figures;
  leaked_bytes_total: number;
  perfect: string[];
  types: ObjectType[];
  iterations: Iterations | null;
  trust: { verdict: string; sentence: string; memory: { growth_bytes: number | null; explained_percent: number | null } | null };
}

/** What each iteration left behind: `survivors[i]` was made before `ends[i]`, and after the end before. */
export interface Iterations {
  iterations_each: number;
  ends: { name: string; line: number | null; memory_bytes: number | null }[];
  types: TypeGrowth[];
}

export interface TypeGrowth {
  type: string;
  survivors: { objects: number; bytes: number }[];
  pattern: string | null;
  each: { objects: number; bytes: number } | null;
  sentence: string;
}

export interface ImageHeap {
  lens: string;
  image_bytes: number;
  heap_bytes: number;
  walked_bytes: number;
  live_bytes: number;
  live_objects: number;
  kinds: { kind: string; count: number; bytes: number; live_count: number; live_bytes: number }[];
  shapes: { shape: string; kind: string; count: number; bytes: number; retained_bytes: number }[];
  largest: { address: string; bytes: number; path: string | null; retained_bytes: number; shape: string }[];
  waste: { what: string; count: number; bytes: number }[];
  damage_count?: number;
}

export interface TreemapAnswer {
  nodes: { parent: number | null; label: string; kind: string; address: string | null; bytes: number; retained: number; count: number }[];
}

export interface ImageObject {
  object: {
    address: string;
    bytes: number;
    retained_bytes: number;
    kind: string;
    shape: string;
    path: string | null;
    value: string | null;
    guess?: unknown;
    contents?: unknown;
    referrers: { address: string | null; step: string; what: string }[];
  };
}

export interface ImageCompare {
  came: { bytes: number; count: number };
  went: { bytes: number; count: number };
  images: { file: string; live_bytes: number; live_objects: number }[];
  new: { shape: string; count: number; bytes: number; path: string | null; example: string | null }[];
  shapes: { shape: string; bytes: number[]; count: number[]; change_bytes: number; change_count: number; keeps_growing: boolean }[];
  roots: { name: string; retained_bytes: number[]; change_bytes: number; keeps_growing: boolean }[];
}
