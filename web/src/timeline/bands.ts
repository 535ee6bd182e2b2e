// The bands of the timeline: which rows they are, what they hold at an instant, and their colours.
import { signal } from "@preact/signals";
import type { Band, Bands, Measure } from "../answers";
import { binAt } from "../bins";
import { choice, type Grouping } from "../choice";
import { isKnown } from "../sources";
import { saved } from "../saved";
import { filterOf, filterOfRow, subjectOfSite, type Subject } from "../subject";
import { rankColour, safe } from "../theme";

/** Groupings that a saved page has the bands of: see crates/view/src/save/answers.rs. */
const SAVED: Grouping[] = ["function", "type", "thread", "module"];

/** What the timeline can be stacked by. */
export function offeredStacks(): Grouping[] {
  const first: Grouping[] = ["function", "type", "thread", "module", "heap", "task", "site", "line", "file"];
  return first.filter((by) => (isKnown(by) || by === choice.value.stack) && (!saved || SAVED.includes(by)));
}

/** The instant under the pointer, and the band under it: a number, or null. */
export const pointer = signal<{ t: number; band: number | null } | null>(null);

/** Where the plot of live memory lies, in pixels from its top, and what its upper edge stands for. */
export const plotBox = { top: 0, height: 1, most: 1 };

/** How many bands have a colour of their own. */
export function mostBands(): number {
  return safe.value ? 7 : 8;
}

export function valuesOf(of: { bytes: number[]; blocks: number[] }, measure: Measure): number[] {
  return measure === "bytes" ? of.bytes : of.blocks;
}

/** What the rest holds: of estimates, which are rounded one by one, it may be some bytes below nothing. */
export function restOf(bands: Bands, measure: Measure): number[] {
  return valuesOf(bands.rest, measure).map((value) => Math.max(0, value));
}

/** The values of bins at other edges. */
export function atEdges(edges: number[], t: number[], values: number[]): number[] {
  return edges.map((edge) => values[binAt(t, edge)] ?? 0);
}

/** The band at an instant and a height above the axis; `bands.length` for the rest, null above all. */
export function bandAt(bands: Bands, measure: Measure, t: number, value: number): number | null {
  const bin = binAt(bands.t, t);
  let sum = 0;
  for (const [index, band] of bands.bands.entries()) {
    sum += valuesOf(band, measure)[bin];
    if (value < sum) return index;
  }
  return value < sum + restOf(bands, measure)[bin] ? bands.bands.length : null;
}

/** What a band is about: its menu, and the filter that a click adds. */
export function subjectOfBand(band: Band, by: Grouping): Subject {
  if (by === "site") return subjectOfSite({ ...band, stack: undefined });
  if (by === "function") return { name: band.key, function: band.key };
  return { name: band.key, filter: filterOfRow(band, by) };
}

export function filterOfBand(band: Band, by: Grouping): string | null {
  return filterOf(subjectOfBand(band, by));
}

const COLOURS = 12;
let colouredFor = "";
const given = new Map<string, number>();

/** A number of a colour for each band. A row keeps its colour while the window and the filters change. */
export function coloursOf(bands: Bands): string[] {
  const many = safe.value ? 7 : COLOURS;
  const now = `${choice.value.source} ${bands.by} ${many}`;
  if (now !== colouredFor) given.clear();
  colouredFor = now;
  const keys = bands.bands.map(keyOf);
  const kept = new Set(keys.map((key) => given.get(key)));
  const used = new Set<number>();
  const free = (isTaken: (index: number) => boolean) => Array.from({ length: many }, (_, index) => index).find((index) => !isTaken(index));
  for (const key of keys) {
    let colour = given.get(key);
    // Two rows that were never shown together may have had the same one.
    if (colour === undefined || used.has(colour)) colour = free((index) => used.has(index) || kept.has(index)) ?? free((index) => used.has(index)) ?? used.size % many;
    given.set(key, colour);
    used.add(colour);
  }
  return keys.map((key) => rankColour(given.get(key)!)[0]);
}

export function restColour(): string {
  return rankColour(-1)[0];
}

export function keyOf(band: Band): string {
  return `${band.id ?? ""} ${band.key}`;
}
