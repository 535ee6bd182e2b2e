// Memory over time, above every view: curves that are drawn, and above them all that can be taken hold of.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Bands, Peak, Timeline as TimelineAnswer } from "../answers";
import { useAnswer } from "../answer";
import { choice } from "../choice";
import { about, naming, question } from "../question";
import { saved } from "../saved";
import { HeightSeparator } from "../separator";
import { has, source } from "../sources";
import { StatusLine } from "../status";
import { BandLegend } from "./band_legend";
import { mostBands } from "./bands";
import { HEIGHT, plotHeight } from "./height";
import { Lanes } from "./lanes";
import { Layer } from "./layer";
import { Legend } from "./legend";
import { useOverlay } from "./overlay";
import { SaveTimeline } from "./save";
import { AXIS, Plots, RATE_HEIGHT, RIGHT } from "./plots";
import { peakOfFiltered } from "./peak";
import { instantOf, peakOfWindow, visibleRange } from "./range";

export function Timeline() {
  const file = source.value;
  if (!file || !has("timeline") || file.duration_ns <= (file.begins_ns ?? 0)) return null;
  return <FileTimeline key={file.id} />;
}

function FileTimeline() {
  const file = source.value!;
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const range = visibleRange();
  const plotWidth = Math.max(1, width - AXIS - RIGHT);
  const points = saved ? 600 : Math.max(100, Math.round(plotWidth / 100) * 50);
  const whole = choice.value.left === null && choice.value.right === null;
  const answer = useAnswer<TimelineAnswer>(width === 0 ? null : question("timeline", {
    source: file.id, from: whole ? null : range.left, to: whole ? null : range.right, points, filter: choice.value.filters,
  }), 60);
  const { from, to, filters, stack, lanes, measure, at } = choice.value;
  const stacked = useAnswer<Bands>(width === 0 || stack === "" ? null : question("bands", {
    source: file.id, by: stack, top: mostBands(), from: whole ? null : range.left, to: whole ? null : range.right, points, measure: measure === "blocks" ? "blocks" : null, filter: filters, ...naming(),
  }), 60);
  const bands = stack !== "" && stacked.data?.by === stack ? stacked.data : null;
  const [overlay, overlaid] = useOverlay(range, points);
  const instantA = instantOf(at, to ?? file.duration_ns);
  const peak = useAnswer<Peak>(from === null && to === null ? null : about("peak", { at: null, filter: null }), 60);
  // Of what is filtered, the peak of the whole recording is in the answer only while all of it is shown.
  const zoomed = useAnswer<TimelineAnswer>(whole || filters.length === 0 ? null : question("timeline", { source: file.id, points: 1, filter: filters }), 60);
  const drawn = whole ? answer : zoomed;
  const asked = [answer, stacked, zoomed, peak, overlaid];
  const status = asked.find((each) => each.problem !== null) ?? asked.find((each) => each.waiting) ?? stacked;
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
    <section class="timeline" aria-label="Timeline">
      <Legend timeline={answer.data} overlay={overlay}>{answer.data && width > 0 && <SaveTimeline timeline={answer.data} bands={bands} overlay={overlay} range={range} width={width} />}</Legend>
      <div class="timeline-body" style={{ minHeight: `${plotHeight.value + RATE_HEIGHT}px` }}>
        <div class="timeline-frame" ref={frame}>
          {!answer.data && <div class="timeline-skeleton" aria-hidden="true">{answer.problem === null ? "Reading…" : "No timeline."}</div>}
          {width > 0 && answer.data && (
            <div class="timeline-plots">
              <Plots timeline={answer.data} bands={lanes ? null : bands} overlay={overlay} width={width} range={range} />
              <Layer timeline={answer.data} bands={lanes ? null : bands} overlay={overlay} width={plotWidth} range={range} />
            </div>
          )}
          {bands && lanes && <Lanes bands={bands} width={plotWidth} range={range} instantA={instantA} />}
        </div>
        {bands && !lanes && <BandLegend bands={bands} instantA={instantA} resolution={(range.right - range.left) / plotWidth} />}
      </div>
      <StatusLine answer={status} />
      <HeightSeparator of={HEIGHT} shown={plotHeight.value} label="Height of the timeline" />
    </section>
  );
}
