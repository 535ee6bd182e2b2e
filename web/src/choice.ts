// Everything that the user chose, and nothing else. It lives in the fragment of the page's address, so that the back button, bookmarks and
// links work; the rest of the page is a function of it and of what the server answers.
import { computed, signal } from "@preact/signals";
import type { Measure, Metric, Nanos } from "./answers";
import { nearestInstant, saved, savedChoice, savedInstants } from "./saved";
import { VIEWS, type View } from "./views/keys";

export const METRICS: Metric[] = ["live", "peak", "own-peak", "allocated", "allocations", "freed", "leaked", "temporary"];
export const GROUPINGS = ["site", "function", "line", "file", "module", "thread", "type", "heap", "task"] as const;
export type Grouping = (typeof GROUPINGS)[number];
/** The parts of the view of resident memory. */
export const RSS_PARTS = ["rows", "sites", "types", "files", "map"] as const;
export type RssPart = (typeof RSS_PARTS)[number];
/** What is known of a process of a fleet, and the parts of the view of a fleet. */
export const LABELS = ["service", "version", "region", "host"] as const;
export type Label = (typeof LABELS)[number];
export const FLEET_PARTS = ["sites", "leaks", "growth", "processes"] as const;
export type FleetPart = (typeof FLEET_PARTS)[number];
/** What a flame graph of a live process shows: what is live, or how that grew since it was opened, or lately. */
export const GROWN = ["live", "opened", "lately"] as const;
/** The seconds between two looks at a live process, the looks that "lately" goes back, and the seconds of its timeline. */
export const EVERY = [0, 1, 5, 30, 300];
export const LATELY = [1, 5, 10];
export const SPANS = [0, 600, 7200];
/** An instant, or the name of one: that of most live memory, that of most resident memory, the end of the window. */
export type NamedInstant = "peak" | "rss-peak" | "end";
export type Instant = Nanos | NamedInstant;

export interface Choice {
  view: View;
  source: number;
  /** The window that everything below the timeline counts. Null: from the start, to the end. */
  from: Nanos | null;
  to: Nanos | null;
  /** What the timeline shows. Null: all of it. */
  left: Nanos | null;
  right: Nanos | null;
  /** Handle A: the instant at which things are live. */
  at: Instant;
  /** Handle B, and the file it is in. Null: what Compare begins with. */
  b: Instant | null;
  other: number | null;
  metric: Metric;
  measure: Measure;
  filters: string[];
  by: Grouping;
  sort: string;
  order: "asc" | "desc";
  search: string;
  direction: "down" | "up";
  upright: boolean;
  focus: string;
  hide: string[];
  /** Functions that only pass memory on: rows are named after their callers. */
  allocators: string[];
  /** Names are shown as they are: whole, and each row named after the innermost function. */
  raw_names: boolean;
  merge: boolean;
  /** Whether frames of language libraries and of what runs before `main` are shown. */
  library: boolean;
  /** Whether each line of a function is a node of the flame graph. */
  lines: boolean;
  /** The node of the flame graph that fills it: which child of the root, which child of that, … Of the heap's pages, those that fill the picture: `0-512`. */
  node: string;
  /** How Compare shows what changed. */
  compared: "table" | "flame";
  part: RssPart;
  /** Which blocks are listed: those that are live at A, or all that ever were. */
  listed: "live" | "ever";
  /** The live process that is watched, by its key; empty for the list of all. */
  process: string;
  /** The seconds between two looks at it; 0 for none. */
  every: number;
  /** Growth lately is since this many looks ago. */
  lately: number;
  /** What the flame graph of a live process shows. */
  grown: (typeof GROWN)[number];
  /** The seconds that its timeline shows; 0 for all. */
  span: number;
  /** What the timeline is stacked by; empty for not at all. */
  stack: Grouping | "";
  /** Rows in lanes below the timeline instead of bands in it. */
  lanes: boolean;
  /** Of several processes on their common time axis: the part of it that is shown, and the instant. Null: all of it; where the total is highest. */
  tree_from: Nanos | null;
  tree_to: Nanos | null;
  tree_at: Nanos | null;
  /** Of a fleet: which processes count (`service=checkout`), what the view lists, what its total is stacked by, and the two values of a label whose processes are compared. */
  where: string[];
  fleet: FleetPart;
  label: Label;
  between: Label;
  before: string;
  after: string;
  /** Gauges that are shown although they usually are not, or the other way round. */
  curves: string[];
  /** A row, an object, a block that is looked at closely. */
  pick: string;
  /** The source that is shown beside the view: "path:line". */
  source_file: string;
  /** Whether its lines have only what they allocate themselves. */
  source_self: boolean;
  theme: "" | "light" | "dark";
  palette: "" | "safe";
}

export const DEFAULT: Choice = {
  view: "overview", source: 0, from: null, to: null, left: null, right: null, at: "peak", b: null, other: null, metric: "live", measure: "bytes", filters: [],
  by: "site", sort: "", order: "desc", search: "", direction: "down", upright: false, focus: "", hide: [], allocators: [], raw_names: false, merge: false, library: false, lines: false, node: "", compared: "table", part: "rows", tree_from: null, tree_to: null, tree_at: null, where: [], fleet: "sites", label: "service", between: "version", before: "", after: "", stack: "", lanes: false, process: "", every: 5, lately: 1, grown: "opened", span: 0, listed: "live", curves: [], pick: "", source_file: "", source_self: false,
  theme: "", palette: "",
};

const LISTS: { [key in keyof Choice]?: string } = { filters: "filter", hide: "hide", allocators: "allocator", curves: "curve", where: "where" };

/** The columns that something can be sorted by, whatever the view; each view has some of them. */
const SORTS = [
  "a_mean", "address", "after", "allocated", "average", "b_mean", "before", "blocks", "bytes", "bytes_per_block", "bytes_per_hour", "change", "dropped", "fastest", "function", "grew", "growth", "held", "host", "hosts", "hosts_grew", "hours_to_limit", "lately", "lifetime", "live", "live_bytes", "made", "more", "name", "new_mean", "objects", "old_mean", "peak", "pid", "pinned", "private", "processes", "r2", "region", "resident", "rss", "rss_bytes", "score", "self", "service", "share", "shared", "size", "slack", "slots", "slowest", "start", "steadiness", "total", "value", "version", "what",
];

const NUMBER = /^\d{1,19}$/;
/** A number may have a unit: 4KiB, 1.5ms. */
const UNIT_NUMBER = "(?:\\d[\\d.]{0,19}[A-Za-zµ]{0,3})?";
const RANGE = new RegExp(`^${UNIT_NUMBER}\\.\\.${UNIT_NUMBER}$`);
/** The name of a filter; anything else is a regular expression. */
const NAMED = /^!?([a-z]+):(?!:)([^]*)$/;

/** Whether a text is a filter, as far as that is seen without the server: docs/api.md. */
export function isFilter(text: string): boolean {
  const match = NAMED.exec(text);
  if (!match) return text.length > (text.startsWith("!") ? 1 : 0);
  const [, kind, value] = match;
  switch (kind) {
    case "size": case "lifetime": case "allocated": return RANGE.test(value);
    case "freed": return RANGE.test(value) || value === "ever" || value === "never";
    case "thread": case "site": return NUMBER.test(value);
    case "live": return /^\d[\d.]{0,19}[A-Za-zµ]{0,3}$/.test(value);
    case "inside": case "outside": return /^(equal|contains|regex):/.test(value);
    case "type": case "heap": case "task": case "module": return true;
    default: return false;
  }
}

/** What an address says; parts of it that make no sense are left out, and noted in `wrong`. */
export function parseChoice(fragment: string, wrong: string[] = []): Choice {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const choice: Choice = structuredClone(DEFAULT);
  const oneOf = <T extends string>(name: string, allowed: readonly T[], otherwise: T): T => {
    const value = given.get(name) as T | null;
    if (value === null || allowed.includes(value)) return value ?? otherwise;
    note(name, value);
    return otherwise;
  };
  const note = (name: string, value: string) => wrong.push(`${name}=${value}`);
  const natural = (name: string): number | null => {
    const value = given.get(name);
    if (value === null || (/^\d{1,16}$/.test(value) && Number.isSafeInteger(Number(value)))) return value === null ? null : Number(value);
    note(name, value);
    return null;
  };
  choice.view = oneOf("view", VIEWS, DEFAULT.view);
  choice.source = natural("source") ?? 0;
  choice.from = natural("from");
  choice.to = natural("to");
  if (choice.from !== null && choice.to !== null && choice.from > choice.to) {
    note("from", `${choice.from}&to=${choice.to}`);
    choice.from = choice.to = null;
  }
  choice.left = natural("left");
  choice.right = natural("right");
  choice.at = namedInstant(given.get("at")) ?? natural("at") ?? DEFAULT.at;
  choice.b = namedInstant(given.get("b")) ?? natural("b");
  choice.other = natural("other");
  choice.metric = oneOf("metric", METRICS, DEFAULT.metric);
  choice.measure = oneOf("measure", ["bytes", "blocks"], DEFAULT.measure);
  // The old name of a source line.
  if (given.get("by") === "place") given.set("by", "line");
  choice.by = oneOf("by", GROUPINGS, DEFAULT.by);
  choice.sort = given.get("sort") ? oneOf("sort", SORTS, "") : "";
  choice.order = oneOf("order", ["asc", "desc"], DEFAULT.order);
  choice.search = given.get("search") ?? "";
  choice.direction = oneOf("direction", ["down", "up"], DEFAULT.direction);
  choice.upright = given.get("upright") === "1";
  choice.focus = given.get("focus") ?? "";
  choice.merge = given.get("merge") === "1";
  choice.library = given.get("library") === "1";
  choice.lines = given.get("lines") === "1";
  choice.node = given.get("node") ?? "";
  choice.compared = oneOf("compared", ["table", "flame"], DEFAULT.compared);
  choice.part = oneOf("part", RSS_PARTS, DEFAULT.part);
  choice.listed = oneOf("listed", ["live", "ever"], DEFAULT.listed);
  choice.stack = given.get("stack") ? oneOf("stack", GROUPINGS, "" as never) : "";
  choice.lanes = given.get("lanes") === "1";
  choice.tree_from = natural("tree_from");
  choice.tree_to = natural("tree_to");
  if (choice.tree_from !== null && choice.tree_to !== null && choice.tree_from >= choice.tree_to) {
    note("tree_from", `${choice.tree_from}&tree_to=${choice.tree_to}`);
    choice.tree_from = choice.tree_to = null;
  }
  choice.tree_at = natural("tree_at");
  choice.where = given.getAll("where").filter((text) => /^[a-z]+=/.test(text) || (note("where", text), false));
  choice.fleet = oneOf("fleet", FLEET_PARTS, DEFAULT.fleet);
  choice.label = oneOf("label", LABELS, DEFAULT.label);
  choice.between = oneOf("between", LABELS, DEFAULT.between);
  choice.before = given.get("before") ?? "";
  choice.after = given.get("after") ?? "";
  choice.curves = given.getAll("curve");
  const among = (name: "every" | "lately" | "span", allowed: number[]) => {
    const value = natural(name);
    if (value !== null && !allowed.includes(value)) note(name, String(value));
    return value !== null && allowed.includes(value) ? value : DEFAULT[name];
  };
  choice.every = among("every", EVERY);
  choice.lately = among("lately", LATELY);
  choice.span = among("span", SPANS);
  choice.grown = oneOf("grown", GROWN, DEFAULT.grown);
  const process = given.get("process") ?? "";
  if (process === "" || /^\d{1,10}-\d{1,20}$/.test(process)) choice.process = process;
  else note("process", process);
  choice.pick = given.get("pick") ?? "";
  choice.source_file = given.get("source_file") ?? "";
  choice.source_self = given.get("source_self") === "1";
  choice.theme = given.get("dark") === "1" ? "dark" : oneOf("theme", ["light", "dark"], "" as never);
  choice.palette = oneOf("palette", ["safe"], "" as never);
  choice.filters = given.getAll("filter").filter((filter) => isFilter(filter) || (note("filter", filter), false));
  choice.hide = given.getAll("hide");
  choice.allocators = given.getAll("allocator");
  choice.raw_names = given.get("raw_names") === "1";
  return choice;
}

function namedInstant(text: string | null): NamedInstant | null {
  return text === "peak" || text === "rss-peak" || text === "end" ? text : null;
}

/** Whether the address names the view in any case: with several processes, the page begins with another one than usual. */
export const namesView = signal(false);

export function fragmentOf(choice: Choice): string {
  const written = new URLSearchParams();
  for (const name of Object.keys(DEFAULT) as (keyof Choice)[]) {
    const value = choice[name];
    const key = LISTS[name];
    if (key) for (const each of value as string[]) written.append(key, each);
    else if (value !== DEFAULT[name] || (name === "view" && namesView.value)) written.set(name, value === true ? "1" : String(value));
  }
  return written.toString();
}

/** What the address says; of a saved page that was opened without saying anything, what was saved. */
function chosenInAddress(): Choice {
  const wrong: string[] = [];
  const chosen = parseChoice(location.hash || savedChoice(), wrong);
  ignored.value = wrong;
  if (saved && location.hash) chosen.at = resting(chosen.source, chosen.at);
  return chosen;
}

/** Parts of the address that make no sense. */
export const ignored = signal<string[]>([]);
export const choice = signal<Choice>(chosenInAddress());

/** What a saved page has is of one window, one instant of it, and certain filters; of another file, of all of it. */
const OF_THE_CHOICE: { [path: string]: (keyof Choice)[] } = { sources: [], processes: ["tree_from", "tree_to"], "processes/held": ["tree_at"], "fleet/timeline": ["where", "tree_from", "tree_to"], "fleet/sites": ["where", "tree_at"], "fleet/leaks": ["where", "tree_from", "tree_to"], "fleet/processes": ["where", "tree_from", "tree_to"], types: [], timeline: ["filters"], bands: ["filters", "allocators", "raw_names"], rss: ["at", "allocators", "raw_names"], "rss/map": ["at", "allocators", "raw_names"], peak: ["from", "to", "filters"], headline: ["from", "to", "filters", "allocators", "raw_names"], compare: ["from", "to", "filters", "allocators", "raw_names"] };

/** Where a saved page has the answer to a question about what is chosen now: `at` is the instant, if it is not the one that it was saved at. */
export function placeInSaved(path: string, metric: string | null = null): { at: Nanos | null } | null {
  const names = path.startsWith("image/") ? [] : OF_THE_CHOICE[path] ?? ["from", "to", "at", "filters", "allocators", "raw_names"];
  const then = parseChoice(savedChoice());
  const expected = then.source === choice.value.source ? then : DEFAULT;
  const others = names.filter((name) => String(choice.value[name]) !== String(expected[name]));
  if (others.some((name) => name !== "at")) return null;
  const { at, source } = choice.value;
  if (others.length === 0 || !dependsOnInstant(path, metric, expected.at)) return { at: null };
  return typeof at === "number" && savedInstants(source).some((each) => each.at_ns === at) ? { at } : null;
}

/** Whether an answer is another one if A moves. Most metrics are those of the window; growth is judged at its end, or before the tear-down. */
function dependsOnInstant(path: string, metric: string | null, then: Instant): boolean {
  if (path === "growth") return (choice.value.at === "end") !== (then === "end");
  return metric === null || metric === "live" || metric === "own-peak";
}

/** The instant at which A comes to rest: in a saved page, one of those that it has. */
function resting(source: number, at: Instant): Instant {
  if (saved === null || at === DEFAULT.at && parseChoice(savedChoice()).at === DEFAULT.at) return at;
  const nearest = nearestInstant(source, at);
  if (nearest === null) return at;
  return nearest.is_chosen ? parseChoice(savedChoice()).at : nearest.at_ns;
}

/** Things that follow from others: another file has other times, another view has other rows. */
const FORGOTTEN: { [key in keyof Choice]?: (keyof Choice)[] } = {
  source: ["from", "to", "left", "right", "at", "b", "filters", "focus", "hide", "node", "pick", "search", "source_file"],
  view: ["sort", "order", "pick", "search", "node"],
  part: ["sort", "order", "pick", "search", "node"],
  fleet: ["sort", "order", "pick", "search"],
  where: ["pick"],
  between: ["before", "after", "pick"],
  by: ["sort", "order", "pick"],
  metric: ["node", "pick"],
  direction: ["node"],
  focus: ["node"],
  library: ["node"],
  lines: ["node"],
  allocators: ["node", "pick"],
  raw_names: ["node", "pick"],
  process: ["sort", "order", "pick", "search", "node"],
};

/** A choice that the back button undoes; one of a drag (`step` false) replaces the one before. */
export function choose(changes: Partial<Choice>, step = true): void {
  const next: Choice = { ...choice.value };
  for (const name of Object.keys(changes) as (keyof Choice)[]) {
    if (changes[name] === next[name]) continue;
    for (const forgotten of FORGOTTEN[name] ?? []) (next as unknown as { [key: string]: unknown })[forgotten] = DEFAULT[forgotten];
  }
  Object.assign(next, changes);
  if (changes.at !== undefined) next.at = resting(next.source, changes.at);
  const fragment = `#${fragmentOf(next)}`;
  if (fragment === `#${fragmentOf(choice.value)}`) return;
  choice.value = next;
  ignored.value = [];
  remember(fragment, step);
}

// Browsers allow some hundred changes of the address in half a minute; a drag makes more. It is written down when it rests.
let waiting: number | undefined;
function remember(fragment: string, step: boolean): void {
  clearTimeout(waiting);
  waiting = undefined;
  if (step) history.pushState(null, "", fragment);
  else waiting = window.setTimeout(() => history.replaceState(null, "", fragment), 120);
}

export function followTheAddress(): void {
  const read = () => {
    clearTimeout(waiting);
    choice.value = chosenInAddress();
  };
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
}

export const filters = computed(() => choice.value.filters);

/** The chosen filters, and one more. */
export function filtersAnd(filter: string): string[] {
  const { filters } = choice.value;
  return filters.includes(filter) ? filters : [...filters, filter];
}

export function addFilter(filter: string): void {
  choose({ filters: filtersAnd(filter) });
}

/** Replaces the filters of one kind: a second drag over a histogram means another range, not both. */
export function setFilter(kind: string, filter: string | null): void {
  const others = choice.value.filters.filter((each) => !each.startsWith(`${kind}:`));
  choose({ filters: filter === null ? others : [...others, filter] });
}

/** Names rows after the callers of a function. */
export function treatAsAllocator(name: string): void {
  if (!choice.value.allocators.includes(name)) choose({ allocators: [...choice.value.allocators, name] });
}

/** Takes a function out of the flame graph: its part goes to its callers. */
export function hideFunction(name: string): void {
  const { hide } = choice.value;
  choose({ view: "flame", hide: hide.includes(name) ? hide : [...hide, name] });
}

export function removeFilter(filter: string): void {
  choose({ filters: choice.value.filters.filter((each) => each !== filter) });
}
