// All heaps in one strip, with their names and the part that the picture below shows: it can be dragged.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RssMap } from "../answers";
import { choose } from "../choice";
import * as format from "../format";
import { colours } from "../theme";
import { drawStrip, type Ranks } from "./draw";
import { hex, namesOf, textOf, type PageRange } from "./pages";

const HEIGHT = 14;
/** The least width of an area that has its name beside it, in pixels. */
const NAMED = 52;
/** The least width of one that has its size, too. */
const SIZED = 120;

export function Strip({ map, range, ranks }: { map: RssMap; range: PageRange; ranks: Ranks }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const theme = colours.value;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d");
    if (!context || width === 0) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(HEIGHT * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawStrip(context, map, width, HEIGHT, ranks, theme);
  }, [map, width, ranks, theme]);
  const x = (page: number) => (page / map.pages) * width;
  const span = range.to - range.from;
  const isAll = span >= map.pages;
  const centre = (event: PointerEvent, step: boolean) => {
    const page = ((event.clientX - frame.current!.getBoundingClientRect().left) / Math.max(1, width)) * map.pages;
    choose({ node: textOf(page - span / 2, page + span / 2, map.pages) }, step);
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.2, ArrowRight: 0.2, PageUp: -1, PageDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose({ node: textOf(range.from + span * by, range.to + span * by, map.pages) }, false);
  };
  const names = namesOf(map.areas);
  return (
    <div class="heap-strip" ref={frame} onPointerDown={(event) => { if (!isAll && event.button === 0) { (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId); centre(event, true); } }}
      onPointerMove={(event) => { if (!isAll && (event.currentTarget as HTMLElement).hasPointerCapture(event.pointerId)) centre(event, false); }}>
      <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${HEIGHT}px` }} />
      {!isAll && <div class="heap-strip-window" role="slider" tabIndex={0} aria-label="The visible pages" aria-valuemin={0} aria-valuemax={map.pages} aria-valuenow={range.from} aria-valuetext={`pages ${format.count(range.from)} to ${format.count(range.to)} of ${format.count(map.pages)}`}
        style={{ left: `${x(range.from)}px`, width: `${Math.max(3, x(range.to) - x(range.from))}px` }} onKeyDown={keys} />}
      <div class="heap-areas">
        {map.areas.map((area, index) => {
          const wide = x(area.pages);
          return wide >= 3 && <span key={area.first_page} style={{ left: `${x(area.first_page)}px`, width: `${wide}px` }} title={`${names[index]}: ${hex(area.start)} – ${hex(area.end)}, ${format.bytes(area.end - area.start)}`}>{wide >= SIZED ? `${names[index]}, ${format.bytes(area.end - area.start)}` : wide >= NAMED ? names[index] : ""}</span>;
        })}
      </div>
    </div>
  );
}
