// The common time axis of several processes: which part of it is shown, which instant is chosen, and the same instant in one process.
import type { Processes, RecordedProcess } from "../answers";
import { choice, choose } from "../choice";
import { openSource } from "../sources";

/** The chosen instant: where the total is highest, unless another was chosen. */
export function instantOfTree(whole: Processes | null): number {
  return choice.value.tree_at ?? whole?.highest?.at_ns ?? 0;
}

/** How long the shown part of the axis is. */
export function spanOf(answer: Processes): number {
  return Math.max(1, answer.window.to_ns - answer.window.from_ns);
}

/** Where an instant lies in the shown part: from 0 to 1. */
export function partOf(answer: Processes, at: number): number {
  return (at - answer.window.from_ns) / spanOf(answer);
}

/** Shows a part of the axis. Null: all of it. */
export function showPart(answer: Processes, from: number, to: number): void {
  const [left, right] = [Math.max(0, Math.round(from)), Math.min(answer.end_ns, Math.round(to))];
  if (right - left < 10) return;
  const isAll = left <= 0 && right >= answer.end_ns;
  choose({ tree_from: isAll ? null : left, tree_to: isAll ? null : right });
}

/** Opens a process at the chosen instant, or at its peak if it does not run then. */
export async function openProcess(process: RecordedProcess, at: number): Promise<void> {
  await openSource(process.id);
  const runs = at >= process.start_ns && at <= process.start_ns + process.duration_ns;
  choose({ source: process.id, view: "overview", at: runs ? at - process.offset_ns : "peak" });
}
