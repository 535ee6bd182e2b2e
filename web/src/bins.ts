// Which bin of a time axis an instant is in. Every list of times here is in ascending order.

/** The index of the last time that is at most `t`; −1 if all are later. */
export function lastAtMost(times: number[], t: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The bin between two edges that an instant is in; the nearest one outside. */
export function binAt(edges: number[], t: number): number {
  return Math.max(0, Math.min(edges.length - 2, lastAtMost(edges, t)));
}
