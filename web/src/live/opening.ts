// Looks and snapshots that are opened as files are, in all views, or compared with one another.
import type { Source } from "../answers";
import { post } from "../api";
import { choose } from "../choice";
import { question } from "../question";
import { lookAtSources } from "../sources";

/** What can be opened: a look at a process, a snapshot that a program took of itself, or a new snapshot. */
export type Opened =
  | { kind: "look"; process: string; number: number }
  | { kind: "own"; id: number }
  | { kind: "new"; process: string }
  | { kind: "source"; id: number };

async function sourceOf(opened: Opened, signal: AbortSignal): Promise<number> {
  if (opened.kind === "source") return opened.id;
  const [path, parameters] = opened.kind === "look" ? ["live/open", { process: opened.process, look: opened.number }]
    : opened.kind === "own" ? ["live/own/open", { id: opened.id }] : ["live/snapshot", { process: opened.process }];
  const { source } = await post<{ source: Source }>(path as string, question(path as string, parameters as { [name: string]: string | number }).parameters, signal);
  return source.id;
}

export async function open(one: Opened, signal: AbortSignal): Promise<void> {
  const source = await sourceOf(one, signal);
  await lookAtSources();
  if (!signal.aborted) choose({ source, view: "overview" });
}

/** Compares two, the earlier one first. */
export async function compare(earlier: Opened, later: Opened, signal: AbortSignal): Promise<void> {
  const source = await sourceOf(earlier, signal);
  const other = await sourceOf(later, signal);
  await lookAtSources();
  if (!signal.aborted) choose({ source, other, view: "compare" });
}
