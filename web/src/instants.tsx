// The instants of a saved page: A moves among them, and comes to rest at the nearest.
import { choice, choose } from "./choice";
import { instant } from "./clock";
import * as format from "./format";
import { clean } from "./names";
import { savedInstants, type SavedInstant } from "./saved";
import { source } from "./sources";
import { instantOf } from "./timeline/range";
import "./instants.css";

/** The saved instant at which A is; null between them, or where there are none. */
function current(): SavedInstant | null {
  const file = source.value;
  const instants = savedInstants(file?.id ?? -1);
  const { at, to } = choice.value;
  const time = instantOf(at, to ?? file?.duration_ns ?? 0);
  return instants.find((each) => each.at_ns === time) ?? (typeof at === "string" ? instants.find((each) => each.is_chosen) : null) ?? null;
}

/** The time of the saved instant before A, or after it; null where there is none. */
export function neighbour(step: 1 | -1): number | null {
  const instants = savedInstants(choice.value.source);
  const at = instants.indexOf(current()!);
  return at < 0 ? null : instants[at + step]?.at_ns ?? null;
}

/** Their list, in words. */
export function SavedInstants() {
  const instants = savedInstants(source.value?.id ?? -1);
  if (instants.length === 0) return null;
  return (
    <label class="saved-instants" title="A saved page has the data of some instants: A comes to rest at the nearest">
      one of <select id="saved-instant" aria-label={`A: one of ${instants.length} saved instants`} value={current()?.at_ns ?? ""} onChange={(event) => choose({ at: Number(event.currentTarget.value) })}>
        {instants.map((each) => <option value={each.at_ns} key={each.at_ns}>{instant(each.at_ns, stepOf(instants))}{each.name && ` (${clean(each.name)})`}</option>)}
      </select> {format.plural(instants.length, "saved instant")}
    </label>
  );
}

/** Marks of the saved instants, on the timeline. */
export function InstantMarks({ x, width }: { x: (t: number) => number; width: number }) {
  const shown = savedInstants(source.value?.id ?? -1).filter((each) => x(each.at_ns) >= 0 && x(each.at_ns) <= width);
  return <>{shown.map((each) => <i class="saved-instant" key={each.at_ns} aria-hidden="true" style={{ transform: `translateX(${x(each.at_ns)}px)` }} />)}</>;
}

/** The least distance of two of them: their times need as many digits. */
function stepOf(instants: SavedInstant[]): number {
  return instants.slice(1).reduce((least, each, index) => Math.min(least, each.at_ns - instants[index].at_ns), Infinity) / 10;
}
