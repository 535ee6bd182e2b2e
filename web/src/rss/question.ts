// Questions about the resident memory: of the whole process, at A; if A was not placed, where RSS is highest. No filter and no window applies to them.
import type { Question } from "../answer";
import { choice, DEFAULT } from "../choice";
import { instantA, naming, question } from "../question";
import { source } from "../sources";

export function rssQuestion(path: "rss" | "rss/map", extra: { [name: string]: string | number | null }): Question | null {
  return source.value && question(path, { source: source.value.id, at: choice.value.at === DEFAULT.at ? null : instantA(), ...naming(), ...extra });
}
