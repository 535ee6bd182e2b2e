// The timeline of a live process: live bytes and the resident set, as the collector keeps them, with marks for looks and snapshots.
import { lastAtMost } from "../bins";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import * as format from "../format";
import { signOf, ms, type LiveTimeline } from "./answers";
import { Marks, type Mark } from "./marks";

const HEIGHT = 168;
const LEFT = 74;
const RIGHT = 14;
const TOP = 8;
/** The axis, and the lane of the marks above it. */
const BOTTOM = 38;
/** A time without readings is a gap if it is longer than some bins. */
const GAP_BINS = 3;
const LEAST_GAP_NS = 5e9;

interface Scale {
  x: (ns: number) => number;
  y: (bytes: number) => number;
}

interface Props {
  timeline: LiveTimeline;
  /** The right end, in nanoseconds since 1970: now, or the last reading. */
  until: number;
  marks: Mark[];
  chosen: Mark[];
  onChoose: (mark: Mark) => void;
  /** What is chosen about the timeline, at its lower edge. */
  children?: ComponentChildren;
}

export function LiveChart({ timeline, until, marks, chosen, onChoose, children }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [pointed, setPointed] = useState<number | null>(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, entry.contentRect.width)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  const count = timeline.from_unix_ns.length;
  const start = timeline.from_unix_ns[0] ?? until - 1e9;
  const end = Math.max(until, start + 1e9);
  const highest = Math.max(1, ...timeline.live_bytes.high, ...timeline.rss_bytes.high);
  const scale: Scale = {
    x: (ns) => LEFT + ((ns - start) / (end - start)) * (width - LEFT - RIGHT),
    y: (bytes) => HEIGHT - BOTTOM - (bytes / (highest * 1.05)) * (HEIGHT - BOTTOM - TOP),
  };
  const runs = runsOf(timeline, end);
  const isEstimate = timeline.is_estimate.some(Boolean);
  const most = Math.max(0, ...timeline.live_bytes.high);
  const bin = pointed === null ? -1 : lastAtMost(timeline.from_unix_ns, start + ((pointed - LEFT) / (width - LEFT - RIGHT)) * (end - start));
  const shownMarks = marks.filter((mark) => mark.at >= start && mark.at <= end);
  return (
    <div class="live-chart" ref={element} onPointerMove={(event) => setPointed(event.clientX - element.current!.getBoundingClientRect().left)} onPointerLeave={() => setPointed(null)}>
      <svg width={width} height={HEIGHT} role="img" aria-label={`Live bytes from ${format.timeOfDay(ms(start))} to ${format.timeOfDay(ms(end))}: at most ${signOf(isEstimate)}${format.bytes(most)}, ${signOf(timeline.is_estimate.at(-1) ?? false)}${format.bytes(timeline.live_bytes.last.at(-1) ?? 0)} at the end`}>
        {stepsOf(highest).map((bytes) => <g key={bytes} class="grid"><line x1={LEFT} x2={width - RIGHT} y1={scale.y(bytes)} y2={scale.y(bytes)} /><text x={LEFT - 6} y={scale.y(bytes) + 4} text-anchor="end">{format.bytes(bytes)}</text></g>)}
        {timesOf(start, end, width).map(({ at, text }) => <g key={at} class="grid"><line x1={scale.x(at)} x2={scale.x(at)} y1={TOP} y2={HEIGHT - BOTTOM} /><text x={scale.x(at)} y={HEIGHT - 5} text-anchor="middle">{text}</text></g>)}
        {runs.map((run) => <path key={run.first} class="envelope" d={areaOf(timeline, run, scale)} />)}
        {runs.map((run) => <path key={run.first} class="last" d={lineOf(timeline.live_bytes.last, timeline, run, scale)} />)}
        {runs.map((run) => <path key={run.first} class="rss" d={lineOf(timeline.rss_bytes.last, timeline, run, scale)} />)}
        {bin >= 0 && <line class="pointed" x1={scale.x(timeline.to_unix_ns[bin])} x2={scale.x(timeline.to_unix_ns[bin])} y1={TOP} y2={HEIGHT - BOTTOM} />}
      </svg>
      <Marks marks={shownMarks} chosen={chosen} onChoose={onChoose} x={scale.x} />
      <div class="chart-choice">{children}</div>
      <p class="chart-legend" aria-live="off">{bin >= 0 ? readingOf(timeline, bin) : <><i class="live" /> live {isEstimate && "(estimates)"} <i class="rss" /> RSS <span>{count > 0 && `· each point covers ${format.seconds(ms(timeline.width_ns))}`}</span></>}</p>
    </div>
  );
}

/** What a bin says. */
function readingOf(timeline: LiveTimeline, bin: number): string {
  const { low, high, last } = timeline.live_bytes;
  const approx = signOf(timeline.is_estimate[bin]);
  const span = low[bin] === high[bin] ? "" : ` (${approx}${format.bytes(low[bin])} – ${approx}${format.bytes(high[bin])})`;
  const parts = [`${format.timeOfDay(ms(timeline.to_unix_ns[bin]))}: ${approx}${format.bytes(last[bin])} live${span}`, `${approx}${format.count(timeline.live_blocks.last[bin])} blocks`];
  if (timeline.rss_bytes.last[bin]) parts.push(`RSS ${format.bytes(timeline.rss_bytes.last[bin])}`);
  const seconds = bin > 0 ? (timeline.to_unix_ns[bin] - timeline.to_unix_ns[bin - 1]) / 1e9 : 0;
  if (seconds > 0) parts.push(`${format.shortCount(Math.round((timeline.allocations[bin] - timeline.allocations[bin - 1]) / seconds))} allocations/s`);
  return parts.join(" · ");
}

interface Run {
  first: number;
  last: number;
  end: number;
}

/** Bins without gaps between them. */
function runsOf(timeline: LiveTimeline, end: number): Run[] {
  const runs: Run[] = [];
  const longest = Math.max(LEAST_GAP_NS, GAP_BINS * timeline.width_ns);
  const count = timeline.from_unix_ns.length;
  for (let bin = 0; bin < count; bin += 1) {
    const run = runs[runs.length - 1];
    if (run && timeline.from_unix_ns[bin] - timeline.to_unix_ns[bin - 1] <= longest) run.last = bin;
    else runs.push({ first: bin, last: bin, end: 0 });
  }
  // A curve goes to its last reading; the newest one to the right end, unless nothing was read for long.
  for (const run of runs) run.end = timeline.to_unix_ns[run.last];
  const newest = runs[runs.length - 1];
  if (newest && end - newest.end <= longest) newest.end = end;
  return runs;
}

/** A stepped line through the values of a run. */
function pointsOf(values: number[], timeline: LiveTimeline, run: Run, scale: Scale): string[] {
  const points: string[] = [];
  for (let bin = run.first; bin <= run.last; bin += 1) {
    const right = bin === run.last ? run.end : timeline.from_unix_ns[bin + 1];
    const y = scale.y(values[bin]).toFixed(1);
    points.push(`${scale.x(timeline.from_unix_ns[bin]).toFixed(1)},${y}`, `${scale.x(right).toFixed(1)},${y}`);
  }
  return points;
}

function lineOf(values: number[], timeline: LiveTimeline, run: Run, scale: Scale): string {
  return `M${pointsOf(values, timeline, run, scale).join("L")}`;
}

/** From zero to the highest. */
function areaOf(timeline: LiveTimeline, run: Run, scale: Scale): string {
  const zero = scale.y(0).toFixed(1);
  const left = scale.x(timeline.from_unix_ns[run.first]).toFixed(1);
  return `M${left},${zero}L${pointsOf(timeline.live_bytes.high, timeline, run, scale).join("L")}L${scale.x(run.end).toFixed(1)},${zero}Z`;
}

/** Up to four round amounts. */
function stepsOf(highest: number): number[] {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(highest / 4)));
  return Array.from({ length: Math.floor(highest / step) + 1 }, (_, index) => index * step);
}

const TIME_STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Round times of the day, as many as fit. */
function timesOf(start: number, end: number, width: number): { at: number; text: string }[] {
  const most = Math.max(2, Math.floor(width / 130));
  const seconds = (end - start) / 1e9;
  const step = TIME_STEPS.find((each) => seconds / each <= most) ?? seconds / most;
  const zone = new Date(ms(start)).getTimezoneOffset() * 60;
  const first = Math.ceil((start / 1e9 - zone) / step) * step + zone;
  const times = [];
  for (let at = first; at * 1e9 <= end; at += step) times.push({ at: at * 1e9, text: format.timeOfDay(at * 1000, step < 60) });
  return times;
}
