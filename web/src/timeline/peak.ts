// The peak that the timeline marks: that of what it draws, in the whole recording.
import { signal } from "@preact/signals";
import type { Nanos } from "../answers";
import { choice } from "../choice";
import { when } from "../clock";
import * as estimate from "../estimate";
import { source } from "../sources";

/** The most that the filtered blocks held at once; null while that is not known. */
export const peakOfFiltered = signal<{ at_ns: Nanos; bytes: number } | null>(null);

export interface ShownPeak {
  at_ns: Nanos;
  bytes: number;
  /** Where a click on it puts A. In a window, and under filters, "peak" would mean another instant. */
  goal: Nanos | "peak";
  title: string;
}

/** Null where there is none, or while it is not known. */
export function shownPeak(): ShownPeak | null {
  const { from, to, filters } = choice.value;
  const isFiltered = filters.length > 0;
  const peak = isFiltered ? peakOfFiltered.value : source.value?.peak ?? null;
  if (!peak || (isFiltered && peak.bytes === 0)) return null;
  const what = isFiltered ? "The peak of the filtered blocks" : "The peak of the recording";
  const { at_ns, bytes } = peak;
  return { at_ns, bytes, goal: isFiltered || from !== null || to !== null ? at_ns : "peak", title: `${what}, ${estimate.bytes(bytes)} at ${when(at_ns)}: put A here` };
}
