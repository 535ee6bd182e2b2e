// Gauges: what the program or the system says of its memory now and then, as curves that can be shown or hidden.
import type { Timeline } from "../answers";
import { choice } from "../choice";

export interface Curve {
  name: string;
  title: string;
  hint: string;
  /** Which of the colours of gauges it has, from 0. */
  colour: number;
  shown: boolean;
  /** Its value at each of these instants, where it is known. */
  along: (edges: number[]) => (number | null)[];
}

interface Known {
  title: string;
  hint: string;
  shown: boolean;
}

/** The gauges of a recorder, in the order of their curves. Address space is not shown at first: it would flatten every curve of memory. */
const KNOWN = new Map<string, Known>([
  ["rss", { title: "rss", hint: "The resident set: all memory of the process that is in RAM", shown: true }],
  ["free resident bytes", { title: "free, resident", hint: "Free inside the allocator, and still in RAM", shown: true }],
  ["slack bytes", { title: "slack", hint: "Usable bytes of live blocks beyond those that were requested", shown: true }],
  ["heap", { title: "heap", hint: "Live blocks of malloc and its relatives", shown: false }],
  ["mapped bytes", { title: "mappings", hint: "Live memory that the program mapped by itself", shown: false }],
  ["returned bytes", { title: "returned", hint: "Mapped memory that the program gave back (madvise)", shown: false }],
  ["reserved bytes", { title: "reserved", hint: "Reserved address space: no memory, and in no figure", shown: false }],
  ["mapped file bytes", { title: "files", hint: "Mapped files: in no figure", shown: false }],
]);
/** The number of colours of gauges. */
export const GAUGE_COLOURS = 8;
/** The most other gauges, which programs name as they like. */
const MOST_OTHERS = 3;

/** All curves that can be drawn above live bytes. */
export function curvesOf(timeline: Timeline | null): Curve[] {
  if (!timeline || choice.value.measure !== "bytes") return [];
  const gauges = new Map(timeline.gauges.map((each) => [each.name, each]));
  const reading = (name: string) => (edges: number[]) => along(edges, gauges.get(name)!.t, gauges.get(name)!.value);
  const curves: Curve[] = [];
  const add = (name: string, known: Known, colour: number, values: Curve["along"]) => {
    // A name in the choice means the opposite of what is usual.
    curves.push({ name, title: known.title, hint: known.hint, colour, shown: known.shown !== choice.value.curves.includes(name), along: values });
  };
  for (const [index, [name, known]] of [...KNOWN].entries()) {
    if (gauges.has(name)) add(name, known, index, reading(name));
    else if (name === "heap" && gauges.has("mapped bytes") && choice.value.filters.length === 0) add(name, known, index, (edges) => heapAlong(edges, timeline, reading("mapped bytes")));
  }
  const others = timeline.gauges.filter((each) => each.unit === "bytes" && !KNOWN.has(each.name)).slice(0, MOST_OTHERS);
  for (const [index, each] of others.entries()) add(each.name, { title: each.name, hint: "A gauge of the program", shown: true }, GAUGE_COLOURS - 1 - index, reading(each.name));
  return curves;
}

/** What is live and not mapped. */
function heapAlong(edges: number[], timeline: Timeline, mapped: Curve["along"]): (number | null)[] {
  const live = along(edges, timeline.t.slice(1), timeline.live_bytes.last);
  return mapped(edges).map((bytes, index) => (bytes === null || live[index] === null ? null : Math.max(0, live[index]! - bytes)));
}

/** A gauge's last reading before each edge. */
export function along(edges: number[], t: number[], value: number[]): (number | null)[] {
  let next = 0;
  return edges.map((edge) => {
    while (next < t.length && t[next] <= edge) next += 1;
    return next === 0 ? null : value[next - 1];
  });
}
