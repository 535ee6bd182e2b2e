// The two sides of a comparison, as the server reads them: "3@1200" is an instant of a file.
import { choice } from "./choice";
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
