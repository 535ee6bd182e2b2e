// The program's marks, where they can be read.
import type { Timeline } from "../answers";
import { when } from "../clock";
import { clean } from "../names";
import type { Range } from "./range";

interface Shown {
  key: number;
  x: number;
  text: string;
  title: string;
  /** Text that would lie upon another goes a line lower. */
  lane: number;
  leftwards: boolean;
}

/** Marks that would lie upon each other become one with a number. */
export function marksOf(timeline: Timeline | null, range: Range, x: (t: number) => number, width: number): Shown[] {
  const shown: Shown[] = [];
  let sameUntil = -Infinity;
  let together = 0;
  const filled = [-Infinity, -Infinity, -Infinity];
  for (const [key, mark] of (timeline?.marks ?? []).entries()) {
    if (mark.t < range.left || mark.t > range.right) continue;
    const position = x(mark.t);
    if (position < sameUntil) {
      together += 1;
      const last = shown[shown.length - 1];
      if (together <= 12) last.title += `\n${clean(mark.name)} at ${when(mark.t)}`;
      last.text = `${together} marks`;
      continue;
    }
    together = 1;
    sameUntil = position + 40;
    const name = clean(mark.name);
    const long = Math.min(124, name.length * 6.2 + 8);
    const leftwards = position > width - long;
    const begins = leftwards ? position - long : position;
    const lane = Math.max(0, filled.findIndex((until) => until <= begins));
    filled[lane] = begins + long;
    shown.push({ key, x: Math.min(width, position), text: name, title: `${name} at ${when(mark.t)}`, lane, leftwards });
    if (shown.length >= 200) break;
  }
  return shown;
}
