// Instants and lengths of time as a file has them: times, or the lines of a log that tells none.
import type { Source } from "./answers";
import * as format from "./format";
import { source } from "./sources";

export function isTimed(file: Source | null = source.value): boolean {
  return file?.timed !== false;
}

/** "12.5s", or "line 1,204". */
export function when(at: number, file: Source | null = source.value): string {
  return isTimed(file) ? format.duration(at) : `line ${format.count(at)}`;
}

/** "12.5s", or "1,204 lines". */
export function length(long: number, file: Source | null = source.value): string {
  return isTimed(file) ? format.duration(long) : format.plural(long, "line");
}

/** An instant as exact as steps of `resolution` need. */
export function instant(at: number, resolution: number): string {
  return isTimed() ? format.instant(at, resolution) : `line ${format.count(at)}`;
}

/** How much in each second, or in each line, from an amount in some time. */
export function rate(amount: number, long: number): number {
  return amount / Math.max(1e-9, isTimed() ? long / 1e9 : long);
}

export function perUnit(): string {
  return isTimed() ? "/s" : "/line";
}
