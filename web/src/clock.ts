// Instants and lengths of time as a file has them: times, or lines of a log, instructions or bytes where there are none.
import type { Source } from "./answers";
import * as format from "./format";
import { source } from "./sources";

export function isTimed(file: Source | null = source.value): boolean {
  return file?.timed !== false;
}

/** What a file without times counts: "line", "instruction" or "byte". */
export function unit(file: Source | null = source.value): string {
  return file?.clock && file.clock !== "ns" ? file.clock : "line";
}

/** "12.5s", or "line 1,204". */
export function when(at: number, file: Source | null = source.value): string {
  return isTimed(file) ? format.duration(at) : `${unit(file)} ${format.count(at)}`;
}

/** "12.5s", or "1,204 lines". */
export function length(long: number, file: Source | null = source.value): string {
  return isTimed(file) ? format.duration(long) : format.plural(long, unit(file));
}

/** An instant as exact as steps of `resolution` need. */
export function instant(at: number, resolution: number): string {
  return isTimed() ? format.instant(at, resolution) : `${unit()} ${format.count(at)}`;
}

/** How much in each second, or in each line, from an amount in some time. */
export function rate(amount: number, long: number): number {
  return amount / Math.max(1e-9, isTimed() ? long / 1e9 : long);
}

export function perUnit(): string {
  return isTimed() ? "/s" : `/${unit()}`;
}
