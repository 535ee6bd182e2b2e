// Questions about the processes of a fleet that are chosen.
import type { Question } from "../answer";
import { post } from "../api";
import { choice, choose } from "../choice";
import { question } from "../question";
import type { Source } from "../answers";
import type { Running } from "../actions";
import type { FleetTimeline } from "./answers";
import { fleetSource, lookAtSources } from "../sources";

type Extra = { [name: string]: string | number | null | undefined | string[] };

/** A question about the chosen processes, in the shown part of the time. */
export function aboutFleet(path: string, extra: Extra = {}): Question | null {
  const { where, tree_from, tree_to } = choice.value;
  const lake = fleetSource.value;
  return lake && question(path, { source: lake.id, where, since: tree_from, until: tree_to === null ? null : tree_to + 1, ...extra });
}

/** Opens snapshots of some processes as a source: of the chosen ones, or of those with another label, or of one. */
async function openPart(extra: Extra, { signal, progress }: Running): Promise<Source> {
  const asked = aboutFleet("fleet/open", extra)!;
  return (await post<{ source: Source }>(asked.path, asked.parameters, signal, progress)).source;
}

/** Until the page knows what was opened; what was cancelled meanwhile is not shown. */
async function listed({ signal }: Running): Promise<void> {
  await lookAtSources();
  signal.throwIfAborted();
}

/** The first slot of a source. */
function startOf(part: Source): number {
  return Math.round(Date.parse(part.started ?? "") / 1000);
}

/** The chosen slot in a source, if it is one of its instants. */
function instantIn(part: Source, slot: number): number | "peak" {
  const at = (slot - startOf(part)) * 1e9;
  return Number.isFinite(at) && at >= 0 && at <= part.duration_ns ? at : "peak";
}

/** The flame graph of the chosen processes at a slot. The lake itself has it, unless some are chosen, or it has grown since it was opened. */
export async function openFlame(slot: number, { slots }: FleetTimeline, running: Running): Promise<void> {
  const { where, tree_from, tree_to } = choice.value;
  const lake = fleetSource.value!;
  const [first, last] = [startOf(lake), startOf(lake) + Math.round(lake.duration_ns / 1e9)];
  const isWhole = where.length === 0 && tree_from === null && tree_to === null && first === slots[0] && last === slots.at(-1);
  const part = isWhole ? lake : await openPart({}, running);
  if (!isWhole) await listed(running);
  choose({ source: part.id, view: "flame", at: instantIn(part, slot) });
}

/** The snapshots of one process. */
export async function openProcess(process: string, slot: number, running: Running): Promise<void> {
  const part = await openPart({ process }, running);
  await listed(running);
  choose({ source: part.id, view: "overview", at: instantIn(part, slot) });
}

/** Two parts of the fleet, compared: those with one value of a label, and those with another. */
export async function openComparison(label: string, before: string, after: string, running: Running): Promise<void> {
  const where = choice.value.where.filter((each) => !each.startsWith(`${label}=`));
  const a = await openPart({ where: [...where, `${label}=${before}`] }, running);
  const b = await openPart({ where: [...where, `${label}=${after}`] }, running);
  await listed(running);
  choose({ source: a.id, other: b.id, at: "peak", b: "peak", view: "compare", compared: "flame" });
}
