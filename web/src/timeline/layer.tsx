// Everything that can be taken hold of lies above the curves, as ordinary elements: the window and its two edges, the handles A and B, marks, the peak.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bands, Timeline } from "../answers";
import { addFilter, choice, choose, DEFAULT, fragmentOf, type Choice, type Grouping } from "../choice";
import { instant, when } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { openMenu } from "../menu";
import { saved } from "../saved";
import { source } from "../sources";
import { InstantMarks, neighbour } from "../instants";
import { bandAt, filterOfBand, plotBox, pointer, subjectOfBand } from "./bands";
import { LifeBar } from "./life";
import { marksOf } from "./marks";
import { peakOfOverlay, type Overlay } from "./overlay";
import { shownPeak } from "./peak";
import { AXIS } from "./plots";
import { instantOf, instantOfB, showRange, visibleRange, wholeRange, zoom, type Range } from "./range";
import { Reading } from "./reading";

type Grip = "window" | "from" | "to" | "whole" | "a" | "b" | "axis";

/** Within how many milliseconds a second click makes a double one. */
const DOUBLE = 500;

/** The last click, and what it moved. */
interface Clicked {
  time: number;
  x: number;
  before: Pick<Choice, "at" | "b" | "other">;
  isStep: boolean;
}

/** Positions follow from the visible range alone, so that nothing waits for a drawing. */
export function Layer({ timeline, bands, overlay, width, range }: { timeline: Timeline | null; bands: Bands | null; overlay: Overlay | null; width: number; range: Range }) {
  const file = source.value!;
  const layer = useRef<HTMLDivElement>(null);
  const [hover, setHover] = useState<{ t: number; band: number | null } | null>(null);
  const { from, to, at, b, measure } = choice.value;
  const { left: begin, right: duration } = wholeRange();
  const span = Math.max(1e-9, range.right - range.left);
  const x = (t: number) => ((t - range.left) / span) * width;
  const clamp = (t: number) => Math.round(Math.min(duration, Math.max(begin, t)));
  const timeAt = (clientX: number) => clamp(range.left + ((clientX - layer.current!.getBoundingClientRect().left) / width) * span);
  /** The band under the pointer. */
  const bandUnder = (event: { clientX: number; clientY: number }): number | null => {
    if (!bands) return null;
    const y = event.clientY - layer.current!.getBoundingClientRect().top - plotBox.top;
    return y < 0 || y > plotBox.height ? null : bandAt(bands, measure, timeAt(event.clientX), (1 - y / plotBox.height) * plotBox.most);
  };
  const point = (place: { t: number; band: number | null } | null) => {
    setHover(place);
    pointer.value = place;
  };
  useEffect(() => () => { pointer.value = null; }, []);
  const start = from ?? begin;
  const end = to ?? duration;
  const instantA = instantOf(at, end);
  const instantB = b === null ? null : choice.value.other !== null && choice.value.other !== file.id ? null : instantOfB(b, file, duration);
  const clicked = useRef<Clicked | null>(null);

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
      const { at, b, other } = choice.value;
      const last = clicked.current;
      // The second click of a double one says nothing of its own.
      if (last && now.timeStamp - last.time < DOUBLE && Math.abs(now.clientX - last.x) < 8) return;
      const band = now.shiftKey || saved ? undefined : bands?.bands[bandUnder(now) ?? -1];
      const filter = band && filterOfBand(band, bands!.by as Grouping);
      if (filter) {
        addFilter(filter);
        return;
      }
      const before = fragmentOf(choice.value);
      choose(now.shiftKey ? { b: began, other: file.id } : { at: began });
      clicked.current = { time: now.timeStamp, x: now.clientX, before: { at, b, other }, isStep: fragmentOf(choice.value) !== before };
    };
    target.addEventListener("pointermove", drag);
    target.addEventListener("pointerup", drop);
    target.addEventListener("pointercancel", drop);
  };

  /** All of the time again; what the first of the two clicks moved goes back. */
  const seeAll = (event: MouseEvent) => {
    const { at, b, other } = choice.value;
    const { before, isStep } = clicked.current ?? { before: { at, b, other }, isStep: false };
    clicked.current = { time: event.timeStamp, x: event.clientX, before, isStep: false };
    choose({ ...before, from: null, to: null, left: null, right: null }, !isStep);
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
    else if (event.key === "ArrowUp" || event.key === "+" || event.key === "=") zoom(0.7, hover?.t ?? null, false);
    else if (event.key === "ArrowDown" || event.key === "-") zoom(1 / 0.7, hover?.t ?? null, false);
    else if (event.key === "Home") showRange(begin, begin + span, true);
    else if (event.key === "End") showRange(duration - span, duration, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const nudge = (value: number, set: (t: number) => void, remove?: () => void, next?: (step: 1 | -1) => number | null) => (event: KeyboardEvent) => {
    const by = Math.max(1, (span / width) * (event.shiftKey ? 20 : 2));
    if (event.key === "ArrowLeft") set(next?.(-1) ?? clamp(value - by));
    else if (event.key === "ArrowRight") set(next?.(1) ?? clamp(value + by));
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
        aria-valuetext={when(t)} title={`${label}: ${instant(t, span / width)}`} onPointerDown={grab(grip)} onKeyDown={nudge(t, set, remove, grip === "a" ? neighbour : undefined)}>
        {(name === "a" || name === "b") && <span class="flag">{name.toUpperCase()}</span>}
      </div>
    );
  };

  const chosen = from !== null || to !== null;
  const low = Math.max(0, Math.min(width, x(start)));
  const high = Math.max(0, Math.min(width, x(end)));
  const peak = shownPeak();
  const otherPeak = overlay && measure === "bytes" ? peakOfOverlay(overlay) : null;
  const rssPeak = measure === "bytes" ? file.rss_peak : null;
  return (
    <div class="layer" ref={layer} style={{ left: `${AXIS}px`, width: `${width}px` }} role="group" tabIndex={0} aria-label="Drag to choose a window, wheel to zoom, arrows to move"
      onPointerDown={grab("window")} onDblClick={seeAll} onKeyDown={keys}
      onContextMenu={(event) => {
        const band = bands?.bands[bandUnder(event) ?? -1];
        if (!band) return;
        event.preventDefault();
        openMenu(subjectOfBand(band, bands!.by as Grouping), { x: event.clientX, y: event.clientY });
      }}
      onPointerMove={(event) => point({ t: timeAt(event.clientX), band: bandUnder(event) })} onPointerLeave={() => point(null)}>
      {chosen && <div class="outside" style={{ left: 0, width: `${low}px` }} />}
      {chosen && <div class="outside" style={{ left: `${high}px`, width: `${Math.max(0, width - high)}px` }} />}
      {chosen && <div class="window-bar" style={{ left: `${low}px`, width: `${Math.max(0, high - low)}px` }} title="The window: drag to move it" onPointerDown={grab("whole")} />}
      <LifeBar x={x} width={width} />
      {marksOf(timeline, range, x, width).map((mark) => (
        <div class={`mark${mark.leftwards ? " mark-left" : ""}`} key={mark.key} style={{ transform: `translateX(${mark.x}px)` }} title={mark.title}><span style={{ top: `${mark.lane * 13}px` }}>{mark.text}</span></div>
      ))}
      <InstantMarks x={x} width={width} />
      {peak && x(peak.at_ns) >= 0 && x(peak.at_ns) <= width && (
        <button type="button" class={`peak${x(peak.at_ns) > width - 150 ? " peak-left" : ""}`} style={{ transform: `translateX(${x(peak.at_ns)}px)` }} title={peak.title}
          onPointerDown={(event) => event.stopPropagation()} onDblClick={(event) => event.stopPropagation()} onClick={() => choose({ at: peak.goal })}><i>▼</i><span>peak {estimate.bytes(peak.bytes)}</span></button>
      )}
      {rssPeak && x(rssPeak.at_ns) >= 0 && x(rssPeak.at_ns) <= width && (
        <button type="button" class={`rss-peak${x(rssPeak.at_ns) > width - 150 ? " peak-left" : ""}`} style={{ transform: `translateX(${x(rssPeak.at_ns)}px)` }} title={`RSS is highest, ${format.bytes(rssPeak.bytes)} at ${when(rssPeak.at_ns)}: put A here (r)`}
          onPointerDown={(event) => event.stopPropagation()} onDblClick={(event) => event.stopPropagation()} onClick={() => choose({ at: "rss-peak" })}><i>▽</i><span data-exact>RSS peak {format.bytes(rssPeak.bytes)}</span></button>
      )}
      {otherPeak && x(otherPeak.at) >= 0 && x(otherPeak.at) <= width && (
        <button type="button" class={`other-peak${x(otherPeak.at) > width - 150 ? " peak-left" : ""}`} style={{ transform: `translateX(${x(otherPeak.at)}px)` }} title={`The peak of ${overlay!.title}, ${estimate.bytes(otherPeak.bytes, overlay!.file)} at ${when(otherPeak.own, overlay!.file)}: put B here`}
          onPointerDown={(event) => event.stopPropagation()} onDblClick={(event) => event.stopPropagation()} onClick={() => choose({ b: otherPeak.own, other: overlay!.file.id })}><i>▼</i><span>{estimate.bytes(otherPeak.bytes, overlay!.file)}</span></button>
      )}
      {chosen && slider("from", "Start of the window", "from", start, (t) => choose({ from: Math.min(t, end - 1) }, false), () => choose({ from: null }))}
      {chosen && slider("to", "End of the window", "to", end, (t) => choose({ to: Math.max(t, start + 1) }, false), () => choose({ to: null }))}
      {instantB !== null && slider("b", "Instant B", "b", instantB, (t) => choose({ b: t }, false), () => choose({ b: null }))}
      {instantA !== null && slider("a", "Instant A", "a", instantA, (t) => choose({ at: t }, false), () => choose({ at: DEFAULT.at }))}
      {hover !== null && <Reading timeline={timeline} bands={bands} band={hover.band} t={hover.t} x={x(hover.t)} width={width} measure={measure} resolution={span / width} />}
      <div class="axis-grip" title="Drag to move along the time" onPointerDown={grab("axis")} />
    </div>
  );
}
