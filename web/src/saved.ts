// A saved page has its answers inside: {"schema":2,"choice":"…","answers":{KEY:answer},"frames":[…],"stacks":[…]}, in an element of its own
// (docs/api.md, "Saved pages").
import { withStacks, type StackTable } from "./stacks";

interface Saved extends StackTable {
  schema: number;
  version?: string;
  saved?: string;
  choice?: string;
  answers: { [key: string]: unknown };
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
