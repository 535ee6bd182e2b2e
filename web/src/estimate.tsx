// Figures of samples look like what they are: `~` before each of them, the range beside it where there is room, and faint where the range is wide.
import type { Interval, Metric, Source } from "./answers";
import * as format from "./format";
import { source } from "./sources";
import "./estimate.css";

type Sampled = Pick<Source, "estimated" | "certainty"> | null;
/** The range that has the true value in 95 of 100 cases. */
export type Range = [low: number, high: number];

export function isEstimated(file: Sampled = source.value): boolean {
  return file?.estimated ?? false;
}

/** A figure as text: an estimate begins with `~`. */
function marked(text: string, file: Sampled): string {
  return isEstimated(file) ? `~${text}` : text;
}

export function bytes(value: number, file: Sampled = source.value): string {
  return marked(format.bytes(value), file);
}

export function count(value: number, file: Sampled = source.value): string {
  return marked(format.count(value), file);
}

export function plural(value: number, one: string, more?: string, file: Sampled = source.value): string {
  return marked(format.plural(value, one, more), file);
}

export function valued(value: number, metric: string, measure: "bytes" | "blocks" = "bytes"): string {
  return marked(format.valued(value, metric, measure), source.value);
}

export function measured(value: number, measure: "bytes" | "blocks"): string {
  return marked(format.measured(value, measure), source.value);
}

export function signedBytes(change: number, file: Sampled = source.value): string {
  return marked(format.signed(format.bytes(change), change), file);
}

export function signedCount(change: number, file: Sampled = source.value): string {
  return marked(format.signed(format.count(change), change), file);
}

/** Up to this number of samples the bounds are exact ones; from there on the normal distribution is close enough. */
const FEW = 100;
const TAIL = 0.025;
const DEVIATIONS = 1.96;

/** The probability of at most `most` samples if `rate` are expected. */
function atMost(most: number, rate: number): number {
  let term = Math.exp(-rate);
  let sum = term;
  for (let each = 1; each <= most; each += 1) {
    term *= rate / each;
    sum += term;
  }
  return sum;
}

function solve(isBelow: (rate: number) => boolean): number {
  let [low, high] = [0, 4 * FEW];
  for (let step = 0; step < 60; step += 1) {
    const middle = (low + high) / 2;
    if (isBelow(middle)) low = middle;
    else high = middle;
  }
  return low;
}

const BOUNDS = new Map<number, Range>();

/** The least and the greatest number of samples that may be expected where `found` of them were taken: Garwood's bounds, as the server has them. */
function expectedSamples(found: number): Range {
  if (found >= FEW) return [found - DEVIATIONS * Math.sqrt(found), found + DEVIATIONS * Math.sqrt(found)];
  let bounds = BOUNDS.get(found);
  if (!bounds) {
    bounds = [found === 0 ? 0 : solve((rate) => 1 - atMost(found - 1, rate) < TAIL), solve((rate) => atMost(found, rate) > TAIL)];
    BOUNDS.set(found, bounds);
  }
  return bounds;
}

/** The range of estimated bytes that this number of samples makes; null if they are exact, or it is not known how they were sampled. If the samples are not known, they follow from the bytes. */
export function rangeOfBytes(value: number, samples?: number, file: Sampled = source.value): Range | null {
  if (!isEstimated(file) || !file?.certainty) return null;
  const { bytes_per_sample: spacing, spread } = file.certainty;
  const found = samples ?? Math.round(value / spacing);
  const [low, high] = expectedSamples(found);
  return [Math.max(0, Math.round(value - (found - low) * spread * spacing)), Math.round(value + (high - found) * spread * spacing)];
}

const INTERVALS: { [metric in Metric]?: string } = { live: "live_bytes", peak: "live_bytes", leaked: "live_bytes", "own-peak": "peak_bytes", allocated: "allocated_bytes", freed: "freed_bytes" };

/** The range of a row's value: the one that its answer has, or the one that follows from its bytes. Counts have none. */
export function rangeOfRow(row: { value: number; value_samples?: number } & Interval, metric: Metric): Range | null {
  if (format.isCount(metric) || !isEstimated()) return null;
  const given = Array.isArray(row.interval_95) ? row.interval_95 : row.interval_95?.[INTERVALS[metric] ?? ""];
  return given ?? rangeOfBytes(row.value, row.value_samples);
}

/** "15.7–462.6 KiB"; one figure where both ends read the same. */
export function rangeText([low, high]: Range): string {
  const [first, last] = [format.bytes(low), format.bytes(high)];
  if (first === last) return first;
  const unit = last.slice(last.indexOf(" "));
  return first.endsWith(unit) ? `${first.slice(0, -unit.length)}–${last}` : `${first} – ${last}`;
}

/** What is more than this part of a figure away from it makes the figure faint. */
const WIDE = 0.5;

export function isWide(value: number, range: Range | null): boolean {
  return range !== null && (range[1] - value > value * WIDE || value - range[0] > value * WIDE);
}

export function rangeTitle(value: number, range: Range | null): string | undefined {
  return range === null ? undefined : `${rangeText(range)} in 95 of 100 cases${isWide(value, range) ? "; faint, because the range goes beyond ±50%" : ""}`;
}

/** Bytes with their range as a title; with `beside`, in the text, too. */
export function Bytes({ value, samples, beside = false }: { value: number; samples?: number; beside?: boolean }) {
  const range = rangeOfBytes(value, samples);
  if (!isEstimated()) return <>{format.bytes(value)}</>;
  return <span class={isWide(value, range) ? "estimate wide" : "estimate"} title={rangeTitle(value, range)}>{bytes(value)}{beside && range && <small class="range"> {rangeText(range)}</small>}</span>;
}

/** The column of a table that has the ranges; none where everything is exact, and where the window has no room. */
export function rangeColumn<Row>(of: (row: Row) => Range | null) {
  if (!source.value?.certainty || innerWidth < LEAST_WIDTH) return [];
  return [{ name: "range", title: "95% range", width: "128px", numeric: true, hint: "The true value lies in this range in 95 of 100 cases; figures whose range goes beyond ±50% are faint", cell: (row: Row) => {
    const range = of(row);
    return range ? <span class="range">{rangeText(range)}</span> : "";
  } }];
}

const LEAST_WIDTH = 1000;
