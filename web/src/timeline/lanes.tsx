// Lanes: one small curve for each row, below the timeline and on its axis. Each has a scale of its own.
import type { Band, Bands } from "../answers";
import { binAt } from "../bins";
import { addFilter, choice, type Grouping } from "../choice";
import * as estimate from "../estimate";
import * as format from "../format";
import { menuHandlers } from "../menu";
import { clean } from "../names";
import { saved } from "../saved";
import { keptBy } from "../subject";
import { coloursOf, filterOfBand, keyOf, pointer, restColour, restOf, subjectOfBand, valuesOf } from "./bands";
import { nameOfBand } from "./band_legend";
import { AXIS, RIGHT } from "./plots";
import type { Range } from "./range";
import "./bands.css";

const HEIGHT = 22;

export function Lanes({ bands, width, range, instantA }: { bands: Bands; width: number; range: Range; instantA: number | null }) {
  const { measure } = choice.value;
  const by = bands.by as Grouping;
  const colours = coloursOf(bands);
  const bin = binAt(bands.t, pointer.value?.t ?? instantA ?? bands.at[bands.at.length - 1] ?? 0);
  const written = (value: number) => estimate.measured(value, measure);
  const rest = restOf(bands, measure);
  const drawn = (values: number[], colour: string) => {
    const most = Math.max(1, ...values);
    const x = (t: number) => (((t - range.left) / Math.max(1e-9, range.right - range.left)) * width).toFixed(1);
    const y = (value: number) => (HEIGHT - 1 - (value / most) * (HEIGHT - 3)).toFixed(1);
    const steps = values.map((value, index) => `V${y(value)}H${x(bands.t[index + 1])}`).join("");
    return <svg width={width} height={HEIGHT} aria-hidden="true"><path d={`M${x(bands.t[0])},${HEIGHT}${steps}V${HEIGHT}Z`} style={{ fill: colour }} /></svg>;
  };
  const lane = (band: Band, index: number) => {
    const values = valuesOf(band, measure);
    const name = nameOfBand(band.key, band.detail);
    const filter = filterOfBand(band, by);
    const value = values[bin] ?? 0;
    return (
      <button type="button" class="lane" key={keyOf(band)} data-lane={band.key} data-id={band.id} data-value={value} style={{ paddingLeft: `${AXIS}px`, paddingRight: `${RIGHT}px` }} aria-haspopup="menu"
        title={`${clean(band.key)}: ${written(Math.max(0, ...values))} at most${filter && !saved ? `\nClick: ${keptBy(filter, by)}. Right click: more` : ""}`} aria-label={`${name}, ${written(value)}${filter && !saved ? `: ${keptBy(filter, by)}` : ""}`}
        onClick={() => { if (filter && !saved) addFilter(filter); }}
        {...menuHandlers(() => subjectOfBand(band, by))}>
        <b>{written(value)}</b>{drawn(values, colours[index])}<span>{name}</span>
      </button>
    );
  };
  return (
    <div class="lanes" role="group" aria-label={`Live ${measure}, one lane for each ${by}`} data-at={bands.at[bin]}>
      {bands.bands.map(lane)}
      {rest.some((value) => value > 0) && (
        <div class="lane lane-rest" style={{ paddingLeft: `${AXIS}px`, paddingRight: `${RIGHT}px` }} data-value={rest[bin]}><b>{written(rest[bin] ?? 0)}</b>{drawn(rest, restColour())}<span>{bands.rest.count > 0 ? `the rest: ${format.count(bands.rest.count)} more` : "in no row"}</span></div>
      )}
    </div>
  );
}
