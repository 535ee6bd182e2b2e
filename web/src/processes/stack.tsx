// A total over time, stacked: the largest parts one by one, and the rest. Each bin shows one instant, so that its parts add up to what was held then.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { lastAtMost } from "../bins";
import { choose } from "../choice";
import { saveRows, type CsvColumns } from "../csv";
import { saveFile } from "../download";
import { svgOfElement } from "../drawn_svg";
import * as format from "../format";
import { SaveMenu } from "../menu";
import { clean } from "../names";
import { saved } from "../saved";
import { rankColour } from "../theme";
import { instantOfTree, partOf, showPart, spanOf, type StackedBins } from "./axis";

const HEIGHT = 170;
const TOP = 18;
const LEFT = 70;
const RIGHT = 14;

/** What the parts are, and how they and instants are called. */
export interface StackedParts {
  label: string;
  /** What files of it are called. */
  fileName: string;
  slider: string;
  /** What the total is the total of: "all processes". */
  of: string;
  names: Map<number, { name: string; detail: string }>;
  /** How many parts there are, also those that are in the rest. */
  count: number;
  instant: (at: number, resolution: number) => string;
  openTitle: string;
  open: (id: number, at: number) => void;
}

/** Bytes that may be an estimate. */
const markedBytes = (value: number, isEstimate: boolean | undefined): string => `${isEstimate ? "~" : ""}${format.bytes(value)}`;

/** `chosen`: the total at the chosen instant, or null while that is not known; `isEstimate`: whether samples made it. */
export function StackedTotals({ whole, shown, chosen, isEstimate = false, parts }: { whole: StackedBins; shown: StackedBins; chosen: number | null; isEstimate?: boolean; parts: StackedParts }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const room = Math.max(1, width - LEFT - RIGHT);
  const most = Math.max(1, ...shown.at_most_bytes, ...shown.total_bytes);
  const x = (time: number) => LEFT + partOf(shown, time) * room;
  const y = (bytes: number) => HEIGHT - (bytes / most) * (HEIGHT - TOP);
  const timeAt = (event: PointerEvent | WheelEvent) => {
    const left = box.current!.getBoundingClientRect().left + LEFT;
    return shown.window.from_ns + Math.max(0, Math.min(1, (event.clientX - left) / room)) * spanOf(shown);
  };
  const binOf = (time: number) => Math.max(0, Math.min(shown.at_ns.length - 1, lastAtMost(shown.t, time)));
  const at = instantOfTree(whole);
  const isInside = at >= shown.window.from_ns && at <= shown.window.to_ns;
  const placeAt = (time: number) => choose({ tree_at: Math.round(Math.max(whole.window.from_ns, Math.min(whole.end_ns, time))) }, false);
  const zoom = (around: number, factor: number) => showPart(whole, around - (around - shown.window.from_ns) * factor, around + (shown.window.to_ns - around) * factor);

  const down = (event: PointerEvent) => {
    if (event.button !== 0 || saved) return;
    box.current!.setPointerCapture(event.pointerId);
    setDrag({ from: timeAt(event), to: timeAt(event) });
  };
  const move = (event: PointerEvent) => {
    const time = timeAt(event);
    setHovered(binOf(time));
    if (drag) setDrag({ ...drag, to: time });
  };
  const up = (event: PointerEvent) => {
    if (!drag) return;
    setDrag(null);
    const [from, to] = [Math.min(drag.from, timeAt(event)), Math.max(drag.from, timeAt(event))];
    // The instant that the bin shows: what is drawn is what was held then.
    if (x(to) - x(from) < 5) choose({ tree_at: shown.at_ns[binOf(from)] });
    else showPart(whole, from, to);
  };
  const keys = (event: KeyboardEvent) => {
    const step = spanOf(shown) / (event.shiftKey ? 10 : 100);
    const bin = binOf(at);
    switch (event.key) {
      case "ArrowLeft": case "ArrowRight": {
        const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 10 : 1);
        if (isInside) placeAt(shown.at_ns[Math.max(0, Math.min(shown.at_ns.length - 1, bin + by))]);
        else showPart(whole, shown.window.from_ns + by * step, shown.window.to_ns + by * step);
        break;
      }
      case "+": case "ArrowUp": zoom(isInside ? at : shown.window.from_ns, 0.6); break;
      case "-": case "ArrowDown": zoom(isInside ? at : shown.window.from_ns, 1 / 0.6); break;
      case "Home": choose({ tree_at: null }); break;
      case "Escape": choose({ tree_from: null, tree_to: null }); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const { names } = parts;
  const chosenText = chosen === null ? "…" : markedBytes(chosen, isEstimate);
  const layers = layersOf(shown);
  const legend = shown.stack.map(({ id }, rank): [string, string] => [rankColour(rank)[0], `${clean(names.get(id)?.name ?? "")} ${names.get(id)?.detail ?? ""}`]);
  if (parts.count > shown.stack.length) legend.push([rankColour(-1)[0], format.plural(parts.count - shown.stack.length, "other")]);
  const saveSvg = () => {
    const drawn = box.current?.querySelector("svg");
    if (drawn) saveFile(`${parts.fileName}-total.svg`, "image/svg+xml", svgOfElement(drawn, parts.label, legend));
  };
  const isZoomed = shown.window.from_ns > whole.window.from_ns || shown.window.to_ns < whole.end_ns;
  return (
    <section class="stacked-totals" aria-label={parts.label}>
      <div class="stacked-box" ref={box} style={{ height: `${HEIGHT + 20}px` }} role="slider" tabIndex={0} aria-label={parts.slider} aria-valuemin={whole.window.from_ns} aria-valuemax={whole.end_ns} aria-valuenow={at} aria-valuetext={`${parts.instant(at, spanOf(whole) / 1000)}: ${chosenText} in ${parts.of}`}
        onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={() => setDrag(null)} onPointerLeave={() => setHovered(null)} onDblClick={() => !saved && choose({ tree_from: null, tree_to: null })} onKeyDown={saved ? undefined : keys}
        onWheel={saved ? undefined : (event) => { event.preventDefault(); if (!event.shiftKey) zoom(timeAt(event), event.deltaY > 0 ? 1 / 0.8 : 0.8); }}>
        {width > 0 && (
          <svg width={width} height={HEIGHT + 20} aria-hidden="true">
            {[0.25, 0.5, 0.75, 1].map((part) => <g key={part}><line class="grid" x1={LEFT} x2={LEFT + room} y1={y(most * part)} y2={y(most * part)} /><text x={LEFT - 6} y={y(most * part) + 4} text-anchor="end">{format.bytes(most * part)}</text></g>)}
            {[0, 0.25, 0.5, 0.75, 1].map((part) => <text key={part} x={LEFT + room * part} y={HEIGHT + 15} text-anchor={part === 0 ? "start" : part === 1 ? "end" : "middle"}>{parts.instant(shown.window.from_ns + spanOf(shown) * part, spanOf(shown) / 100)}</text>)}
            <path class="at-most" d={lineOf(shown.at_ns.map((time, bin) => [x(time), y(shown.at_most_bytes[bin])]))} />
            {layers.map(({ id, low, high }, layer) => <path key={id ?? "rest"} style={{ fill: rankColour(id === null ? -1 : layer)[0] }} d={areaOf(shown.at_ns.map((time, bin) => [x(time), y(low[bin]), y(high[bin])]))} />)}
            {drag && <rect class="dragged" x={Math.min(x(drag.from), x(drag.to))} width={Math.abs(x(drag.to) - x(drag.from))} y={0} height={HEIGHT} />}
            {hovered !== null && !drag && <line class="hovered" x1={x(shown.at_ns[hovered])} x2={x(shown.at_ns[hovered])} y1={0} y2={HEIGHT} />}
            {isInside && <line class="chosen" x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} />}
            {whole.highest && x(whole.highest.at_ns) >= LEFT && x(whole.highest.at_ns) <= LEFT + room && <text class="highest" x={x(whole.highest.at_ns)} y={12} text-anchor="middle">▼</text>}
          </svg>
        )}
        {hovered !== null && width > 0 && !drag && <Reading shown={shown} parts={parts} bin={hovered} left={x(shown.at_ns[hovered])} isRight={x(shown.at_ns[hovered]) > width / 2} />}
      </div>
      <div class="stacked-legend">
        {shown.stack.map(({ id }, rank) => <button type="button" class="quiet" key={id} title={parts.openTitle} onClick={() => parts.open(id, at)}><i class="swatch" style={{ background: rankColour(rank)[0] }} />{clean(names.get(id)?.name ?? "")} <small>{names.get(id)?.detail}</small></button>)}
        {parts.count > shown.stack.length && <span><i class="swatch" style={{ background: rankColour(-1)[0] }} />{format.plural(parts.count - shown.stack.length, "other")}</span>}
        <span class="stretch" />
        <small class="chosen-total">{parts.instant(at, spanOf(whole) / 1000)}: <b data-figure="chosen-total" data-value={chosen ?? undefined}>{chosenText}</b> in all</small>
        <SaveMenu name={parts.label} actions={[
          { name: "Save as CSV", run: () => saveRows(parts.fileName, "total", columnsOf(shown, parts), shown.at_ns.map((_, bin) => bin)) },
          { name: "Save as a picture (SVG)", run: saveSvg },
        ]} />
        {isZoomed && <button type="button" class="quiet" title="Show the whole time (Esc)" onClick={() => choose({ tree_from: null, tree_to: null })}>whole time</button>}
      </div>
    </section>
  );
}

/** A row for each bin: the total at its instant, the most within it, and what each part held. */
function columnsOf(shown: StackedBins, { names }: StackedParts): CsvColumns<number> {
  const columns: CsvColumns<number> = { at: (bin) => shown.at_ns[bin], total_bytes: (bin) => shown.total_bytes[bin], at_most_bytes: (bin) => shown.at_most_bytes[bin] };
  for (const [rank, { id, bytes }] of shown.stack.entries()) columns[`${rank + 1}: ${names.get(id)?.name ?? ""} ${names.get(id)?.detail ?? ""}`] = (bin) => bytes[bin];
  columns["others"] = (bin) => shown.rest_bytes[bin];
  return columns;
}

/** What the parts held at the instant of a bin. */
function Reading({ shown, parts: { names, instant }, bin, left, isRight }: { shown: StackedBins; parts: StackedParts; bin: number; left: number; isRight: boolean }) {
  const parts = shown.stack.map(({ id, bytes, estimated }) => ({ name: `${clean(names.get(id)?.name ?? "")} ${names.get(id)?.detail ?? ""}`, bytes: bytes[bin], isEstimate: estimated?.[bin] })).filter((part) => part.bytes > 0).sort((a, b) => b.bytes - a.bytes).slice(0, 5);
  return (
    <div class="stacked-reading" style={isRight ? { right: `calc(100% - ${left - 8}px)` } : { left: `${left + 8}px` }}>
      <b>{markedBytes(shown.total_bytes[bin], shown.total_estimated?.[bin])}</b> at {instant(shown.at_ns[bin], spanOf(shown) / 1000)}
      {parts.map((part) => <div key={part.name}>{markedBytes(part.bytes, part.isEstimate)} <small>{part.name}</small></div>)}
      {shown.rest_bytes[bin] > 0 && <div>{markedBytes(shown.rest_bytes[bin], shown.rest_estimated?.[bin])} <small>others</small></div>}
    </div>
  );
}

interface Layer {
  id: number | null;
  low: number[];
  high: number[];
}

/** The largest part at the bottom, the rest on top. */
function layersOf(shown: StackedBins): Layer[] {
  let low: number[] = shown.at_ns.map(() => 0);
  const layer = (id: number | null, bytes: number[]): Layer => {
    const high = low.map((below, bin) => below + bytes[bin]);
    const made = { id, low, high };
    low = high;
    return made;
  };
  return [...shown.stack.map(({ id, bytes }) => layer(id, bytes)), layer(null, shown.rest_bytes)];
}

function lineOf(points: [number, number][]): string {
  return points.length ? `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}` : "";
}

function areaOf(points: [number, number, number][]): string {
  const [top, bottom] = [points.map(([x, , high]): [number, number] => [x, high]), points.map(([x, low]): [number, number] => [x, low]).reverse()];
  return points.length ? `${lineOf([...top, ...bottom])}Z` : "";
}
