// The course of memory over time, above every view. uPlot draws the curves and the axes; everything that can be taken hold of lies above it as
// ordinary elements: the window and its two edges, the handles A and B, marks, the peak. What is visible (`left` to `right`) and what is counted
// (`from` to `to`) are two choices.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Nanos, Timeline as Course } from "./answers";
import { useAnswer } from "./answer";
import { choice, choose } from "./choice";
import * as format from "./format";
import { clean } from "./names";
import { question } from "./question";
import { saved } from "./saved";
import { has, source } from "./sources";
import { Told } from "./told";
import { colours } from "./theme";

const AXIS = 74;
const RIGHT = 14;
const HEIGHT = 138;
const RATE_HEIGHT = 34;
const LEAST_SPAN = 20;

export interface Range {
  left: Nanos;
  right: Nanos;
}

/** What the timeline shows: bounded by the recording, never narrower than a few nanoseconds. */
export function visibleRange(): Range {
  const { left: begin, right: end } = wholeRange();
  const left = Math.max(begin, Math.min(choice.value.left ?? begin, end));
  const right = Math.min(choice.value.right ?? end, end);
  return right - left >= Math.min(LEAST_SPAN, end - begin) ? { left, right } : { left: begin, right: end };
}

/** From the first instant of the recording to its last. */
export function wholeRange(): Range {
  const file = source.value;
  return { left: Math.min(file?.begins_ns ?? 0, file?.duration_ns ?? 0), right: file?.duration_ns ?? 0 };
}

/** The instant of a handle, which may stand at the peak by name. */
export function instantOf(at: Nanos | "peak" | null, otherwise: Nanos): Nanos {
  if (at === "peak") return source.value?.peak?.at_ns ?? otherwise;
  return at ?? otherwise;
}

export function showRange(left: number, right: number, step: boolean): void {
  const { left: begin, right: end } = wholeRange();
  const span = Math.min(end - begin, Math.max(Math.min(LEAST_SPAN, end - begin), right - left));
  const from = Math.round(Math.min(Math.max(begin, left), end - span));
  const to = Math.round(from + span);
  choose(from <= begin && to >= end ? { left: null, right: null } : { left: from, right: to }, step);
}

export function zoom(factor: number, around: number | null, step: boolean): void {
  const { left, right } = visibleRange();
  const centre = around ?? (left + right) / 2;
  showRange(centre - (centre - left) * factor, centre + (right - centre) * factor, step);
}

export function Timeline() {
  const file = source.value;
  if (!file || !has("timeline") || file.duration_ns <= (file.begins_ns ?? 0)) return null;
  return <Course key={file.id} />;
}

function Course() {
  const file = source.value!;
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const range = visibleRange();
  const plotWidth = Math.max(1, width - AXIS - RIGHT);
  const points = saved ? 600 : Math.max(100, Math.round(plotWidth / 100) * 50);
  const whole = choice.value.left === null && choice.value.right === null;
  const answer = useAnswer<Course>(width === 0 ? null : question("timeline", {
    source: file.id, from: whole ? null : range.left, to: whole ? null : range.right, points, filter: choice.value.filters,
  }), 60);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <section class="timeline" aria-label="Timeline" ref={frame}>
      {width > 0 && (
        <div class="timeline-plots">
          <Plots course={answer.data} width={width} range={range} />
          <Layer course={answer.data} width={plotWidth} range={range} />
        </div>
      )}
      {answer.data && <Legend course={answer.data} />}
      <Told answer={answer} />
    </section>
  );
}

/** What the curves are, where the peak's name is not. */
function Legend({ course }: { course: Course }) {
  const { measure } = choice.value;
  const { left, right } = visibleRange();
  const peak = source.value?.peak?.at_ns;
  const peakIsLeft = peak !== undefined && peak < (left + right) / 2;
  return (
    <p class={`curves${peakIsLeft ? " curves-right" : ""}`}>
      <span><i class="of-live" /> live {measure}</span>
      {gaugesOf(course, measure).map((gauge, index) => <span key={gauge.name}><i class={`of-gauge of-gauge-${index + 1}`} /> {clean(gauge.name)}</span>)}
      <span><i class="of-rate" /> {measure === "bytes" ? "allocated per second" : "allocations per second"}</span>
    </p>
  );
}

/** Gauges that have the unit of what is drawn, as many as can be told apart. */
function gaugesOf(course: Course | null, measure: string): Course["gauges"] {
  return measure === "bytes" ? (course?.gauges ?? []).filter((each) => each.unit === "bytes").slice(0, 3) : [];
}

function Plots({ course, width, range }: { course: Course | null; width: number; range: Range }) {
  const element = useRef<HTMLDivElement>(null);
  const plots = useRef<{ live: uPlot; rate: uPlot; gauges: number } | null>(null);
  const measure = choice.value.measure;
  const theme = colours.value;
  const shownGauges = gaugesOf(course, measure);
  const kind = `${measure} ${shownGauges.map((each) => each.name).join("\0")}`;

  useEffect(() => {
    const live = new uPlot(liveOptions(width, measure, shownGauges.map((each) => each.name)), [[0], [0], [0], [0]], element.current!);
    const rate = new uPlot(rateOptions(width, measure), [[0], [0]], element.current!);
    plots.current = { live, rate, gauges: shownGauges.length };
    return () => {
      live.destroy();
      rate.destroy();
      plots.current = null;
    };
  }, [kind, theme]);

  useEffect(() => {
    plots.current?.live.setSize({ width, height: HEIGHT });
    plots.current?.rate.setSize({ width, height: RATE_HEIGHT });
  }, [width]);

  useEffect(() => {
    if (!plots.current || !course) return;
    const { live, rate } = plots.current;
    const envelope = measure === "bytes" ? course.live_bytes : course.live_blocks;
    const t = course.t.slice(0, envelope.high.length + 1);
    const filled = (values: number[]) => (values.length < t.length ? [...values, values[values.length - 1] ?? 0] : values);
    const perSecond = (measure === "bytes" ? course.allocated_bytes : course.allocations).map((value, index) => value / Math.max(1e-9, (t[index + 1] - t[index]) / 1e9));
    const high = filled(envelope.high);
    live.setData([t, high, filled(envelope.low), high, ...shownGauges.map((gauge) => along(t, gauge.t, gauge.value))], false);
    rate.setData([t, filled(perSecond)], false);
    live.setScale("x", { min: range.left, max: range.right });
    rate.setScale("x", { min: range.left, max: range.right });
  }, [course, kind, theme]);

  useLayoutEffect(() => {
    plots.current?.live.setScale("x", { min: range.left, max: range.right });
    plots.current?.rate.setScale("x", { min: range.left, max: range.right });
  }, [range.left, range.right]);

  return <div ref={element} aria-hidden="true" />;
}

/** A gauge's last reading before each edge. */
function along(edges: number[], t: number[], value: number[]): (number | null)[] {
  let next = 0;
  return edges.map((edge) => {
    while (next < t.length && t[next] <= edge) next += 1;
    return next === 0 ? null : value[next - 1];
  });
}

const STEPS = uPlot.paths.stepped!({ align: 1 });
const POWERS_OF_TWO = Array.from({ length: 52 }, (_, power) => 2 ** power);
const INSTANTS = [
  ...Array.from({ length: 11 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat().filter((each) => each < 60e9),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].map((minutes) => minutes * 60e9),
];

function liveOptions(width: number, measure: "bytes" | "blocks", gauges: string[]): uPlot.Options {
  const theme = colours.value;
  const fresh = { points: { show: false }, paths: STEPS };
  return {
    width, height: HEIGHT, padding: [16, RIGHT, 0, 0], legend: { show: false }, cursor: { show: false }, select: { show: false } as uPlot.Select,
    scales: { x: { time: false, auto: false }, y: { range: (_plot, _low, high) => [0, Math.max(1, high ?? 1) * 1.04] } },
    axes: [
      { stroke: theme.faint, font: "11px system-ui, sans-serif", grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line, size: 4 }, size: 22, gap: 2, space: 110, incrs: INSTANTS,
        values: (_plot, splits, _axis, _space, step) => splits.map((each) => format.instant(each, step)) },
      { stroke: theme.faint, font: "11px system-ui, sans-serif", grid: { stroke: theme.line, width: 1 }, ticks: { show: false }, size: AXIS, gap: 6, space: 22,
        ...(measure === "bytes" ? { incrs: POWERS_OF_TWO } : { incrs: INSTANTS }),
        values: (_plot, splits) => splits.map((each) => (measure === "bytes" ? format.bytes(each) : format.shortCount(each))) },
    ],
    series: [
      {},
      { ...fresh, width: 0, fill: theme.liveFill },
      { ...fresh, width: 0, fill: theme.liveLow },
      { ...fresh, stroke: theme.live, width: 1.25 },
      ...gauges.map((_, index) => ({ ...fresh, stroke: theme.gauges[index], width: 1.25, dash: [5, 3] })),
    ],
  };
}

function rateOptions(width: number, measure: "bytes" | "blocks"): uPlot.Options {
  const theme = colours.value;
  return {
    width, height: RATE_HEIGHT, padding: [3, RIGHT, 1, 0], legend: { show: false }, cursor: { show: false }, select: { show: false } as uPlot.Select,
    scales: { x: { time: false, auto: false }, y: { range: (_plot, _low, high) => [0, Math.max(1, high ?? 1)] } },
    axes: [
      { show: false },
      { stroke: theme.faint, font: "11px system-ui, sans-serif", grid: { show: false }, ticks: { show: false }, size: AXIS, gap: 6,
        splits: (plot) => [(plot.scales.y.max ?? 0) * 0.72], values: (plot) => [`${measure === "bytes" ? format.bytes(plot.scales.y.max ?? 0) : format.shortCount(plot.scales.y.max ?? 0)}/s`] },
    ],
    series: [{}, { points: { show: false }, paths: STEPS, stroke: theme.rate, width: 1, fill: theme.rateFill }],
  };
}

type Grip = "window" | "from" | "to" | "whole" | "a" | "b" | "axis";

/** Everything that can be taken hold of. Positions follow from the visible range alone, so that nothing waits for a drawing. */
function Layer({ course, width, range }: { course: Course | null; width: number; range: Range }) {
  const file = source.value!;
  const layer = useRef<HTMLDivElement>(null);
  const [hover, setHover] = useState<number | null>(null);
  const { from, to, at, b, measure } = choice.value;
  const { left: begin, right: duration } = wholeRange();
  const span = Math.max(1e-9, range.right - range.left);
  const x = (t: number) => ((t - range.left) / span) * width;
  const clamp = (t: number) => Math.round(Math.min(duration, Math.max(begin, t)));
  const timeAt = (clientX: number) => clamp(range.left + ((clientX - layer.current!.getBoundingClientRect().left) / width) * span);
  const start = from ?? begin;
  const end = to ?? duration;
  const instantA = instantOf(at, end);
  const instantB = b === null ? null : choice.value.other !== null && choice.value.other !== file.id ? null : instantOf(b, duration);

  const grab = (grip: Grip) => (event: PointerEvent) => {
    if (event.button !== 0) return;
    event.stopPropagation();
    event.preventDefault();
    const target = event.currentTarget as HTMLElement;
    target.focus({ preventScroll: true });
    target.setPointerCapture(event.pointerId);
    const began = timeAt(event.clientX);
    const beganAt = event.clientX;
    const before = { left: range.left, right: range.right, start, end };
    let moved = false;
    const drag = (now: PointerEvent) => {
      if (!moved && Math.abs(now.clientX - beganAt) < 4) return;
      const step = !moved;
      moved = true;
      const t = timeAt(now.clientX);
      if (grip === "window") choose({ from: Math.min(began, t), to: Math.max(began, t) }, step);
      else if (grip === "from") choose({ from: Math.min(t, before.end - 1) }, step);
      else if (grip === "to") choose({ to: Math.max(t, before.start + 1) }, step);
      else if (grip === "a") choose({ at: t }, step);
      else if (grip === "b") choose({ b: t }, step);
      else if (grip === "axis") {
        const by = ((now.clientX - beganAt) / width) * (before.right - before.left);
        showRange(before.left - by, before.right - by, step);
      } else {
        const by = Math.min(duration - before.end, Math.max(begin - before.start, Math.round(((now.clientX - beganAt) / width) * span)));
        choose({ from: before.start + by, to: before.end + by }, step);
      }
    };
    const drop = (now: PointerEvent) => {
      target.removeEventListener("pointermove", drag);
      target.removeEventListener("pointerup", drop);
      target.removeEventListener("pointercancel", drop);
      if (moved || now.type !== "pointerup" || grip !== "window") return;
      choose(now.shiftKey ? { b: began, other: null } : { at: began });
    };
    target.addEventListener("pointermove", drag);
    target.addEventListener("pointerup", drop);
    target.addEventListener("pointercancel", drop);
  };

  useEffect(() => {
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const now = visibleRange();
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      const amount = (sideways && event.deltaX ? event.deltaX : event.deltaY) * (event.deltaMode === 1 ? 16 : 1);
      if (sideways) {
        const by = (amount / width) * (now.right - now.left);
        showRange(now.left + by, now.right + by, false);
      } else {
        const box = layer.current!.getBoundingClientRect();
        zoom(Math.exp(Math.max(-240, Math.min(240, amount)) * 0.0025), now.left + ((event.clientX - box.left) / width) * (now.right - now.left), false);
      }
    };
    const element = layer.current!;
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [width, duration]);

  const keys = (event: KeyboardEvent) => {
    const by = span * (event.shiftKey ? 0.5 : 0.1);
    if (event.key === "ArrowLeft") showRange(range.left - by, range.right - by, false);
    else if (event.key === "ArrowRight") showRange(range.left + by, range.right + by, false);
    else if (event.key === "ArrowUp" || event.key === "+" || event.key === "=") zoom(0.7, hover, false);
    else if (event.key === "ArrowDown" || event.key === "-") zoom(1 / 0.7, hover, false);
    else if (event.key === "Home") showRange(begin, begin + span, true);
    else if (event.key === "End") showRange(duration - span, duration, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const nudge = (value: number, set: (t: number) => void, remove?: () => void) => (event: KeyboardEvent) => {
    const by = Math.max(1, (span / width) * (event.shiftKey ? 20 : 2));
    if (event.key === "ArrowLeft") set(clamp(value - by));
    else if (event.key === "ArrowRight") set(clamp(value + by));
    else if (event.key === "Home") set(begin);
    else if (event.key === "End") set(duration);
    else if ((event.key === "Delete" || event.key === "Backspace") && remove) remove();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const slider = (grip: Grip, label: string, name: string, t: number, set: (t: number) => void, remove?: () => void) => {
    const position = x(t);
    if (position < -1 || position > width + 1) return null;
    return (
      <div class={`handle handle-${name}`} style={{ transform: `translateX(${position}px)` }} role="slider" tabIndex={0} aria-label={label} aria-valuemin={begin} aria-valuemax={duration} aria-valuenow={t}
        aria-valuetext={format.duration(t)} title={`${label}: ${format.instant(t, span / width)}`} onPointerDown={grab(grip)} onKeyDown={nudge(t, set, remove)}>
        {(name === "a" || name === "b") && <span class="flag">{name.toUpperCase()}</span>}
      </div>
    );
  };

  const chosen = from !== null || to !== null;
  const low = Math.max(0, Math.min(width, x(start)));
  const high = Math.max(0, Math.min(width, x(end)));
  const peak = file.peak;
  return (
    <div class="layer" ref={layer} style={{ left: `${AXIS}px`, width: `${width}px` }} role="group" tabIndex={0} aria-label="Drag to choose a window, wheel to zoom, arrows to move"
      onPointerDown={grab("window")} onDblClick={() => choose({ from: null, to: null, left: null, right: null })} onKeyDown={keys}
      onPointerMove={(event) => setHover(timeAt(event.clientX))} onPointerLeave={() => setHover(null)}>
      {chosen && <div class="outside" style={{ left: 0, width: `${low}px` }} />}
      {chosen && <div class="outside" style={{ left: `${high}px`, width: `${Math.max(0, width - high)}px` }} />}
      {chosen && <div class="window-bar" style={{ left: `${low}px`, width: `${Math.max(0, high - low)}px` }} title="The window: drag to move it" onPointerDown={grab("whole")} />}
      {marksOf(course, range, x, width).map((mark) => (
        <div class={`mark${mark.leftwards ? " mark-left" : ""}`} key={mark.key} style={{ transform: `translateX(${mark.x}px)` }} title={mark.title}><span style={{ top: `${mark.lane * 13}px` }}>{mark.text}</span></div>
      ))}
      {peak && x(peak.at_ns) >= 0 && x(peak.at_ns) <= width && (
        <button type="button" class={`peak${x(peak.at_ns) > width - 150 ? " peak-left" : ""}`} style={{ transform: `translateX(${x(peak.at_ns)}px)` }} title={`The peak of the recording, ${format.bytes(peak.bytes)} at ${format.duration(peak.at_ns)}: put A here`}
          onPointerDown={(event) => event.stopPropagation()} onClick={() => choose({ at: "peak" })}><i>▼</i><span>peak {format.bytes(peak.bytes)}</span></button>
      )}
      {chosen && slider("from", "Start of the window", "from", start, (t) => choose({ from: Math.min(t, end - 1) }, false), () => choose({ from: null }))}
      {chosen && slider("to", "End of the window", "to", end, (t) => choose({ to: Math.max(t, start + 1) }, false), () => choose({ to: null }))}
      {instantB !== null && slider("b", "Instant B", "b", instantB, (t) => choose({ b: t }, false), () => choose({ b: null }))}
      {slider("a", "Instant A", "a", instantA, (t) => choose({ at: t }, false), () => choose({ at: null }))}
      {hover !== null && <Reading course={course} t={hover} x={x(hover)} width={width} measure={measure} resolution={span / width} />}
      <div class="axis-grip" title="Drag to move along the time" onPointerDown={grab("axis")} />
    </div>
  );
}

function Reading({ course, t, x, width, measure, resolution }: { course: Course | null; t: number; x: number; width: number; measure: "bytes" | "blocks"; resolution: number }) {
  const index = course ? binOf(course.t, t) : -1;
  let text = format.instant(t, Math.max(1, resolution));
  if (course && index >= 0) {
    const envelope = measure === "bytes" ? course.live_bytes : course.live_blocks;
    const [low, high] = [envelope.low[index], envelope.high[index]];
    const shown = (value: number) => (measure === "bytes" ? format.bytes(value) : format.count(value));
    text += low === high ? ` · ${shown(high)} live` : ` · ${shown(low)} – ${shown(high)} live`;
    const seconds = (course.t[index + 1] - course.t[index]) / 1e9;
    const amount = measure === "bytes" ? course.allocated_bytes[index] : course.allocations[index];
    if (amount > 0 && seconds > 0) text += ` · ${shown(amount / seconds)}/s`;
    for (const gauge of course.gauges.slice(0, 3)) {
      const value = along([t], gauge.t, gauge.value)[0];
      if (value !== null) text += ` · ${gauge.name} ${gauge.unit === "bytes" ? format.bytes(value) : format.count(value)}`;
    }
  }
  return <div class={`reading${x > width / 2 ? " reading-left" : ""}`} style={{ transform: `translateX(${x}px)` }}><span>{text}</span></div>;
}

export function binOf(edges: number[], t: number): number {
  if (edges.length < 2 || t < edges[0] || t > edges[edges.length - 1]) return -1;
  let low = 0;
  let high = edges.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edges[middle] <= t) low = middle;
    else high = middle - 1;
  }
  return low;
}

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
function marksOf(course: Course | null, range: Range, x: (t: number) => number, width: number): Shown[] {
  const shown: Shown[] = [];
  let sameUntil = -Infinity;
  let together = 0;
  const filled = [-Infinity, -Infinity, -Infinity];
  for (const [key, mark] of (course?.marks ?? []).entries()) {
    if (mark.t < range.left || mark.t > range.right) continue;
    const position = x(mark.t);
    if (position < sameUntil) {
      together += 1;
      const last = shown[shown.length - 1];
      if (together <= 12) last.title += `\n${clean(mark.name)} at ${format.duration(mark.t)}`;
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
    shown.push({ key, x: Math.min(width, position), text: name, title: `${name} at ${format.duration(mark.t)}`, lane, leftwards });
    if (shown.length >= 200) break;
  }
  return shown;
}
