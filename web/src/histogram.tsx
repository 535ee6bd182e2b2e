// Bars of a histogram. Dragging over them chooses a range.
import "./histogram.css";
import { useState } from "preact/hooks";
import * as estimate from "./estimate";

export interface Bar {
  from: number;
  to: number;
  blocks: number;
  bytes: number;
}

interface Props {
  title: string;
  bars: Bar[];
  /** No value is greater: the last bar ends there. */
  limit?: number;
  /** How an end of a range is written. */
  shown: (value: number) => string;
  /** The range that is chosen now. */
  chosen: { from: number; to: number } | null;
  onChoose: (range: { from: number; to: number } | null) => void;
  measure: "bytes" | "blocks";
}

/** The most labels of an axis. */
const LABELS = 6;

export function Histogram({ title, bars: given, limit = Infinity, shown, chosen, onChoose, measure }: Props) {
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const bars = given.map((bar) => ({ ...bar, to: Math.min(bar.to, Math.max(limit, bar.from)) }));
  const first = bars.findIndex((bar) => bar.blocks > 0);
  const last = bars.findLastIndex((bar) => bar.blocks > 0);
  const visible = first < 0 ? [] : bars.slice(first, last + 1);
  const highest = Math.max(1, ...visible.map((bar) => bar[measure]));
  const indexAt = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return Math.max(0, Math.min(visible.length - 1, Math.floor(((event.clientX - box.left) / box.width) * visible.length)));
  };
  const inside = (index: number) => {
    if (drag) return index >= Math.min(drag.from, drag.to) && index <= Math.max(drag.from, drag.to);
    return chosen !== null && visible[index].from >= chosen.from && visible[index].to <= chosen.to;
  };
  const chooseBars = (from: number, to: number) => onChoose({ from: visible[Math.min(from, to)].from, to: visible[Math.max(from, to)].to });
  const keys = (event: KeyboardEvent, index: number) => {
    const bars = (event.currentTarget as HTMLElement).parentElement!.children;
    if (event.key === "ArrowRight") (bars[index + 1] as HTMLElement | undefined)?.focus();
    else if (event.key === "ArrowLeft") (bars[index - 1] as HTMLElement | undefined)?.focus();
    else if (event.key === "Enter" || event.key === " ") chooseBars(index, index);
    else if (event.key === "Escape" && chosen) onChoose(null);
    else return;
    event.preventDefault();
  };
  return (
    <section class="histogram" aria-label={title}>
      <h2>{title} <small>{chosen ? <button type="button" class="quiet" onClick={() => onChoose(null)}>all</button> : "drag to choose"}{visible.length > 0 && `; highest bar: ${measure === "bytes" ? estimate.bytes(highest) : estimate.plural(highest, "block")}`}</small></h2>
      {visible.length === 0 ? <p class="nothing">Nothing.</p> : (
        <>
          <div class={`bars${chosen || drag ? " some" : ""}`} role="listbox" aria-label={`${title}: ranges`} aria-orientation="horizontal"
            onPointerDown={(event) => { if (event.button === 0) { (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId); const index = indexAt(event); setDrag({ from: index, to: index }); } }}
            onPointerMove={(event) => { if (drag) setDrag({ ...drag, to: indexAt(event) }); }}
            onPointerUp={() => { if (drag) chooseBars(drag.from, drag.to); setDrag(null); }} onPointerCancel={() => setDrag(null)}>
            {visible.map((bar, index) => (
              <div key={bar.from} class={`bar-slot${inside(index) ? " inside" : ""}`} role="option" aria-selected={inside(index)} tabIndex={index === 0 ? 0 : -1} onKeyDown={(event) => keys(event, index)}
                aria-label={`${shown(bar.from)} to ${shown(bar.to)}: ${estimate.plural(bar.blocks, "block")}`} title={`${shown(bar.from)} – ${shown(bar.to)}\n${estimate.plural(bar.blocks, "block")}, ${estimate.bytes(bar.bytes)}`}>
                <i style={{ height: `${bar[measure] > 0 ? Math.max(2, (bar[measure] / highest) * 100) : 0}%` }} />
              </div>
            ))}
          </div>
          <div class="bars-axis" aria-hidden="true" data-exact>{ticksOf(visible).map(({ at, value }) => <span key={at} style={{ left: `${at * 100}%` }}>{shown(value)}</span>)}</div>
        </>
      )}
    </section>
  );
}

/** Labels below the bars, whose ranges double: at the start of every nth bar, and at the end. `at` is a part of the width. */
function ticksOf(bars: Bar[]): { at: number; value: number }[] {
  const step = Math.max(1, Math.ceil(bars.length / LABELS));
  const starts = bars.map((bar, index) => ({ at: index / bars.length, value: bar.from, index }));
  const shown = starts.filter(({ index }) => index % step === 0 && (index === 0 || bars.length - index >= step));
  return [...shown, { at: 1, value: bars[bars.length - 1].to }];
}
