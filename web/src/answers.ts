// What the server answers: docs/api.md, as types. Answers to questions are in query.ts, which is generated; documents of the command are here.
// Nothing here is checked at run time; views take missing members as absent.
import type { Figures, Metric, Nanos, SourceLines } from "./query";

export * from "./query";

export interface Source {
  id: number;
  kind: string;
  path: string;
  name: string;
  program?: string | null;
  pid?: number | null;
  host?: string | null;
  started?: string | null;
  /** The name that a program gave a snapshot of itself. */
  snapshot_name?: string | null;
  /** The first instant there is, and the last. */
  begins_ns?: Nanos;
  duration_ns: Nanos;
  events: number;
  /** How much of a long recording is indexed, while that is being done. */
  reading?: number | null;
  estimated: boolean;
  sampling?: string | null;
  /** What the 95 % range of an estimate follows from. */
  certainty?: { bytes_per_sample: number; spread: number } | null;
  peak?: { at_ns: Nanos; bytes: number } | null;
  /** Where RSS was highest, as far as it was measured. */
  rss_peak?: { at_ns: Nanos; bytes: number } | null;
  live_at_end?: { bytes: number; blocks: number } | null;
  threads?: { id: number; name: string | null }[];
  heaps?: string[];
  tasks?: string[];
  has: string[];
  /** What it can be asked for: one instant knows only what is live. */
  metrics?: Metric[];
  /** False for a log without times: what are nanoseconds elsewhere are lines of it. */
  timed?: boolean | null;
  /** The unit of what are nanoseconds elsewhere: "ns", "line", "instruction" or "byte". */
  clock?: string | null;
  damage?: { offset: number; length: number; what: string }[];
  problem?: string | null;
}

export interface Sources {
  schema: number;
  version: string;
  sources: Source[];
  /** The recordings of processes, and whether they belong together. */
  processes?: { count: number; is_tree: boolean };
}

/** A source file, and the memory of its lines. */
export interface SourceCode extends SourceLines {
  /** Where it is on the server's machine. */
  found: string | null;
  text: string | null;
  problem: { kind: string; what: string } | null;
  has_editor: boolean;
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
  stable?: { bytes: number; regions: { id: number; bytes: number; reserved_bytes: number; owner: string | null; is_live: boolean }[] };
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
