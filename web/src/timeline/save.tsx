// The timeline as files: the bins as CSV, and what is drawn as an SVG.
import type { Bands, Timeline } from "../answers";
import { choice } from "../choice";
import { instant } from "../clock";
import { saveRows, type CsvColumns } from "../csv";
import { fileName, saveFile } from "../download";
import * as estimate from "../estimate";
import { escaped } from "../flame/svg";
import { SaveMenu } from "../menu";
import { source } from "../sources";
import { colours } from "../theme";
import { atEdges, coloursOf, restColour, restOf, valuesOf } from "./bands";
import { nameOfBand } from "./band_legend";
import { curvesOf } from "./gauges";
import { plotHeight } from "./height";
import type { Overlay } from "./overlay";
import { AXIS, RIGHT } from "./plots";
import type { Range } from "./range";

interface Shown {
  timeline: Timeline;
  bands: Bands | null;
  overlay: Overlay | null;
  range: Range;
  width: number;
}

export function SaveTimeline(shown: Shown) {
  const { bands, timeline } = shown;
  const of = source.value?.name ?? "";
  const part = bands ? `timeline-by-${bands.by}` : "timeline";
  const saveCsv = () => (bands ? saveRows(of, part, columnsOfBands(bands), bands.at.map((_, bin) => bin)) : saveRows(of, part, columnsOf(timeline), timeline.t.slice(1).map((_, bin) => bin)));
  const saveSvg = () => saveFile(`${fileName(of)}-${part}.svg`, "image/svg+xml", svgOfTimeline(shown, part));
  return <SaveMenu name="Timeline" actions={[{ name: "Save as CSV", run: saveCsv }, { name: "Save as a picture (SVG)", run: saveSvg }]} />;
}

/** A row for each bin. */
function columnsOf(timeline: Timeline): CsvColumns<number> {
  const { t, live_bytes: bytes, live_blocks: blocks } = timeline;
  const columns: CsvColumns<number> = {
    from_ns: (bin) => t[bin], to_ns: (bin) => t[bin + 1], live_bytes_low: (bin) => bytes.low[bin], live_bytes_high: (bin) => bytes.high[bin], live_bytes_last: (bin) => bytes.last[bin],
    live_blocks_low: (bin) => blocks.low[bin], live_blocks_high: (bin) => blocks.high[bin], live_blocks_last: (bin) => blocks.last[bin],
    allocated_bytes: (bin) => timeline.allocated_bytes[bin], allocations: (bin) => timeline.allocations[bin], freed_bytes: (bin) => timeline.freed_bytes[bin],
  };
  for (const curve of curvesOf(timeline).filter((each) => each.shown)) {
    const values = curve.along(t.slice(1));
    columns[`gauge ${curve.name}`] = (bin) => values[bin];
  }
  return columns;
}

/** What each band holds at the instant of each bin. */
function columnsOfBands(bands: Bands): CsvColumns<number> {
  const { measure } = choice.value;
  const total = valuesOf(bands.total, measure);
  const rest = restOf(bands, measure);
  const columns: CsvColumns<number> = { at_ns: (bin) => bands.at[bin], [`total_${measure}`]: (bin) => total[bin] };
  for (const [index, band] of bands.bands.entries()) {
    const values = valuesOf(band, measure);
    columns[`${index + 1}: ${band.key}${band.detail ? ` ${band.detail}` : ""}`] = (bin) => values[bin];
  }
  columns["the rest"] = (bin) => rest[bin];
  return columns;
}

const TOP = 22;
const BOTTOM = 22;
const LINE = 16;

interface Scale {
  x: (t: number) => number;
  y: (value: number) => number;
}

/** The next 1, 2 or 5 with zeros. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return (([1, 2, 5].find((each) => each * power >= least)) ?? 10) * power;
}

/** A stepped path through the values of bins. */
function steps(edges: number[], values: (number | null)[], { x, y }: Scale): string {
  let path = "";
  for (const [bin, value] of values.entries()) {
    if (value === null || bin + 1 >= edges.length) continue;
    const begins = values[bin - 1] === null || path === "";
    path += `${begins ? `M${x(edges[bin]).toFixed(1)},` : "V"}${y(value).toFixed(1)}H${x(edges[bin + 1]).toFixed(1)}`;
  }
  return path;
}

function area(edges: number[], values: number[], scale: Scale): string {
  const zero = scale.y(0).toFixed(1);
  const count = Math.min(values.length, edges.length - 1);
  return count > 0 ? `${steps(edges, values, scale)}V${zero}H${scale.x(edges[0]).toFixed(1)}Z` : "";
}

/** The same areas and curves as in the plot, with names below. */
export function svgOfTimeline({ timeline, bands, overlay, range, width }: Shown, title: string): string {
  const theme = colours.value;
  const { measure } = choice.value;
  const envelope = measure === "bytes" ? timeline.live_bytes : timeline.live_blocks;
  const edges = timeline.t;
  const starts = edges.slice(0, -1);
  const curves = curvesOf(timeline).filter((each) => each.shown).map((curve) => ({ name: curve.title, colour: theme.gauges[curve.colour], values: curve.along(starts) }));
  const second = overlay ? overlay.along(starts) : [];
  const most = Math.max(1, ...envelope.high, ...second.map((value) => value ?? 0), ...curves.flatMap((curve) => curve.values.map((value) => value ?? 0))) * 1.04;
  const height = plotHeight.value;
  const scale: Scale = {
    x: (t) => Math.max(AXIS, Math.min(width - RIGHT, AXIS + ((t - range.left) / Math.max(1e-9, range.right - range.left)) * (width - AXIS - RIGHT))),
    y: (value) => height - BOTTOM - (value / most) * (height - BOTTOM - TOP),
  };
  const parts: string[] = [];
  const names: [string, string][] = [];
  const text = (x: number, y: number, words: string, anchor = "start") => parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="${escaped(theme.faint)}">${escaped(words)}</text>`);
  const step = measure === "bytes" ? 2 ** Math.ceil(Math.log2(most / 4)) : roundStep(most / 4);
  for (let value = 0; value <= most; value += step) {
    const y = scale.y(value);
    parts.push(`<path d="M${AXIS},${y.toFixed(1)}H${width - RIGHT}" stroke="${escaped(theme.line)}" fill="none"/>`);
    text(AXIS - 6, y + 4, measure === "bytes" ? estimate.bytes(value) : estimate.count(value), "end");
  }
  const every = roundStep((range.right - range.left) / 8);
  for (let t = Math.ceil(range.left / every) * every; t <= range.right; t += every) text(scale.x(t), height - 6, instant(t, every), scale.x(t) > width - RIGHT - 40 ? "end" : "middle");
  const filled = (values: number[], colour: string, name: string) => parts.push(`<path d="${area(edges, values, scale)}" fill="${escaped(colour)}" stroke="none"><title>${escaped(name)}</title></path>`);
  const drawn = (values: (number | null)[], colour: string, name: string) => parts.push(`<path d="${steps(edges, values, scale)}" fill="none" stroke="${escaped(colour)}" stroke-width="1.25"><title>${escaped(name)}</title></path>`);
  if (bands) {
    const layers = [...bands.bands.map((band, index) => ({ name: nameOfBand(band.key, band.detail), colour: coloursOf(bands)[index], values: valuesOf(band, measure) })), { name: "the rest", colour: restColour(), values: restOf(bands, measure) }];
    let below: number[] = bands.at.map(() => 0);
    const sums = layers.map(({ values }) => (below = values.map((value, bin) => value + below[bin])));
    for (let at = layers.length - 1; at >= 0; at -= 1) filled(atEdges(starts, bands.t, sums[at]), layers[at].colour, layers[at].name);
    names.push(...layers.map((layer): [string, string] => [layer.colour, layer.name]));
  } else {
    filled(envelope.high, theme.liveFill, "the most of each bin");
    filled(envelope.low, theme.liveLow, "the least of each bin");
  }
  drawn(envelope.high, theme.live, `live ${measure}`);
  names.unshift([theme.live, `live ${measure}`]);
  if (overlay) {
    drawn(second, theme.other, overlay.title);
    names.push([theme.other, overlay.title]);
  }
  for (const curve of curves) {
    drawn(curve.values, curve.colour, curve.name);
    names.push([curve.colour, curve.name]);
  }
  names.forEach(([colour, name], index) => {
    const y = height + 4 + index * LINE;
    parts.push(`<rect x="${AXIS}" y="${y}" width="10" height="10" fill="${escaped(colour)}"/>`);
    text(AXIS + 16, y + 9, name);
  });
  const whole = height + 8 + names.length * LINE;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${whole}" viewBox="0 0 ${width} ${whole}" font-family="system-ui, sans-serif" font-size="11"><title>${escaped(title)}</title><rect width="100%" height="100%" fill="${escaped(theme.paper)}"/>${parts.join("")}</svg>\n`;
}
