// The files and processes that the server has open, looked at again every few seconds: they grow, they go away, and so does the server.
import { computed, effect, signal } from "@preact/signals";
import type { Source, Sources } from "./answers";
import { ask, Failure, serverGone } from "./api";
import { choice } from "./choice";
import { saved } from "./saved";

export const sources = signal<Source[] | null>(null);
export const version = signal("");
export const sourcesProblem = signal<string | null>(null);

export const source = computed<Source | null>(() => sources.value?.find((each) => each.id === choice.value.source) ?? null);
export const other = computed<Source | null>(() => {
  const id = choice.value.other;
  return id === null ? source.value : sources.value?.find((each) => each.id === id) ?? null;
});

/** Changes when a file did: what it answered before is then of the past. */
export const revision = computed(() => {
  const revisions = [source.value, other.value].map((each) => (each ? `${each.id}:${each.events}:${each.duration_ns}:${each.problem ?? ""}` : ""));
  return revisions.join(",");
});

export function has(what: string): boolean {
  return source.value?.has.includes(what) ?? false;
}

export async function lookAtSources(): Promise<void> {
  try {
    const answer = await ask<Sources>("sources", new URLSearchParams(), AbortSignal.timeout(20_000));
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
  effect(() => {
    const name = source.value?.name;
    document.title = name ? `${name} · Highwater` : "Highwater";
  });
}
