// Gauges: what the program or the system says of its memory now and then.
import type { Timeline as Course } from "../answers";

/** Gauges that have the unit of what is drawn, as many as can be told apart. */
export function gaugesOf(course: Course | null, measure: string): Course["gauges"] {
  return measure === "bytes" ? (course?.gauges ?? []).filter((each) => each.unit === "bytes").slice(0, 3) : [];
}

/** A gauge's last reading before each edge. */
export function along(edges: number[], t: number[], value: number[]): (number | null)[] {
  let next = 0;
  return edges.map((edge) => {
    while (next < t.length && t[next] <= edge) next += 1;
    return next === 0 ? null : value[next - 1];
  });
}
