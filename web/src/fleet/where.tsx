// Which processes of a fleet count: a list for each label, and a chip for what no list has.
import { choice, choose, LABELS, type Label } from "../choice";
import { clean } from "../names";
import { saved } from "../saved";
import type { FleetTimeline } from "./answers";

/** A label that is not known is empty. */
export const shownValue = (value: string): string => (value === "" ? "(none)" : clean(value));

/** The value that a label must have; null if it may have any. */
export function valueOf(label: string): string | null {
  const found = choice.value.where.find((each) => each.startsWith(`${label}=`));
  return found === undefined ? null : found.slice(label.length + 1);
}

export function chooseValue(label: string, value: string | null): void {
  const others = choice.value.where.filter((each) => !each.startsWith(`${label}=`));
  choose({ where: value === null ? others : [...others, `${label}=${value}`] });
}

/** The values of a label, those that were seen first most recently before others. */
export function valuesOf(answer: FleetTimeline | null, label: Label): string[] {
  if (label === "host") return [];
  const first = new Map<string, number>();
  for (const each of answer?.labels ?? []) first.set(each[label], Math.min(first.get(each[label]) ?? Infinity, each.first_slot));
  const sign = label === "version" ? -1 : 1;
  return [...first.keys()].sort((a, b) => (label === "version" ? first.get(b)! - first.get(a)! : 0) || sign * a.localeCompare(b, "en", { numeric: true }));
}

/** `all`: the answer about all processes, so that a list has what was not chosen, too. */
export function Where({ all }: { all: FleetTimeline | null }) {
  const listed = LABELS.filter((label) => valuesOf(all, label).length > 1 || (label !== "host" && valueOf(label) !== null));
  const chips = choice.value.where.filter((each) => !listed.some((label) => each.startsWith(`${label}=`)));
  return (
    <>
      {listed.map((label) => {
        const value = valueOf(label);
        const values = valuesOf(all, label);
        return (
          <label key={label}>{label} <select class="fleet-label" disabled={saved !== null} value={value === null ? "all" : `=${value}`} onChange={(event) => chooseValue(label, event.currentTarget.value === "all" ? null : event.currentTarget.value.slice(1))}>
            <option value="all">all</option>
            {(value === null || values.includes(value) ? values : [value, ...values]).map((each) => <option value={`=${each}`} key={each}>{shownValue(each)}</option>)}
          </select></label>
        );
      })}
      {chips.map((each) => <span class="chip" key={each}><span>{clean(each)}</span> <button type="button" class="quiet" aria-label={`Remove ${clean(each)}`} onClick={() => choose({ where: choice.value.where.filter((other) => other !== each) })}>×</button></span>)}
    </>
  );
}
