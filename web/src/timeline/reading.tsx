// What the curves say under the pointer.
import type { Bands, Measure, Timeline } from "../answers";
import { binAt } from "../bins";
import { instant, perUnit, rate } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean } from "../names";
import { nameOfBand } from "./band_legend";
import { restOf, valuesOf } from "./bands";
import { along, curvesOf } from "./gauges";

export function Reading({ timeline, bands, band, t, x, width, measure, resolution }: { timeline: Timeline | null; bands: Bands | null; band: number | null; t: number; x: number; width: number; measure: Measure; resolution: number }) {
  const { t: edges } = timeline ?? { t: [] };
  const index = edges.length < 2 || t < edges[0] || t > edges[edges.length - 1] ? -1 : binAt(edges, t);
  let text = instant(t, Math.max(1, resolution));
  if (timeline && index >= 0) {
    const envelope = measure === "bytes" ? timeline.live_bytes : timeline.live_blocks;
    const [low, high] = [envelope.low[index], envelope.high[index]];
    const shown = (value: number) => estimate.measured(value, measure);
    text += shown(low) === shown(high) ? ` · ${shown(high)} live` : ` · ${shown(low)} – ${shown(high)} live`;
    if (bands && band !== null) {
      const own = bands.bands[band];
      text += ` · ${own ? nameOfBand(own.key, own.detail) : "the rest"} ${shown((own ? valuesOf(own, measure) : restOf(bands, measure))[binAt(bands.t, t)] ?? 0)}`;
    }
    const long = timeline.t[index + 1] - timeline.t[index];
    const amount = measure === "bytes" ? timeline.allocated_bytes[index] : timeline.allocations[index];
    if (amount > 0 && long > 0) text += ` · ${shown(rate(amount, long))}${perUnit()}`;
    const add = (name: string, value: number | null, written: (value: number) => string) => {
      if (value !== null) text += ` · ${clean(name)} ${written(value)}`;
    };
    // Beside the bands there is less room.
    for (const curve of bands ? [] : curvesOf(timeline).filter((each) => each.shown)) add(curve.title, curve.along([t])[0], format.bytes);
    for (const gauge of timeline.gauges.filter((each) => each.unit === null).slice(0, 3)) add(gauge.name, along([t], gauge.t, gauge.value)[0], format.count);
  }
  return <div class={`reading${x > width / 2 ? " reading-left" : ""}`} style={{ transform: `translateX(${x}px)` }}><span>{text}</span></div>;
}
