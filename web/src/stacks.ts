// The stacks of an answer are a table (docs/api.md, "Stacks"): each call is in it once, and rows have numbers. A row's list of frames is made when it is
// looked at, and not kept: those of a deep recursion are gigabytes together.
import type { Frame } from "./answers";

/** `stacks[number]` is the number of the caller's stack, null for the outermost call, and the place of the frame. */
export interface StackTable {
  frames?: Frame[];
  stacks?: [number | null, number][];
}

/** The most frames of a stack that are shown: the innermost. */
const MOST_FRAMES = 2048;

function framesOf(table: StackTable, number: number | null): Frame[] {
  const list: Frame[] = [];
  let at = number;
  while (at !== null && list.length < MOST_FRAMES) {
    const call: [number | null, number] | undefined = table.stacks?.[at];
    const frame = call && table.frames?.[call[1]];
    if (!frame) break;
    list.push(frame);
    at = call[0];
  }
  return list;
}

/** Gives each `stack` of an answer the frames that its number stands for. */
export function withStacks<T>(answer: T, table: StackTable): T {
  if (table.stacks) putStacks(answer, table);
  return answer;
}

function putStacks(value: unknown, table: StackTable): void {
  if (typeof value !== "object" || value === null || value === table.stacks || value === table.frames) return;
  const members = value as { [name: string]: unknown };
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (name === "stack" && (typeof member === "number" || member === null)) {
      Object.defineProperty(members, name, { get: () => framesOf(table, member), enumerable: true, configurable: true });
    } else {
      putStacks(member, table);
    }
  }
}
