// The course of memory over time, above every view: curves that are drawn, and above them all that can be taken hold of.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Peak, Timeline as Course } from "../answers";
import { useAnswer } from "../answer";
import { choice } from "../choice";
import { about, question } from "../question";
import { saved } from "../saved";
import { has, source } from "../sources";
import { StatusLine } from "../status";
import { Layer } from "./layer";
import { Legend } from "./legend";
import { AXIS, Plots, RIGHT } from "./plots";
import { peakOfFiltered } from "./peak";
import { peakOfWindow, visibleRange } from "./range";

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
  const { from, to, filters } = choice.value;
  const peak = useAnswer<Peak>(from === null && to === null ? null : about("peak", { at: null, filter: null }), 60);
  // Of what is filtered, the peak of the whole recording is in the answer only while all of it is shown.
  const zoomed = useAnswer<Course>(whole || filters.length === 0 ? null : question("timeline", { source: file.id, points: 1, filter: filters }), 60);
  const drawn = whole ? answer : zoomed;
  useEffect(() => {
    peakOfWindow.value = peak.waiting || peak.problem !== null ? null : peak.data;
    peakOfFiltered.value = filters.length === 0 || drawn.waiting || drawn.problem !== null ? null : drawn.data?.peak ?? null;
  }, [peak, drawn, filters]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <section class="timeline" aria-label="Timeline" ref={frame}>
      {!answer.data && <div class="timeline-skeleton" aria-hidden="true">{answer.problem === null ? "Reading…" : "No timeline."}</div>}
      {width > 0 && answer.data && (
        <div class="timeline-plots">
          <Plots course={answer.data} width={width} range={range} />
          <Layer course={answer.data} width={plotWidth} range={range} />
        </div>
      )}
      {answer.data && <Legend course={answer.data} />}
      <StatusLine answer={answer} />
    </section>
  );
}
