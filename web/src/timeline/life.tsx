// The life of the chosen block, drawn on the timeline: a bar from its birth to its death, with a tick for each reallocation.
import { signal } from "@preact/signals";
import type { Biography } from "../answers";
import { when } from "../clock";
import * as format from "../format";
import { wholeRange } from "./range";

/** The life that is drawn; null for none. */
export const shownLife = signal<Biography | null>(null);

export function LifeBar({ x, width }: { x: (t: number) => number; width: number }) {
  const life = shownLife.value;
  if (!life) return null;
  const { block, events } = life;
  const from = Math.max(0, x(block.allocated_ns));
  const to = Math.min(width, x(block.freed_ns ?? wholeRange().right));
  if (to < 0 || from > width) return null;
  const ticks = events.filter((event) => event.what === "reallocated").map((event) => x(event.time_ns)).filter((at) => at >= from && at <= to);
  const end = block.freed_ns === null ? "never freed" : `freed at ${when(block.freed_ns)}`;
  return (
    <div class="life-bar" role="img" style={{ left: `${from}px`, width: `${Math.max(3, to - from)}px` }} aria-label={`Life of block ${format.count(block.id)}: allocated at ${when(block.allocated_ns)}, ${format.plural(events.filter((event) => event.what === "reallocated").length + life.left_out, "reallocation")}, ${end}`}>
      {ticks.map((at, index) => <i key={index} style={{ left: `${at - from}px` }} />)}
    </div>
  );
}
