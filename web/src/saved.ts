// A saved page has its answers inside: {"schema":1,"choice":"…","answers":{KEY:answer},"frames":[…],"stacks":[…]}, in an element of its own
// (docs/api.md, "Saved pages").
import type { Frame } from "./answers";

interface Saved {
  schema: number;
  version?: string;
  saved?: string;
  choice?: string;
  answers: { [key: string]: unknown };
  frames: Frame[];
  stacks: number[][];
}

function read(): Saved | null {
  const element = document.getElementById("highwater-data");
  if (!element?.textContent) return null;
  try {
    const saved = JSON.parse(element.textContent) as Saved;
    const stacks = saved.stacks.map((stack) => stack.map((place) => saved.frames[place]));
    putStacks(saved.answers, stacks);
    return saved;
  } catch {
    return null;
  }
}

/** Stacks are written once in the file, and have numbers in the answers: here each gets back to its places. */
function putStacks(value: unknown, stacks: Frame[][]): void {
  if (typeof value !== "object" || value === null) return;
  const members = value as { [name: string]: unknown };
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (name === "stack" && typeof member === "number") members[name] = stacks[member] ?? [];
    else putStacks(member, stacks);
  }
}

export const saved: Saved | null = read();

export function savedChoice(): string {
  return saved?.choice ?? "";
}

const IN_KEYS = ["a", "address", "b", "by", "direction", "metric", "source"];

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
  return saved && Object.hasOwn(saved.answers, key) ? saved.answers[key] : undefined;
}
