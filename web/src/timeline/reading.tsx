// What the curves say under the pointer.
import type { Bands, Measure, Timeline as Course } from "../answers";
import { instant, perUnit, rate } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean } from "../names";
import { nameOfBand } from "./band_legend";
import { binAt, restOf, valuesOf } from "./bands";
import { along, curvesOf } from "./gauges";

export function Reading({ course, bands, band, t, x, width, measure, resolution }: { course: Course | null; bands: Bands | null; band: number | null; t: number; x: number; width: number; measure: Measure; resolution: number }) {
  const index = course ? binOf(course.t, t) : -1;
  let text = instant(t, Math.max(1, resolution));
  if (course && index >= 0) {
    const envelope = measure === "bytes" ? course.live_bytes : course.live_blocks;
    const [low, high] = [envelope.low[index], envelope.high[index]];
    const shown = (value: number) => estimate.measured(value, measure);
    text += shown(low) === shown(high) ? ` · ${shown(high)} live` : ` · ${shown(low)} – ${shown(high)} live`;
    if (bands && band !== null) {
      const own = bands.bands[band];
      text += ` · ${own ? nameOfBand(own.key, own.detail) : "the rest"} ${shown((own ? valuesOf(own, measure) : restOf(bands, measure))[binAt(bands.t, t)] ?? 0)}`;
    }
    const long = course.t[index + 1] - course.t[index];
    const amount = measure === "bytes" ? course.allocated_bytes[index] : course.allocations[index];
    if (amount > 0 && long > 0) text += ` · ${shown(rate(amount, long))}${perUnit()}`;
    const add = (name: string, value: number | null, written: (value: number) => string) => {
      if (value !== null) text += ` · ${clean(name)} ${written(value)}`;
    };
    // Beside the bands there is less room.
    for (const curve of bands ? [] : curvesOf(course).filter((each) => each.shown)) add(curve.title, curve.along([t])[0], format.bytes);
    for (const gauge of course.gauges.filter((each) => each.unit === null).slice(0, 3)) add(gauge.name, along([t], gauge.t, gauge.value)[0], format.count);
  }
  return <div class={`reading${x > width / 2 ? " reading-left" : ""}`} style={{ transform: `translateX(${x}px)` }}><span>{text}</span></div>;
}

/** The bin that an instant is in, or −1. */
function binOf(edges: number[], t: number): number {
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
