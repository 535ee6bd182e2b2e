// The common time axis of several processes: which part of it is shown, which instant is chosen, and the same instant in one process.
import type { Processes, RecordedProcess } from "../answers";
import { choice, choose } from "../choice";
import { openRecording } from "../sources";

/** A total over time, as it is stacked. Times are nanoseconds since the start of the first process; of a fleet, seconds since 1970. */
export type StackedBins = Pick<Processes, "window" | "end_ns" | "t" | "at_ns" | "total_bytes" | "at_most_bytes" | "rest_bytes" | "highest"> & {
  stack: { id: number; bytes: number[]; estimated?: boolean[] }[];
  /** Whether samples made the total of a bin, and the rest of it. */
  total_estimated?: boolean[];
  rest_estimated?: boolean[];
};

/** The chosen instant: where the total is highest, unless another was chosen. */
export function instantOfTree(whole: Pick<StackedBins, "highest"> | null): number {
  return choice.value.tree_at ?? whole?.highest?.at_ns ?? 0;
}

/** How long the shown part of the axis is. */
export function spanOf(answer: StackedBins): number {
  return Math.max(1, answer.window.to_ns - answer.window.from_ns);
}

/** Where an instant lies in the shown part: from 0 to 1. */
export function partOf(answer: StackedBins, at: number): number {
  return (at - answer.window.from_ns) / spanOf(answer);
}

/** Shows a part of the whole axis. Null: all of it. */
export function showPart(answer: StackedBins, from: number, to: number): void {
  const [left, right] = [Math.max(answer.window.from_ns, Math.round(from)), Math.min(answer.end_ns, Math.round(to))];
  if (right - left < 10) return;
  const isAll = left <= answer.window.from_ns && right >= answer.end_ns;
  choose({ tree_from: isAll ? null : left, tree_to: isAll ? null : right });
}

/** Opens a process at the chosen instant, or at its peak if it does not run then. */
export async function openProcess(process: RecordedProcess, at: number): Promise<void> {
  await openRecording(process.id);
  const runs = at >= process.start_ns && at <= process.start_ns + process.duration_ns;
  choose({ source: process.id, view: "overview", at: runs ? at - process.offset_ns : "peak" });
}
