// A saved page has its answers inside: {"schema":3,"choice":"…","answers":{KEY:answer},"instants":{…},"frames":[…],"stacks":[…],"strings":[…]}, in an
// element of its own (docs/api.md, "Saved pages").
import { withStacks, type StackTable } from "./stacks";

interface Saved extends StackTable {
  schema: number;
  version?: string;
  saved?: string;
  choice?: string;
  answers: { [key: string]: unknown };
  /** The source files that are in the page, by the paths that the recording names. */
  texts?: { [file: string]: string };
  /** By file: the instants that A can be at. */
  instants?: { [source: string]: SavedInstant[] };
  short_names?: { [name: string]: string };
  /** The names and files of all flame graphs. */
  strings?: string[];
}

/** An instant of which the page has answers, in time order. `name` is "peak", "end", or that of a mark. */
export interface SavedInstant {
  at_ns: number;
  name: string | null;
  /** The one that the page was saved at: it has everything of this one. */
  is_chosen: boolean;
}

function read(): Saved | null {
  const element = document.getElementById("highwater-data");
  if (!element?.textContent) return null;
  try {
    const saved = JSON.parse(element.textContent) as Saved;
    withStacks(saved.answers, saved);
    for (const answer of Object.values(saved.answers)) withTexts(answer as Columns & { tree?: Columns }, saved.strings ?? []);
    return saved;
  } catch {
    return null;
  }
}

type Columns = { [name: string]: unknown };

/** Gives a flame graph its names, and the columns that were left out because they have nothing but zeros. */
function withTexts(answer: Columns & { tree?: Columns }, strings: string[]): void {
  const tree = answer.tree ?? answer;
  const nodes = tree.node_name;
  if (!Array.isArray(nodes)) return;
  for (const list of ["names", "files"]) tree[list] = (tree[list] as number[]).map((number) => strings[number] ?? "");
  for (const name of Object.keys(tree)) if (name.startsWith("node_") && tree[name] === 0) tree[name] = new Array(nodes.length).fill(0);
}

export const saved: Saved | null = read();

/** The instants that A can be at in this page; none if it is not a saved page, or the file is not the one that it was saved for. */
export function savedInstants(source: number): SavedInstant[] {
  return saved?.instants?.[source] ?? [];
}

/** The saved instant that is meant by another one: that of its name, or the nearest. */
export function nearestInstant(source: number, at: number | string): SavedInstant | null {
  const instants = savedInstants(source);
  const named = instants.find((each) => each.name === at);
  if (named || instants.length === 0) return named ?? null;
  const time = typeof at === "number" ? at : timeOf(source, at);
  if (time === null) return null;
  return instants.reduce((best, each) => (Math.abs(each.at_ns - time) < Math.abs(best.at_ns - time) ? each : best));
}

/** When RSS is highest: the other names are among the instants. */
function timeOf(source: number, name: string): number | null {
  const list = (saved?.answers.sources as { sources?: { id: number; rss_peak?: { at_ns: number } | null }[] } | undefined)?.sources ?? [];
  return name === "rss-peak" ? list.find((each) => each.id === source)?.rss_peak?.at_ns ?? null : null;
}

export function savedChoice(): string {
  return saved?.choice ?? "";
}

/** True if answers about a file are in this page, or come from the server. */
export function isAnswered(source: number): boolean {
  return saved === null || Object.hasOwn(saved.answers, `overview?source=${source}`);
}

const IN_KEYS = ["a", "address", "at", "b", "by", "direction", "file", "metric", "source"];

/** The key of an answer; `at` is the instant if it is not the one that the page was saved at. */
export function keyOf(path: string, parameters: URLSearchParams, at: number | null = null): string {
  const kept = IN_KEYS.flatMap((name) => {
    const value = name === "at" ? at : parameters.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return kept.length ? `${path}?${kept.join("&")}` : path;
}

/** The answer that is in this page, or undefined. */
export function savedAnswer(path: string, parameters: URLSearchParams, at: number | null): unknown {
  const key = keyOf(path, parameters, at);
  const answer = saved && Object.hasOwn(saved.answers, key) ? saved.answers[key] : undefined;
  const file = parameters.get("file");
  return path === "source" && answer && file !== null && hasSavedText(file) ? { ...answer, found: null, text: saved!.texts![file], problem: null, has_editor: false } : answer;
}

/** Whether a source file is in this page. */
export function hasSavedText(file: string): boolean {
  return Object.hasOwn(saved?.texts ?? {}, file);
}
