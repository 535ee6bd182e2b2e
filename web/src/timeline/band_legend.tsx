// The bands beside the timeline: their names, and what they hold at the pointer, or at A. A click filters by a band.
import type { Bands } from "../answers";
import { binAt } from "../bins";
import { addFilter, choice, type Grouping } from "../choice";
import { instant } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { menuHandlers } from "../menu";
import { clean, shown } from "../names";
import { saved } from "../saved";
import { keptBy } from "../subject";
import { coloursOf, filterOfBand, keyOf, pointer, restColour, restOf, subjectOfBand, valuesOf } from "./bands";
import "./bands.css";

export function nameOfBand(key: string, detail?: string): string {
  return `${shown(key)}${detail ? ` ${clean(detail)}` : ""}`;
}

export function BandLegend({ bands, instantA, resolution }: { bands: Bands; instantA: number | null; resolution: number }) {
  const { measure } = choice.value;
  const by = bands.by as Grouping;
  const at = pointer.value?.t ?? instantA ?? bands.at[bands.at.length - 1] ?? 0;
  const bin = binAt(bands.t, at);
  const colours = coloursOf(bands);
  const written = (value: number) => estimate.measured(value, measure);
  const under = pointer.value?.band ?? null;
  const rest = restOf(bands, measure);
  const total = valuesOf(bands.total, measure)[bin] ?? 0;
  return (
    <div class="band-legend" role="group" aria-label={`Live ${measure} by ${by}`} data-at={bands.at[bin]}>
      <p class="band-head"><span>{by} at {instant(bands.at[bin] ?? 0, Math.max(1, resolution))}</span><b>{written(total)}</b></p>
      {/* The band on top stands on top. */}
      {(bands.rest.count > 0 || rest.some((value) => value > 0)) && (
        <p class={`band band-rest${under === bands.bands.length ? " band-under" : ""}`} data-band-rest data-value={rest[bin]}><i style={{ background: restColour() }} /><span>{bands.rest.count > 0 ? `the rest: ${format.count(bands.rest.count)} more` : "in no row"}</span><b>{written(rest[bin] ?? 0)}</b></p>
      )}
      {bands.bands.map((band, index) => ({ band, index })).reverse().map(({ band, index }) => {
        const filter = filterOfBand(band, by);
        const value = valuesOf(band, measure)[bin] ?? 0;
        const name = nameOfBand(band.key, band.detail);
        return (
          <button type="button" key={keyOf(band)} class={`band${under === index ? " band-under" : ""}`} data-band={band.key} data-id={band.id} data-value={value} title={`${clean(band.key)}${filter && !saved ? `\nClick: ${keptBy(filter, by)}. Right click: more` : ""}`} aria-label={`${name}, ${written(value)}${filter && !saved ? `: ${keptBy(filter, by)}` : ""}`} aria-haspopup="menu"
            onClick={() => { if (filter && !saved) addFilter(filter); }}
            {...menuHandlers(() => subjectOfBand(band, by))}><i style={{ background: colours[index] }} /><span>{name}</span><b>{written(value)}</b></button>
        );
      })}
    </div>
  );
}
