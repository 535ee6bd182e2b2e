// The questions that views ask, with the choice in them.
import type { Question } from "./answer";
import { choice, DEFAULT, type Instant } from "./choice";
import { has, source } from "./sources";

type Extra = { [name: string]: string | number | boolean | null | undefined | string[] };

/** A question about the chosen window, instant and filters of the chosen file; null while there is no such file, or it cannot be read. */
export function about(path: string, extra: Extra = {}): Question | null {
  const file = source.value;
  if (!file) return null;
  const { from, to, filters } = choice.value;
  return question(path, { source: file.id, from, to, at: instantA(), filter: filters, ...naming(), ...extra });
}

/** A as the server is asked for it. Null: the end of the window, or the only instant that there is. */
export function instantA(): Exclude<Instant, "end"> | null {
  const { at } = choice.value;
  return at === "end" || !has("timeline") ? null : at;
}

/** Leaks are judged before the program's tear-down, at whose end hardly anything is left; A counts only where it was placed. */
export function instantOfLeaks(): Extra {
  return choice.value.at === DEFAULT.at ? { at: null, before_teardown: has("timeline") } : {};
}

/** How rows are to be named. */
export function naming(): Extra {
  const { allocators, raw_names } = choice.value;
  return { allocator: allocators, raw_names: raw_names || null };
}

export function question(path: string, extra: Extra): Question {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(extra)) {
    if (Array.isArray(value)) for (const each of value) parameters.append(name, each);
    else if (value !== null && value !== undefined && value !== "") parameters.set(name, value === true ? "1" : value === false ? "0" : String(value));
  }
  return { path, parameters };
}
