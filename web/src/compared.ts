// The two sides of a comparison, as the server reads them: "3@1200" is an instant of a file.
import { choice } from "./choice";
import type { Source } from "./answers";
import { isEstimated } from "./estimate";
import { saved } from "./saved";
import { has, other, source } from "./sources";

/** What was before, and after; null where there is nothing to compare with. */
export function comparedSides(): { a: string; b: string } | null {
  const { at, b, to } = choice.value;
  const [file, second] = [source.value, other.value];
  if (!file || !second) return null;
  const sameFile = second.id === file.id;
  if (sameFile && !has("timeline")) return null;
  const hasTime = second.has.includes("timeline");
  const sideA = `${file.id}@${has("timeline") ? (at === "end" ? to ?? "end" : at) : "end"}`;
  const sideB = `${second.id}@${typeof b === "string" && !hasTime ? "end" : b ?? (sameFile ? to ?? "end" : hasTime ? "peak" : "end")}`;
  return isOlderFirst() ? { a: sideB, b: sideA } : { a: sideA, b: sideB };
}

/** Of two files that the user put in no order, the older one comes first: true if that is B's. */
export function isOlderFirst(): boolean {
  const [file, second] = [source.value, other.value];
  return choice.value.other === null && !!second?.started && second.id !== file?.id && second.started < (file?.started ?? "");
}

/** What the figures before and after are called: the older file, which comes first, may be B's. */
export function sideTitles(): [before: "A" | "B", after: "A" | "B"] {
  return isOlderFirst() ? ["B", "A"] : ["A", "B"];
}

/** Of a row's numbers on both sides, the one in the chosen file: only that one has a filter. Null: the row is not there. */
export function ownId({ id_a: before, id_b: after }: { id_a: number | null; id_b: number | null }): number | null {
  if (other.value?.id === source.value?.id) return before ?? after;
  return isOlderFirst() ? after : before;
}

/** Whose window and filters a comparison has, where that is not the file of the earlier side. */
export function filteredSource(): { source: number | null } {
  return { source: isOlderFirst() && !saved ? source.value?.id ?? null : null };
}

/** The file that is sampled, if one of the two is: figures of a comparison are then estimates. */
export function sampledSide(): Source | null {
  return isEstimated(source.value) ? source.value : other.value;
}
