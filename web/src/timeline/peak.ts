// The peak that the timeline marks: that of what it draws, within the window.
import type { Nanos } from "../answers";
import { when } from "../clock";
import { choice } from "../choice";
import * as format from "../format";
import { source } from "../sources";
import { peakOfWindow } from "./range";

export interface ShownPeak {
  at_ns: Nanos;
  bytes: number;
  /** Where A goes when somebody clicks it. */
  goal: Nanos | "peak";
  title: string;
}

/** Null where there is none, or while it is not known. */
export function shownPeak(): ShownPeak | null {
  const { from, to, filters } = choice.value;
  const isWhole = from === null && to === null;
  const all = isWhole ? source.value?.peak ?? null : peakOfWindow.value;
  const where = isWhole ? "recording" : "window";
  const told = (what: string, bytes: number, at: Nanos) => `${what}, ${format.bytes(bytes)} at ${when(at)}: put A here`;
  if (filters.length > 0) {
    const own = peakOfWindow.value?.filtered;
    return own ? { ...own, goal: own.at_ns, title: told(`The most that the filtered blocks held at once in the ${where}`, own.bytes, own.at_ns) } : null;
  }
  return all ? { at_ns: all.at_ns, bytes: all.bytes, goal: "peak", title: told(`The peak of the ${where}`, all.bytes, all.at_ns) } : null;
}
