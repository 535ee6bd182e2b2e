// The files and processes that the server has open, looked at again every few seconds: they grow, they go away, and so does the server.
import { computed, effect, signal } from "@preact/signals";
import type { Metric, Source, Sources } from "./answers";
import { ask, Failure, serverGone } from "./api";
import { choice, choose, fragmentOf, GROUPINGS, METRICS, namesView, type Grouping } from "./choice";
import * as format from "./format";
import { clean } from "./names";
import { isAnswered, saved } from "./saved";

export const sources = signal<Source[] | null>(null);
/** Whether the files are recordings of processes that belong together. */
export const isTree = signal(false);
export const version = signal("");
export const sourcesProblem = signal<string | null>(null);

export const source = computed<Source | null>(() => sources.value?.find((each) => each.id === choice.value.source) ?? null);

/** The lake that is shown, or that the chosen part of a fleet was opened from. */
export const fleetSource = computed<Source | null>(() => {
  const isLake = (each: Source | null) => each?.has.includes("fleet") ?? false;
  return isLake(source.value) ? source.value : sources.value?.find(isLake) ?? null;
});

/** What a table can be grouped by: tasks only where the program names some, types only where some are known. The chosen grouping stays in the list. */
export function offeredGroupings(): readonly Grouping[] {
  return GROUPINGS.filter((by) => choice.value.by === by || isKnown(by));
}

/** Whether a grouping tells rows of the chosen file apart. */
export function isKnown(by: Grouping): boolean {
  if (by === "task") return (source.value?.tasks?.length ?? 0) > 0;
  return by !== "type" || has("types");
}

export const other = computed<Source | null>(() => {
  const { other: id, b } = choice.value;
  if (id !== null) return sources.value?.find((each) => each.id === id) ?? null;
  return (b === null ? secondFile() : null) ?? source.value;
});

/** Opened with two files, those two are compared: another file of the same kind as the chosen one. Parts of a fleet were opened one by one, each for itself. */
function secondFile(): Source | null {
  const file = source.value;
  const isTimed = (each: Source) => each.has.includes("timeline");
  const isPart = (each: Source) => each.kind === "fleet" && !each.path;
  return sources.value?.find((each) => file !== null && !isPart(file) && !isPart(each) && each.id !== file.id && !each.problem && isAnswered(each.id) && isTimed(each) === isTimed(file)) ?? null;
}

/** Changes when a file did, or when all of it was read: what it answered before is then of the past. */
export const revision = computed(() => {
  const revisions = [source.value, other.value].map((each) => (each ? `${each.id}:${each.events}:${each.duration_ns}:${isRead(each)}:${each.problem ?? ""}` : ""));
  return revisions.join(",");
});

function isRead(file: Source): boolean {
  return (file.reading ?? null) === null;
}

/** What a file is called. Snapshots, which are no files, are named by their program, or numbered; and have a time. */
export function titleOf(file: Source): string {
  if (file.path) return clean(file.path);
  if (file.kind === "fleet") return clean(file.snapshot_name ?? file.name);
  const siblings = (sources.value ?? []).filter((each) => !each.path && each.name === file.name && !each.snapshot_name);
  const which = file.snapshot_name ? `“${clean(file.snapshot_name)}”` : `snapshot ${siblings.findIndex((each) => each.id === file.id) + 1}`;
  const taken = takenAt(file);
  return `${clean(file.name)}, ${which}${taken === null ? "" : `, ${format.timeOfDay(taken)}`}`;
}

/** When a snapshot of a live process was taken, in milliseconds since 1970. */
export function takenAt(file: Source): number | null {
  const began = Date.parse(file.started ?? "");
  return Number.isNaN(began) ? null : began + file.duration_ns / 1e6;
}

export function has(what: string): boolean {
  return source.value?.has.includes(what) ?? false;
}

/** True if the chosen file logs objects by type, and whether they were dropped. */
export function isObjectLog(): boolean {
  return has("trust") || source.value?.kind === "objects";
}

/** True if the blocks of the chosen file have types. Object logs and images have objects instead: their types are always known, and have views of their own. */
export function hasBlockTypes(): boolean {
  return has("types") && !isObjectLog() && !has("image");
}

/** The metrics that the chosen file has. */
export const metrics = computed<Metric[]>(() => source.value?.metrics ?? METRICS);

/** The metric that is shown: the chosen one, if the file has it. */
export const metric = computed<Metric>(() => (metrics.value.includes(choice.value.metric) ? choice.value.metric : "live"));

/** Files that had more events when they were last looked at than before, or a few times ago. */
export const growing = signal<ReadonlySet<number>>(new Set());
const REMEMBERED_LOOKS = 3;
/** By file: how many more times it is called growing. */
const grew = new Map<number, number>();

function noteGrowth(before: Source[], now: Source[]): void {
  for (const { id, events } of now) {
    const earlier = before.find((each) => each.id === id);
    if (earlier && events > earlier.events) grew.set(id, REMEMBERED_LOOKS);
    else if (grew.has(id)) grew.set(id, grew.get(id)! - 1);
    if (grew.get(id) === 0) grew.delete(id);
  }
  if (grew.size > 0 || growing.value.size > 0) growing.value = new Set(grew.keys());
}

/** Of thousands of processes few are open; the one that is looked at is opened. */
function chosenIfClosed(): URLSearchParams {
  const { source: id } = choice.value;
  return new URLSearchParams(sources.value?.some((each) => each.id === id) ? {} : { open: String(id) });
}

/** Opened with several processes or a fleet, and nothing chosen, the page shows them all. */
function beginWith(view: "processes" | "fleet"): void {
  const isChosen = fragmentOf(choice.value) !== "";
  namesView.value = true;
  if (!isChosen) choose({ view }, false);
}

/** Opens one of several processes, if it is not open yet. */
export async function openRecording(id: number): Promise<void> {
  if (saved || sources.value?.some((each) => each.id === id)) return;
  const answer = await ask<Sources>("sources", new URLSearchParams({ open: String(id) }), AbortSignal.timeout(20_000));
  sources.value = answer.sources;
}

export async function lookAtSources(): Promise<void> {
  try {
    const answer = await ask<Sources>("sources", chosenIfClosed(), AbortSignal.timeout(20_000));
    noteGrowth(sources.value ?? [], answer.sources);
    if (sources.value === null) {
      isTree.value = answer.processes?.is_tree ?? false;
      if (isTree.value) beginWith("processes");
      else if (answer.sources[0]?.has.includes("fleet")) beginWith("fleet");
    }
    const text = JSON.stringify(answer.sources);
    if (JSON.stringify(sources.value) !== text) sources.value = answer.sources;
    version.value = answer.version;
    sourcesProblem.value = null;
  } catch (error) {
    if (!(error instanceof Failure && error.gone)) sourcesProblem.value = error instanceof Error ? error.message : String(error);
  }
}

const EVERY = 3000;
const WHEN_GONE = 1000;

export function watchSources(): void {
  const again = async () => {
    if (!document.hidden || sources.value === null) await lookAtSources();
    if (!saved) window.setTimeout(again, serverGone.value ? WHEN_GONE : EVERY);
  };
  void again();
  // The back button may lead to a process that was closed meanwhile.
  let asked = -1;
  effect(() => {
    const isClosed = isTree.value && !saved && sources.value !== null && source.value === null;
    if (!isClosed) asked = -1;
    else if (asked !== choice.value.source) {
      asked = choice.value.source;
      void lookAtSources();
    }
  });
  effect(() => {
    const name = source.value?.name;
    document.title = name ? `${name} · Highwater` : "Highwater";
  });
}
