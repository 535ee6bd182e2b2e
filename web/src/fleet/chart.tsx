// The total of a fleet over time, stacked by a label.
import { useMemo } from "preact/hooks";
import { choice } from "../choice";
import * as format from "../format";
import type { StackedBins } from "../processes/axis";
import { StackedTotals } from "../processes/stack";
import type { FleetTimeline } from "./answers";
import { chooseValue, shownValue } from "./where";

/** The slot that the tables are about: the fullest, unless another was chosen. */
export function chosenSlot(answer: FleetTimeline): number {
  const { tree_at } = choice.value;
  if (tree_at === null) return answer.peak_slot;
  // Only slots that are drawn: what the tables say is what the picture shows.
  return answer.slots.reduce((best, slot) => (Math.abs(slot - tree_at) < Math.abs(best - tree_at) ? slot : best), answer.peak_slot);
}

export function FleetChart({ whole, shown }: { whole: FleetTimeline; shown: FleetTimeline }) {
  const bins = useMemo(() => [binsOf(whole), binsOf(shown)] as const, [whole, shown]);
  const slot = chosenSlot(shown);
  const at = shown.slots.indexOf(slot);
  const parts = {
    label: "Live memory of the fleet", fileName: "fleet", slider: "Instant of the fleet", of: "all processes", count: shown.values, openTitle: `Only this ${shown.by}`,
    names: new Map(shown.bands.map(({ value }, id) => [id, { name: shownValue(value), detail: "" }])),
    // Without the year; within one day, without the date.
    instant: (time: number) => format.utc(time, 60).slice(whole.last_slot - whole.first_slot < 86_400 ? 11 : 5),
    open: (id: number) => chooseValue(shown.by, shown.bands[id].value),
  };
  return <StackedTotals whole={bins[0]} shown={bins[1]} chosen={shown.total_bytes[at] ?? 0} isEstimate={shown.total_estimated[at] ?? false} parts={parts} />;
}

function binsOf(answer: FleetTimeline): StackedBins {
  const { slots, total_bytes, total_estimated, bands, rest_bytes, rest_estimated, first_slot, last_slot, peak_slot } = answer;
  const highest = total_bytes[slots.indexOf(peak_slot)] ?? 0;
  return {
    window: { from_ns: first_slot, to_ns: Math.max(last_slot, first_slot + 1) }, end_ns: Math.max(last_slot, first_slot + 1), t: slots, at_ns: slots, total_bytes, at_most_bytes: total_bytes,
    stack: bands.map(({ bytes, estimated }, id) => ({ id, bytes, estimated })), rest_bytes, total_estimated, rest_estimated, highest: slots.length ? { at_ns: peak_slot, bytes: highest, at_most_bytes: highest } : null,
  };
}
