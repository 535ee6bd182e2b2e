// What the server answers to questions: generated from the structs of crates/query. Do not edit; see crates/query/src/types.rs.
// Nothing here is checked at run time; views take missing members as absent.

/** Nanoseconds; of a log without times, line numbers. */
export type Nanos = number;
export type Measure = "bytes" | "blocks";

/** Figures by name, as `highwater report --json` has them. */
export type Figures = { [name: string]: number | undefined };

/** What estimates have besides their value. */
export interface Interval {
  interval_95?: { [name: string]: [number, number] } | [number, number];
  samples?: number;
}

export type Metric = "live" | "peak" | "own-peak" | "allocated" | "allocations" | "freed" | "leaked" | "temporary";

export type Grouping = "site" | "function" | "file" | "module" | "line" | "thread" | "type" | "heap" | "task";

/** One frame of a call stack. Unknown parts are `null`, or left out if only some sources have them. */
export type Frame = {
  /** The function. */
  function: string | null;
  /** The source file. */
  file: string | null;
  /** The line in it. */
  line: number | null;
  /** The executable or library. */
  module: string | null;
  /** True if the function was inlined into its caller. */
  inlined: boolean;
  /** The address of the code, in hex. */
  address?: string;
  /** Of code without a function's name: the offset in its module, in hex. */
  offset?: string;
  /** True if the frame was guessed from the words on the stack. */
  guessed?: boolean;
  /** The first column of the call. */
  column?: number;
  /** The last column of the call. */
  end_column?: number;
};

/** A window in an answer. */
export type WindowAnswer = {
  /** Its first instant. */
  from_ns: number;
  /** Its last instant. */
  to_ns: number;
};

/** Bytes and blocks in an answer. */
export type BytesAndBlocks = {
  /** Bytes. */
  bytes: number;
  /** Blocks. */
  blocks: number;
};

/** One row of a table. */
export type Row = {
  /** Its name, for people. */
  key: string;
  /** The number of a site or thread. */
  id: number | null;
  /** The measured value: its own part, without callees. */
  value: number;
  /** Its blocks. */
  blocks: number;
  /** Its share of the total, from 0 to 1: that of `value`; in a table that is sorted by `total`, that of `total`. */
  share: number;
  /** For functions, files, modules and lines: the same as `value`. */
  self?: number;
  /** For functions, files, modules and lines: the value including all callees. */
  total?: number;
  /** For functions, files, modules and lines: the blocks including all callees. */
  total_blocks?: number;
  /** For sites: the frame that names it. For functions: of their frames, the one that holds the most. */
  frame?: Frame | null | null;
  /** For sites: the number of the stack. */
  stack?: Frame[];
  /** For types that stacks show: the number of elements that the blocks have room for; null if the size of an element is not known. */
  elements?: number | null | null;
  /** Of estimated bytes: the samples that `value` is made of. */
  value_samples?: number;
  /** For sites and functions: the pool that took the memory. */
  pool?: string;
  /** For sites that would look like another: what differs. */
  detail?: string;
} & Interval;

/** What some rows have together, each without its callees. */
export type Found = {
  /** The value of the metric. */
  value: number;
  /** The blocks. */
  blocks: number;
};

/** A table. */
export type Rows = {
  /** The instant of the measurement; the end of the window for metrics of a window. */
  at_ns: number;
  /** The figures of everything together. */
  total: Figures & Interval;
  /** What the rows that the search finds have together, also those that are not in `rows`. */
  found: Found;
  /** How many rows there are, also those that are not in `rows`. */
  count: number;
  /** The rows. */
  rows: Array<Row>;
};

/** The largest sites by five metrics. */
export type TopRows = {
  /** Live at the instant. */
  live: Array<Row>;
  /** Live at the peak. */
  peak: Array<Row>;
  /** Allocated in the window. */
  allocated: Array<Row>;
  /** Temporary allocations. */
  temporary: Array<Row>;
  /** Allocated in the window and never freed. */
  leaked: Array<Row>;
};

/** Key figures and top lists. */
export type Overview = {
  /** The instant of live figures. */
  at_ns: number;
  /** The window. */
  window: WindowAnswer;
  /** The key figures. */
  figures: Figures & Interval;
  /** The largest sites. */
  top: TopRows;
  /** Anomalies of the events, in words. */
  anomalies: Array<string>;
  /** Notes for the reader, in words. */
  notes: Array<string>;
};

/** The function that holds most, without what it calls: what a table by function has. */
export type HeadlineFunction = {
  /** Its name. */
  key: string;
  /** The pool that took the memory. */
  pool?: string;
  /** Its bytes. */
  bytes: number;
  /** Its blocks. */
  blocks: number;
  /** Its share of all bytes, from 0 to 1. */
  share: number;
  /** The number of its sites: how many call stacks these blocks have. */
  sites: number;
};

/** The site that holds most. */
export type HeadlineSite = {
  /** Its number. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** The frame that names it. */
  frame: Frame | null;
  /** The pool that took the memory. */
  pool?: string;
  /** Its bytes. */
  bytes: number;
  /** Its blocks. */
  blocks: number;
  /** Its share of all bytes, from 0 to 1. */
  share: number;
};

/** The sites that grow steadily, added up. */
export type SteadyGrowth = {
  /** Bytes that they allocated in the window and that are live at its end. */
  bytes: number;
  /** The number of these sites. */
  sites: number;
  /** The birth of the oldest of these blocks. */
  since_ns: number;
  /** The number of the site that grows most. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** The frame that names it. */
  frame: Frame | null;
};

/** The first things to know about a window. */
export type Headline = {
  /** The instant of the most live memory; of a snapshot its only instant. */
  at_ns: number;
  /** Bytes that pass the filters and are live then. */
  bytes: number;
  /** Their blocks. */
  blocks: number;
  /** Of estimates: the samples that the bytes are made of. */
  samples?: number;
  /** The function that holds most of them. */
  top: HeadlineFunction | null;
  /** The site that holds most of them. It may be of another function. */
  site: HeadlineSite | null;
  /** What grows steadily. */
  steady: SteadyGrowth | null;
  /** The last instant before the program's tear-down, if the window ends with one: leaks and growth are judged there. */
  before_teardown_ns: number | null;
};

/** An instant, and the bytes that were live then. */
export type PeakInstant = {
  /** The instant. */
  at_ns: number;
  /** Bytes live then. */
  bytes: number;
};

/** The peak within a window. */
export type Peak = {
  /** The peak of the blocks that pass the filters; null without filters, or if too many changes would have to be sorted. */
  filtered: PeakInstant | null;
  /** The instant. */
  at_ns: number;
  /** Bytes live then. */
  bytes: number;
};

/** The least, the greatest and the last value of each bin. */
export type Envelope = {
  /** The least. */
  low: Array<number>;
  /** The greatest. */
  high: Array<number>;
  /** The last. */
  last: Array<number>;
};

/** The readings of a gauge. */
export type Gauge = {
  /** Its name. */
  name: string;
  /** What it counts: `bytes`, `address space`, or null. */
  unit: string | null;
  /** When it was read. */
  t: Array<number>;
  /** The readings. */
  value: Array<number>;
};

/** A mark. */
export type Mark = {
  /** When. */
  t: number;
  /** Its name. */
  name: string;
};

/** Live memory over time. */
export type Timeline = {
  /** The times that separate the bins, one more than there are bins. */
  t: Array<number>;
  /** Live bytes in each bin. */
  live_bytes: Envelope;
  /** Live blocks in each bin. */
  live_blocks: Envelope;
  /** Bytes allocated in each bin. */
  allocated_bytes: Array<number>;
  /** Blocks allocated in each bin, reallocations included. */
  allocations: Array<number>;
  /** Bytes freed in each bin. */
  freed_bytes: Array<number>;
  /** The readings of gauges. */
  gauges: Array<Gauge>;
  /** The marks. */
  marks: Array<Mark>;
  /** How many marks there are beyond those. */
  marks_left_out: number;
  /** Where the most is live; null if too many changes would have to be sorted. */
  peak: PeakInstant | null;
  /** True while a long recording is not indexed yet: allocated and freed bytes are estimated from the mean size. */
  approximate: boolean;
};

/** Live memory in each bin. */
export type BandCurve = {
  /** Bytes. */
  bytes: Array<number>;
  /** Blocks. */
  blocks: Array<number>;
};

/** The live memory of one row. */
export type Band = {
  /** Its name, for people. */
  key: string;
  /** The number of a site or thread. */
  id: number | null;
  /** For sites: the frame that names it. */
  frame?: Frame | null | null;
  /** For sites that would look like another: what differs. */
  detail?: string;
  /** Bytes. */
  bytes: Array<number>;
  /** Blocks. */
  blocks: Array<number>;
};

/** What is live and in no band: the total less all bands. Estimates are rounded one by one, so a rest of nothing may be some bytes below zero. */
export type RestBand = {
  /** How many rows it has. */
  count: number;
  /** Bytes. */
  bytes: Array<number>;
  /** Blocks. */
  blocks: Array<number>;
};

/** Live memory over time by row. */
export type Bands = {
  /** What a band is: `function`, `thread`, … */
  by: string;
  /** The times that separate the bins, one more than there are bins. */
  t: Array<number>;
  /** The instant of each bin: the values are those after all events up to and including it. */
  at: Array<number>;
  /** All live memory that passes the filters, for each bin. */
  total: BandCurve;
  /** The rows that hold the most at any of these instants, largest first. */
  bands: Array<Band>;
  /** What is in no band. */
  rest: RestBand;
};

/** Nodes that are too small to be shown. */
export type LeftOutNodes = {
  /** Their number. */
  nodes: number;
  /** Their value. */
  value: number;
};

/** A flame graph as columns, nodes in depth-first order. Node 0 is the whole. */
export type Tree = {
  /** The names that nodes use. */
  names: Array<string>;
  /** The files that nodes use. */
  files: Array<string>;
  /** The index of each node's name. */
  node_name: Array<number>;
  /** The index of each node's file. */
  node_file: Array<number>;
  /** Each node's line. */
  node_line: Array<number>;
  /** Each node's depth; the whole has 0. */
  node_depth: Array<number>;
  /** Each node's value with everything below it. */
  node_value: Array<number>;
  /** Each node's value without the nodes below it. */
  node_self: Array<number>;
  /** Each node's blocks. */
  node_blocks: Array<number>;
  /** Of estimated bytes: the samples that each node's value is made of. */
  node_samples?: Array<number>;
  /** In comparisons: each node's value before. */
  node_before?: Array<number>;
  /** In comparisons: each node's value after. */
  node_after?: Array<number>;
  /** The nodes that are calls of the language's library, or of a wrapper, below the line that makes them. Other such frames are hidden. */
  library_calls?: Array<number>;
  /** The value of the whole. */
  total: number;
  /** The nodes that are too small to be shown. */
  left_out: LeftOutNodes;
  /** The instant of the measurement. */
  at_ns?: number;
};

/** The functions that lead to one, and those that it leads to. */
export type FocusedTree = {
  /** Its callers. */
  callers: Tree;
  /** Its callees. */
  callees: Tree;
};

/** A caller or a callee. */
export type Neighbour = {
  /** The function. */
  function: string;
  /** The value of the stacks in which it is next to the other function. */
  value: number;
  /** Their blocks. */
  blocks: number;
};

/** A function, and the functions around it. */
export type Callers = {
  /** The function. */
  function: string;
  /** What it allocated itself. */
  self: number;
  /** The same with everything that it called. */
  total: number;
  /** The blocks of `total`. */
  blocks: number;
  /** The functions that call it, largest first. */
  callers: Array<Neighbour>;
  /** The functions that it calls, largest first. */
  callees: Array<Neighbour>;
};

/** One block. */
export type Block = {
  /** Its allocation number. */
  id: number;
  /** Its address, in hex. */
  address: string;
  /** The size asked for. */
  size: number;
  /** The size that malloc gave. */
  usable: number | null;
  /** When it was allocated. */
  allocated_ns: number;
  /** When it was freed. */
  freed_ns: number | null;
  /** The time between both. */
  lifetime_ns: number | null;
  /** Its thread. */
  thread: number;
  /** Its heap. */
  heap: string;
  /** Its type. */
  type: string | null;
  /** The variable that it belongs to. */
  variable: string | null;
  /** Its task. */
  task: string | null;
  /** The number of its site. */
  site: number;
  /** The number of blocks that it stands for. */
  weight: number;
  /** The frame that names its site. */
  frame: Frame | null;
  /** The number of its stack. */
  stack: Frame[];
};

/** A list of blocks. */
export type Blocks = {
  /** How many blocks there are, also those that are not in `blocks`. */
  count: number;
  /** Their bytes. */
  bytes: number;
  /** The number of blocks that they stand for. */
  estimated_blocks: number;
  /** The blocks. */
  blocks: Array<Block>;
};

/** Something that happened to a block. */
export type LifeEvent = {
  /** `allocated`, `reallocated`, `promoted`, `freed`, or `evicted`: another block got its address, so it must have been freed before. `known` for a block
 * that was live before the recording began. */
  what: string;
  /** When. */
  time_ns: number;
  /** The thread that did it; null if it is not known. */
  thread: number | null;
  /** The address of the block after it; for its end, before it. */
  address: string;
  /** Its size. */
  size: number;
  /** The size before it; null if it was not resized. */
  old_size: number | null;
  /** The address before it; null if the block did not move. */
  old_address: string | null;
  /** Its heap. */
  heap: string;
  /** The number of the stack that did it; null if it was not recorded. */
  site: number | null;
  /** The frame that names this stack. */
  frame: Frame | null;
  /** The number of this stack in the table. */
  stack: Frame[];
};

/** A block that lay at the same address at another time. */
export type Occupant = {
  /** The block, as it was then. */
  block: Block;
  /** Since when it lay there, with this size. */
  since_ns: number;
  /** Until when; null if it stays. */
  until_ns: number | null;
  /** Why it left: `freed`, `evicted`, `reallocated` or `promoted`. */
  left: string | null;
};

/** The life of a block. */
export type Biography = {
  /** The block in its last state. */
  block: Block;
  /** For a block that was named by an address: `then` if it lay there at the instant, or `before`, or `after`. */
  found: string | null;
  /** Its past and future are known. False for a snapshot, which knows one instant. */
  has_history: boolean;
  /** Every reallocation is known. False for samples. */
  has_reallocations: boolean;
  /** Every block is known: none can be missing before or after it. False for samples. */
  has_every_block: boolean;
  /** Addresses are those of a memory, where a block may get the address of an earlier one. */
  has_addresses: boolean;
  /** What happened to it, in order. */
  events: Array<LifeEvent>;
  /** The number of reallocations between the last two events that are not listed. */
  left_out: number;
  /** The last block at its first address before it. */
  before: Occupant | null;
  /** The first block at its last address after it. */
  after: Occupant | null;
};

/** Blocks of similar sizes. */
export type Bar = {
  /** The least size. */
  from: number;
  /** The greatest size. */
  to: number;
  /** Their number. */
  blocks: number;
  /** Their bytes. */
  bytes: number;
};

/** Blocks of similar lifetimes. */
export type TimeBar = {
  /** The shortest lifetime. */
  from_ns: number;
  /** The longest lifetime. */
  to_ns: number;
  /** Their number. */
  blocks: number;
  /** Their bytes. */
  bytes: number;
};

/** Sizes and lifetimes of blocks. */
export type Histograms = {
  /** By size. */
  size: Array<Bar>;
  /** By lifetime. */
  lifetime: Array<TimeBar>;
  /** The blocks without a lifetime. */
  never_freed: BytesAndBlocks;
};

/** The live memory of one side. */
export type CompareSide = {
  /** The instant. */
  at_ns: number;
  /** Bytes live then. */
  live_bytes: number;
  /** Blocks live then. */
  live_blocks: number;
};

/** A change of the whole. */
export type WholeChange = {
  /** In bytes. */
  bytes: number;
  /** In blocks. */
  blocks: number;
};

/** A row that changed. */
export type Change = {
  /** Its name, for people. */
  key: string;
  /** The number of a site or thread on side A. */
  id_a: number | null;
  /** The same on side B. */
  id_b: number | null;
  /** Bytes before. */
  before: number;
  /** Bytes after. */
  after: number;
  /** The difference; it is taken first and rounded last. */
  change: number;
  /** Blocks before. */
  blocks_before: number;
  /** Blocks after. */
  blocks_after: number;
  /** Of estimates: the samples that `before` is made of. */
  samples_before?: number;
  /** The same of `after`. */
  samples_after?: number;
  /** `grew`, `shrank`, `came` or `went`. */
  what: string;
  /** For sites: the frame that names it. */
  frame?: Frame | null | null;
  /** For sites: the number of the stack. */
  stack?: Frame[];
  /** For sites: the pool that took the memory. */
  pool?: string;
  /** For sites that would look like another: what differs. */
  detail?: string;
};

/** Two instants compared. */
export type Compare = {
  /** Side A. */
  before: CompareSide;
  /** Side B. */
  after: CompareSide;
  /** The change of the whole. */
  change: WholeChange;
  /** How many rows changed, also those that are not in `rows`. */
  count: number;
  /** The rows, the largest change first. */
  rows: Array<Change>;
  /** A flame graph of both sides. */
  tree: Tree;
};

/** A row with its growth. */
export type GrowingRow = {
  /** Its name, for people. */
  key: string;
  /** The number of a site or thread in the latest look. */
  id: number | null;
  /** Bytes that are live now. */
  live_bytes: number;
  /** Blocks that are live now. */
  live_blocks: number;
  /** How many more bytes are live than at the first look. */
  growth_bytes: number;
  /** How many more blocks. */
  growth_blocks: number;
  /** How many more bytes are live than some looks ago. */
  lately_bytes: number;
  /** How many more blocks. */
  lately_blocks: number;
  /** For sites: the frame that names it. */
  frame?: Frame | null | null;
  /** For sites: the number of the stack. */
  stack?: Frame[];
  /** For sites: the pool that took the memory. */
  pool?: string;
  /** For sites that would look like another: what differs. */
  detail?: string;
};

/** The rows of a live process, and how they grew. */
export type SiteGrowth = {
  /** The whole at the first look. */
  opened: CompareSide;
  /** The whole some looks ago. */
  lately: CompareSide;
  /** The whole now. */
  now: CompareSide;
  /** How many rows there are, also those that are not in `rows`. */
  count: number;
  /** The live bytes of all these rows. */
  found_bytes: number;
  /** The growth of all these rows since the first look. */
  found_growth: number;
  /** The rows. */
  rows: Array<GrowingRow>;
};

/** The memory of a line, or of a file. */
export type LineFigures = {
  /** What it allocates itself. */
  self: number;
  /** The blocks of `self`. */
  blocks: number;
  /** The same with everything that it calls. */
  total: number;
  /** The blocks of `total`. */
  total_blocks: number;
};

/** How much a line, or a file, changed: the differences are taken first and rounded last. */
export type LineChange = {
  /** The figures of side A. */
  before: LineFigures;
  /** How much `self` changed. */
  self: number;
  /** How much `total` changed. */
  total: number;
};

/** A line that has memory. */
export type SourceLine = {
  /** Its number; 0 for calls whose line is not known. */
  line: number;
  /** Its memory; of a comparison, that of side B. */
  figures: LineFigures;
  /** Of a comparison: how it changed. */
  change?: LineChange;
};

/** The lines of a file that have memory. */
export type SourceLines = {
  /** The file, as the source names it. */
  file: string;
  /** The instant of the measurement; of a comparison, that of side B. */
  at_ns: number;
  /** The memory of the file, each stack counted once. */
  figures: LineFigures;
  /** Of a comparison: how the file changed. */
  change?: LineChange;
  /** The lines, in order. */
  lines: Array<SourceLine>;
};

/** A site, or an owner, whose blocks survive. */
export type GrowthSite = {
  /** Its number, if it is a site; else its place among the owners. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** The frame that names it, if it is a site. */
  frame: Frame | null;
  /** The pool that took the memory. */
  pool?: string;
  /** Where another site would look the same: what differs. */
  detail?: string;
  /** The number of its stack. */
  stack: Frame[];
  /** Bytes that were allocated in the window and are live at its end. */
  live_bytes: number;
  /** Their blocks. */
  live_blocks: number;
  /** Of estimates: the samples that they are made of. */
  samples?: number;
  /** The part of `live_bytes` that was already born at each point. */
  curve: Array<number>;
  /** The same of `live_blocks`. */
  blocks_curve: Array<number>;
  /** The slope of the line that fits the curve best; null where there are no times. */
  growth_per_s: number | null;
  /** The same where there are no times. */
  growth_per_line: number | null;
  /** How straight the curve is, from 0 to 1; lower if it rises at few points. */
  steadiness: number;
  /** Growth times steadiness, by which sites are ranked. */
  score: number;
  /** The birth of the oldest of these blocks. */
  oldest_ns: number;
};

/** Sites by steady growth. */
export type Growth = {
  /** The times of the points. */
  t: Array<number>;
  /** How many sites there are, also those that are not in `sites`. */
  count: number;
  /** The sites, most growth first. */
  sites: Array<GrowthSite>;
};

/** A site with live blocks. */
export type LeakSite = {
  /** Its number. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** The frame that names it. */
  frame: Frame | null;
  /** The pool that took the memory. */
  pool?: string;
  /** Where another would look the same: what differs. */
  detail?: string;
  /** The number of its stack. */
  stack: Frame[];
  /** Its live bytes. */
  live_bytes: number;
  /** Its live blocks. */
  live_blocks: number;
  /** Of estimates: the samples that they are made of. */
  samples?: number;
  /** Its share of all live bytes, from 0 to 1. */
  share: number;
  /** The birth of its oldest live block; null where single blocks are not known. */
  oldest_at_ns: number | null;
  /** The age of that block. */
  oldest_age_ns: number | null;
};

/** What is live at an instant. */
export type Leaks = {
  /** The instant. */
  at_ns: number;
  /** All live bytes. */
  live_bytes: number;
  /** All live blocks. */
  live_blocks: number;
  /** How many sites there are, also those that are not in `sites`. */
  count: number;
  /** The sites, most live bytes first. */
  sites: Array<LeakSite>;
};

/** How a process came from the one above it. */
export type Relation = "start" | "fork" | "exec";

/** One process among several. */
export type RecordedProcess = {
  /** The source. */
  id: number;
  /** Its file. */
  path: string;
  /** Its program. */
  name: string;
  /** Its command line; null if not known. */
  command: string | null;
  /** Its process id. */
  pid: number;
  /** The process id of its parent; 0 if not known. */
  parent_pid: number;
  /** The process above it in the tree; null for a root, whose parent is not recorded. */
  parent: number | null;
  /** How it came from the process above it. */
  relation: Relation | null;
  /** The number of processes above it. */
  depth: number;
  /** When it began. */
  start_ns: number;
  /** The time 0 of its own recording. */
  offset_ns: number;
  /** From its start to its end, as far as the recording knows it. */
  duration_ns: number;
  /** False if the recording was cut off, or is still being written. */
  complete: boolean;
  /** Its events. */
  events: number;
  /** Its figures are estimates, made of samples. */
  estimated: boolean;
  /** Its own peak. */
  peak_bytes: number;
  /** When that was. */
  peak_ns: number;
  /** What it held at its end. */
  live_at_end_bytes: number;
  /** The same in blocks. */
  live_at_end_blocks: number;
  /** All that it allocated. */
  allocated_bytes: number;
  /** Its allocations. */
  allocations: number;
  /** What it held where the total is highest. */
  held_bytes: number;
  /** Of a forked process: what its parent held when it began, with what that had inherited itself. It counts there alone. Null if the window does not
 * have that instant. */
  inherited_bytes: number | null;
  /** The highest RSS that was measured within the window; null if there is none. */
  rss_peak: PeakInstant | null;
  /** The bin of `lane_t` that its curve begins with. */
  first_bin: number;
  /** The most that it held in each bin from there on. */
  high_bytes: Array<number>;
  /** True if its curve is made of summaries: true at the end of each event block, a bound within it. */
  approximate: boolean;
};

/** A process in a stack. */
export type StackedProcess = {
  /** The process. */
  id: number;
  /** What it held at the instant of each bin. */
  bytes: Array<number>;
};

/** Where several processes together held the most. */
export type HighestTotal = {
  /** When. */
  at_ns: number;
  /** How much. */
  bytes: number;
  /** No instant has more than this. The same as `bytes` if that is exact. */
  at_most_bytes: number;
};

/** A file that is not among the processes. */
export type ProcessProblem = {
  /** The source. */
  id: number;
  /** Its file. */
  path: string;
  /** Why. */
  what: string;
};

/** The memory of several processes on one time axis. */
export type Processes = {
  /** When the first process began, the zero of all times here: RFC 3339; null if no start is known. */
  started: string | null;
  /** When the last process ended. */
  end_ns: number;
  /** What the axis covers. */
  window: WindowAnswer;
  /** The times that separate the bins, one more than there are bins. */
  t: Array<number>;
  /** The instant that each bin shows: of those that were examined, the one with the highest total. */
  at_ns: Array<number>;
  /** What all processes held together at that instant. */
  total_bytes: Array<number>;
  /** No instant of the bin has a higher total. */
  at_most_bytes: Array<number>;
  /** The largest processes at these instants. */
  stack: Array<StackedProcess>;
  /** All other processes at these instants. */
  rest_bytes: Array<number>;
  /** Where the total is highest within the window; null without processes. */
  highest: HighestTotal | null;
  /** The times that separate the bins of `high_bytes`. */
  lane_t: Array<number>;
  /** The processes as a tree: a parent before its children, which follow in the order of their start. */
  processes: Array<RecordedProcess>;
  /** Processes beyond the limit of an answer, which are in no figure here. */
  left_out: number;
  /** True if some curves are made of summaries. */
  approximate: boolean;
  /** What recordings say of themselves, and of processes without a recording, with the name of the process. At most 20. */
  notes: Array<string>;
  /** Files that are not among the processes, and why. */
  problems: Array<ProcessProblem>;
};

/** What one process held. */
export type ProcessHeld = {
  /** The process. */
  id: number;
  /** What it held. */
  bytes: number;
};

/** What each process held at one instant. */
export type ProcessesHeld = {
  /** The instant. */
  at_ns: number;
  /** All processes together. */
  total_bytes: number;
  /** The processes that ran at that instant. */
  held: Array<ProcessHeld>;
};

/** A row of the resident memory. */
export type RssRow = {
  /** What it is: `live_blocks`, `slack`, `free_top` … */
  key: string;
  /** Its name, for people. */
  name: string;
  /** The group of rows it belongs to: `heap`, `mappings`, `stacks`, `files`, `shared`, `other` or `agent`. */
  group: string;
  /** Bytes in RAM. */
  resident_bytes: number;
  /** Bytes of address space, resident or not. */
  size_bytes: number;
  /** Bytes that were swapped out. */
  swapped_bytes: number;
};

/** The memory limit of a control group. */
export type RssLimit = {
  /** The limit. */
  bytes: number;
  /** What the group uses: all its processes, and the kernel's memory for them. */
  used_bytes: number;
  /** What is left. */
  left_bytes: number;
  /** The used share, from 0 to 1. */
  used_share: number;
};

/** The kernel's figures of the process that are not part of the sum. */
export type RssBeside = {
  /** The proportional set size: pages that several processes share count in part. Null if it was not read. */
  pss_bytes: number | null;
  /** Anonymous memory in RAM. */
  anonymous_bytes: number;
  /** Private writable address space. */
  data_bytes: number;
  /** Swapped out. */
  swap_bytes: number;
  /** The kernel's page tables for this process. */
  page_table_bytes: number;
  /** Anonymous memory in transparent huge pages. */
  huge_bytes: number;
  /** Its share of the RSS, from 0 to 1. */
  huge_share: number;
  /** Pages that the program offered to the kernel and that are still in RAM. Null if it was not read. */
  lazily_free_bytes: number | null;
  /** Threads. */
  threads: number;
  /** The memory limit of the process's control group; null if there is none. */
  limit: RssLimit | null;
};

/** The allocator of the process. */
export type RssAllocator = {
  /** Its name; null if it was not recognized. */
  name: string | null;
  /** The number of its arenas; null if it is not known. */
  arenas: number | null;
  /** What `malloc_trim(0)` would return to the kernel; null if that is not known. */
  trim_bytes: number | null;
  /** True if it would return that much at most. */
  trim_is_upper_bound: boolean;
  /** Free memory at the tops of other arenas than the main one, which `malloc_trim` does not return. */
  other_top_bytes: number;
};

/** Figures of live blocks, or of mappings. */
export type RssFigures = {
  /** Live blocks or mappings. */
  blocks: number;
  /** The bytes that were requested. */
  live_bytes: number;
  /** Those of them that are in RAM. */
  resident_bytes: number;
  /** Usable bytes beyond those that were requested. */
  slack_bytes: number;
  /** Bytes of pages that could be returned to the kernel if only these were freed. */
  pinned_bytes: number;
};

/** The pages of a site: of its blocks, or of its mappings. */
export type RssSite = {
  /** The number of its stack in the recording. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** The frame that names it. */
  frame: Frame | null;
  /** The pool that took the memory. */
  pool?: string;
  /** Where another would look the same: what differs. */
  detail?: string;
  /** The number of its stack. */
  stack: Frame[];
  /** The type of its blocks, as far as it is known. */
  type_name: string;
  /** True for memory that the program mapped by itself, false for blocks of the malloc family. */
  is_mapping: boolean;
  /** Live blocks or mappings. */
  blocks: number;
  /** The bytes that were requested. */
  live_bytes: number;
  /** Those of them that are in RAM. */
  resident_bytes: number;
  /** Usable bytes beyond those that were requested. */
  slack_bytes: number;
  /** Bytes of pages that could be returned to the kernel if only these were freed. */
  pinned_bytes: number;
};

/** The pages of all sites of a type, function or another group. */
export type RssGroup = {
  /** Its name, for people. */
  key: string;
  /** Live blocks or mappings. */
  blocks: number;
  /** The bytes that were requested. */
  live_bytes: number;
  /** Those of them that are in RAM. */
  resident_bytes: number;
  /** Usable bytes beyond those that were requested. */
  slack_bytes: number;
  /** Bytes of pages that could be returned to the kernel if only these were freed. */
  pinned_bytes: number;
};

/** The resident pages of a file, or of a shared memory object. */
export type RssFile = {
  /** Its path. */
  path: string;
  /** Pages of the page cache, which other processes may share. */
  shared_bytes: number;
  /** Private pages. */
  private_bytes: number;
};

/** Something that stands out, and what would help. */
export type RssFinding = {
  /** What it is: `trim`, `slack`, `arenas` … */
  key: string;
  /** One sentence, for people. */
  sentence: string;
  /** The bytes that it is about. */
  bytes: number;
  /** How the figure was computed. */
  how: string;
  /** The `id` of the site that it is about. */
  site?: number;
};

/** An instant of which the resident memory is known. */
export type RssInstant = {
  /** When. */
  at_ns: number;
  /** Why it was recorded: `request`, `rss-peak`, `mark` or `end`. */
  reason: string;
  /** The mark at which it was recorded; null if there is none. */
  mark: string | null;
  /** The RSS. */
  rss_bytes: number;
};

/** Where the resident memory of a process is, at one instant. */
export type Rss = {
  /** The instant. */
  at_ns: number;
  /** Why it was recorded: `request`, `rss-peak`, `mark` or `end`. */
  reason: string;
  /** False if not every live block is known. Then sites are a part, and free memory inside the allocator is not known. */
  knows_every_block: boolean;
  /** The rows, in a fixed order. Each resident byte is in one of them. */
  rows: Array<RssRow>;
  /** The resident bytes of all rows. */
  sum_bytes: number;
  /** The kernel's RSS before the pages were read. */
  rss_bytes: number;
  /** The kernel's RSS afterwards. */
  rss_after_bytes: number;
  /** The highest RSS of the process so far. */
  rss_peak_bytes: number;
  /** How far the sum may be off because the process changed while it was read. */
  uncertain_bytes: number;
  /** What would be resident without Highwater's agent. */
  without_agent_bytes: number;
  /** Free memory inside the allocator that is resident; null if it is not known. */
  free_bytes: number | null;
  /** Live blocks that are neither resident nor swapped out: never touched, or given back. */
  untouched_block_bytes: number;
  /** Mappings of the program that are neither resident nor swapped out. */
  untouched_mapping_bytes: number;
  /** The kernel's figures that are not part of the sum. */
  beside: RssBeside;
  /** The allocator. */
  allocator: RssAllocator;
  /** How many sites there are, also those that are not in `sites`. */
  site_count: number;
  /** Sites of live blocks and mappings. */
  sites: Array<RssSite>;
  /** What the rows of `groups` are: `type`, `function` … */
  by: string;
  /** How many groups there are, also those that are not in `groups`. */
  group_count: number;
  /** The same blocks and mappings, by type or another grouping. */
  groups: Array<RssGroup>;
  /** How many files there are, also those that are not in `files`. */
  file_count: number;
  /** Files and shared memory objects, the largest first. */
  files: Array<RssFile>;
  /** What stands out, and what would help. */
  findings: Array<RssFinding>;
  /** All instants of which this is known, in order. */
  instants: Array<RssInstant>;
};

/** Some pages of a heap. */
export type RssCell = {
  /** The address of its first page. */
  address: number;
  /** The pages that are in RAM. */
  resident_pages: number;
  /** Bytes of live blocks on them. */
  live_bytes: number;
  /** The part of them that live blocks fill, from 0 to 1. */
  fullness: number;
  /** Who keeps most of its resident pages in RAM: `site`, `several` (sites), `free` (no owner), `allocator`, or `absent` if none is resident. */
  owner: string;
  /** How many pages that are. */
  owner_pages: number;
  /** The resident pages that no block keeps: they could be returned to the kernel. */
  free_pages: number;
  /** For `site`: its index in `sites`. */
  site: number | null;
};

/** A heap: a range in which an allocator places blocks. */
export type RssArea = {
  /** What it is: `main` (the heap that grows with `brk`), `arena` or `allocator` (a mapping of another allocator). */
  kind: string;
  /** Its first page, counted through all heaps. */
  first_page: number;
  /** Its pages. */
  pages: number;
  /** Its first address. */
  start: number;
  /** The address after its last byte. */
  end: number;
};

/** A site that owns cells. */
export type RssMapSite = {
  /** The number of its stack in the recording. */
  id: number;
  /** Its name, for people. */
  key: string;
  /** Bytes of pages that could be returned to the kernel if only its blocks were freed, in the whole process. */
  pinned_bytes: number;
  /** Its cells in this picture. */
  cells: number;
};

/** A picture of the heap's address space, or of a part of it. Pages are counted through all heaps. */
export type RssMap = {
  /** The instant. */
  at_ns: number;
  /** The pages of all heaps. */
  pages: number;
  /** The first page in this picture. */
  from: number;
  /** The page after the last one. */
  to: number;
  /** The pages of each cell; the last one may have less. */
  cell_pages: number;
  /** Bytes of a page. */
  page_bytes: number;
  /** The cells, in order. */
  cells: Array<RssCell>;
  /** How many heaps are in this picture, also those that are not in `areas`. */
  area_count: number;
  /** The heaps in this picture, in order. */
  areas: Array<RssArea>;
  /** The sites that own cells, most cells first. Cells have indices of this list. */
  sites: Array<RssMapSite>;
};
