// A saved page has its answers inside: {"schema":2,"choice":"…","answers":{KEY:answer},"frames":[…],"stacks":[…]}, in an element of its own
// (docs/api.md, "Saved pages").
import { withStacks, type StackTable } from "./stacks";

interface Saved extends StackTable {
  schema: number;
  version?: string;
  saved?: string;
  choice?: string;
  answers: { [key: string]: unknown };
  /** The source files that are in the page, by the paths that the recording names. */
  texts?: { [file: string]: string };
}

function read(): Saved | null {
  const element = document.getElementById("highwater-data");
  if (!element?.textContent) return null;
  try {
    const saved = JSON.parse(element.textContent) as Saved;
    withStacks(saved.answers, saved);
    return saved;
  } catch {
    return null;
  }
}

export const saved: Saved | null = read();

export function savedChoice(): string {
  return saved?.choice ?? "";
}

/** True if answers about a file are in this page, or come from the server. */
export function isAnswered(source: number): boolean {
  return saved === null || Object.hasOwn(saved.answers, `overview?source=${source}`);
}

const IN_KEYS = ["a", "address", "b", "by", "direction", "file", "metric", "source"];

export function keyOf(path: string, parameters: URLSearchParams): string {
  const kept = IN_KEYS.flatMap((name) => {
    const value = parameters.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return kept.length ? `${path}?${kept.join("&")}` : path;
}

/** The answer that is in this page, or undefined. */
export function savedAnswer(path: string, parameters: URLSearchParams): unknown {
  const key = keyOf(path, parameters);
  const answer = saved && Object.hasOwn(saved.answers, key) ? saved.answers[key] : undefined;
  const file = parameters.get("file");
  return path === "source" && answer && file !== null && hasSavedText(file) ? { ...answer, found: null, text: saved!.texts![file], problem: null, has_editor: false } : answer;
}

/** Whether a source file is in this page. */
export function hasSavedText(file: string): boolean {
  return Object.hasOwn(saved?.texts ?? {}, file);
}
