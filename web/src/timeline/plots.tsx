// The curves and their axes, which uPlot draws.
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Bands, Timeline } from "../answers";
import { choice } from "../choice";
import { instant, perUnit, rate as rateOf } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { has } from "../sources";
import { colours } from "../theme";
import { atEdges, coloursOf, plotBox, restColour, restOf, valuesOf } from "./bands";
import { curvesOf } from "./gauges";
import { plotHeight } from "./height";
import type { Overlay } from "./overlay";
import type { Range } from "./range";

/** How wide the axis on the left is, and what is left free on the right. */
export const AXIS = 74;
export const RIGHT = 14;
export const RATE_HEIGHT = 34;
/** Room above the curves for the window and the names of peaks. */
const ABOVE = 24;

export function Plots({ timeline, bands, overlay, width, range }: { timeline: Timeline | null; bands: Bands | null; overlay: Overlay | null; width: number; range: Range }) {
  const element = useRef<HTMLDivElement>(null);
  const plots = useRef<{ live: uPlot; rate: uPlot } | null>(null);
  const measure = choice.value.measure;
  const theme = colours.value;
  const curves = curvesOf(timeline).filter((each) => each.shown);
  const height = plotHeight.value;
  const colouring = bands ? [restColour(), ...coloursOf(bands).reverse()] : [];
  // Under filters, curves of the whole process say nothing about the scale: what is filtered may be a thousandth of it.
  const isFiltered = choice.value.filters.length > 0;
  const kind = `${measure} ${isFiltered} ${curves.map((each) => each.name).join("\0")} ${colouring.join(" ")} ${overlay !== null}`;

  // Layout effects, because a page that is printed is drawn at once in the colours of paper.
  useLayoutEffect(() => {
    const options = liveOptions({ width, height, measure, gauges: curves.map((each) => each.colour), bands: colouring, hasOverlay: overlay !== null, isFiltered });
    const live = new uPlot(options, options.series.map(() => [0]) as unknown as uPlot.AlignedData, element.current!);
    const rate = new uPlot(rateOptions(width, measure), [[0], [0]], element.current!);
    // States have no events, so no rate of allocation is known.
    rate.root.style.display = has("states") ? "none" : "";
    plots.current = { live, rate };
    return () => {
      live.destroy();
      rate.destroy();
      plots.current = null;
    };
  }, [kind, theme]);

  useLayoutEffect(() => {
    plots.current?.live.setSize({ width, height });
    plots.current?.rate.setSize({ width, height: RATE_HEIGHT });
  }, [width, height]);

  useLayoutEffect(() => {
    if (!plots.current || !timeline) return;
    const { live, rate } = plots.current;
    const envelope = measure === "bytes" ? timeline.live_bytes : timeline.live_blocks;
    const t = timeline.t.slice(0, envelope.high.length + 1);
    const filled = (values: number[]) => (values.length < t.length ? [...values, values[values.length - 1] ?? 0] : values);
    const perSecond = (measure === "bytes" ? timeline.allocated_bytes : timeline.allocations).map((value, index) => rateOf(value, t[index + 1] - t[index]));
    const high = filled(envelope.high);
    const stacked = bands ? cumulated(bands, measure).map((values) => atEdges(t, bands.t, values)) : [];
    const area = bands ? [t.map(() => null), t.map(() => null)] : [high, filled(envelope.low)];
    live.setData([t, ...area, ...stacked, high, ...(overlay ? [overlay.along(t)] : []), ...curves.map((curve) => curve.along(t))] as uPlot.AlignedData, false);
    rate.setData([t, filled(perSecond)], false);
    live.setScale("x", { min: range.left, max: range.right });
    rate.setScale("x", { min: range.left, max: range.right });
  }, [timeline, bands, overlay?.timeline, kind, theme]);

  useLayoutEffect(() => {
    plots.current?.live.setScale("x", { min: range.left, max: range.right });
    plots.current?.rate.setScale("x", { min: range.left, max: range.right });
  }, [range.left, range.right]);

  return <div ref={element} aria-hidden="true" />;
}

/** The sums of bands from the bottom up, the highest first: each is drawn upon the one before. */
function cumulated(bands: Bands, measure: "bytes" | "blocks"): number[][] {
  const sums: number[][] = [];
  for (const values of [...bands.bands.map((band) => valuesOf(band, measure)), restOf(bands, measure)]) {
    const below = sums[sums.length - 1];
    sums.push(below ? values.map((value, index) => value + below[index]) : values);
  }
  return sums.reverse();
}

const STEPS = uPlot.paths.stepped!({ align: 1 });
/** Curves differ in more than their colour. */
const DASHES = [[5, 3], [2, 2], [8, 3], [3, 3, 1, 3]];
const POWERS_OF_TWO = Array.from({ length: 52 }, (_, power) => 2 ** power);
const INSTANTS = [
  ...Array.from({ length: 11 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat().filter((each) => each < 60e9),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].map((minutes) => minutes * 60e9),
];

function sign(): string {
  return estimate.isEstimated() ? "~" : "";
}

interface LiveLook {
  width: number;
  height: number;
  measure: "bytes" | "blocks";
  gauges: number[];
  /** The colours of the rest and of the bands, from the top down. */
  bands: string[];
  hasOverlay: boolean;
  isFiltered: boolean;
}

function liveOptions({ width, height, measure, gauges, bands, hasOverlay, isFiltered }: LiveLook): uPlot.Options {
  const theme = colours.value;
  /** Where the curve of all live memory is among the series. */
  const whole = 3 + bands.length;
  const highest = (plot: uPlot, high: number | null) => {
    if (!isFiltered) return high ?? 1;
    const drawn = [plot.data[whole], ...(hasOverlay ? [plot.data[whole + 1]] : [])];
    return Math.max(...drawn.flatMap((values) => Array.from(values ?? [], (value) => value ?? 0)), 0);
  };
  const fresh = { points: { show: false }, paths: STEPS };
  return {
    width, height, padding: [ABOVE, RIGHT, 0, 0], legend: { show: false }, cursor: { show: false }, select: { show: false } as uPlot.Select,
    scales: { x: { time: false, auto: false }, y: { range: (plot, _low, high) => [0, Math.max(1, highest(plot, high)) * 1.04] } },
    hooks: { draw: [(plot) => Object.assign(plotBox, { top: plot.bbox.top / devicePixelRatio, height: plot.bbox.height / devicePixelRatio, most: plot.scales.y.max ?? 1 })] },
    axes: [
      { stroke: theme.faint, font: "11px system-ui, sans-serif", grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line, size: 4 }, size: 22, gap: 2, space: 110, incrs: INSTANTS,
        values: (_plot, splits, _axis, _space, step) => splits.map((each) => instant(each, step)) },
      { stroke: theme.faint, font: "11px system-ui, sans-serif", grid: { stroke: theme.line, width: 1 }, ticks: { show: false }, size: AXIS, gap: 6, space: 22,
        ...(measure === "bytes" ? { incrs: POWERS_OF_TWO } : { incrs: INSTANTS }),
        values: (_plot, splits) => splits.map((each) => (each === 0 ? format.measured(0, measure) : measure === "bytes" ? estimate.bytes(each) : `${sign()}${format.shortCount(each)}`)) },
    ],
    series: [
      {},
      { ...fresh, width: 0, fill: theme.liveFill },
      { ...fresh, width: 0, fill: theme.liveLow },
      ...bands.map((colour) => ({ ...fresh, stroke: theme.paper, width: 0.5, fill: colour })),
      { ...fresh, stroke: theme.live, width: 1.25 },
      ...(hasOverlay ? [{ ...fresh, stroke: theme.other, width: 1.5 }] : []),
      ...gauges.map((colour) => ({ ...fresh, stroke: theme.gauges[colour], width: 1.25, dash: DASHES[colour % DASHES.length] })),
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
        splits: (plot) => [(plot.scales.y.max ?? 0) * 0.72], values: (plot) => [`${sign()}${measure === "bytes" ? format.bytes(plot.scales.y.max ?? 0) : format.shortCount(plot.scales.y.max ?? 0)}${perUnit()}`] },
    ],
    series: [{}, { points: { show: false }, paths: STEPS, stroke: theme.rate, width: 1, fill: theme.rateFill }],
  };
}
