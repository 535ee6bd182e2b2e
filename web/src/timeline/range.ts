// What of the time is visible (`left` to `right`) and what is counted (`from` to `to`) are two choices. Here is the first, and the instants of handles.
import { signal } from "@preact/signals";
import type { Nanos, Peak, Source } from "../answers";
import { choice, choose, type Instant, type NamedInstant } from "../choice";
import { source } from "../sources";

const LEAST_SPAN = 20;

export interface Range {
  left: Nanos;
  right: Nanos;
}

/** What the timeline shows: bounded by the recording, never narrower than a few nanoseconds. */
export function visibleRange(): Range {
  const { left: begin, right: end } = wholeRange();
  const left = Math.max(begin, Math.min(choice.value.left ?? begin, end));
  const right = Math.min(choice.value.right ?? end, end);
  return right - left >= Math.min(LEAST_SPAN, end - begin) ? { left, right } : { left: begin, right: end };
}

/** From the first instant of the recording to its last. */
export function wholeRange(): Range {
  const file = source.value;
  return { left: Math.min(file?.begins_ns ?? 0, file?.duration_ns ?? 0), right: file?.duration_ns ?? 0 };
}

/** Where the peak of the chosen window is; null while that is asked. */
export const peakOfWindow = signal<Peak | null>(null);

/** The instant that "peak" means: that of the window, which is the whole recording where none is chosen; null while it is not known. */
export function peakInstant(): Nanos | null {
  const { from, to } = choice.value;
  if (from === null && to === null) return source.value?.peak?.at_ns ?? null;
  return peakOfWindow.value?.at_ns ?? null;
}

/** The instant of a handle, which may stand at a peak by name; null while that is not known. */
export function instantOf(at: Instant | null, otherwise: Nanos): Nanos | null {
  if (at === "end") return otherwise;
  if (at === "rss-peak") return source.value?.rss_peak?.at_ns ?? null;
  return at === "peak" ? peakInstant() : at ?? otherwise;
}

/** What an instant is called that has a name. */
export function titleOfInstant(at: NamedInstant): string {
  return { peak: "the peak", "rss-peak": "the RSS peak", end: "the end" }[at];
}

/** The instant of B, which may be in another file: the peak is then that of the other file. */
export function instantOfB(b: Instant | null, file: Source | null, otherwise: Nanos): Nanos | null {
  const isOther = file !== null && file.id !== source.value?.id;
  if (isOther && b === "peak") return file.peak?.at_ns ?? null;
  if (isOther && b === "end") return file.duration_ns;
  if (isOther && b === "rss-peak") return file.rss_peak?.at_ns ?? null;
  return instantOf(b, otherwise);
}

export function showRange(left: number, right: number, step: boolean): void {
  const { left: begin, right: end } = wholeRange();
  const span = Math.min(end - begin, Math.max(Math.min(LEAST_SPAN, end - begin), right - left));
  const from = Math.round(Math.min(Math.max(begin, left), end - span));
  const to = Math.round(from + span);
  choose(from <= begin && to >= end ? { left: null, right: null } : { left: from, right: to }, step);
}

export function zoom(factor: number, around: number | null, step: boolean): void {
  const { left, right } = visibleRange();
  const centre = around ?? (left + right) / 2;
  showRange(centre - (centre - left) * factor, centre + (right - centre) * factor, step);
}
