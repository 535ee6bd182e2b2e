// Marks on the timeline of a process: looks at it, and snapshots that it took of itself. One or two can be chosen.
import { useState } from "preact/hooks";
import { useActions } from "../actions";
import * as format from "../format";
import { clean } from "../names";
import { StatusLine } from "../status";
import { signOf, ms, type Look, type OwnSnapshot } from "./answers";
import { compare, open, type Opened } from "./opening";

export interface Mark {
  id: string;
  /** Nanoseconds since 1970. */
  at: number;
  title: string;
  isOwn: boolean;
  opened: Opened;
}

export function markOfLook(process: string, look: Look): Mark {
  const approx = signOf(look.is_estimate);
  const title = `Look of ${format.timeOfDay(look.at_unix_ms)}: ${approx}${format.bytes(look.live_bytes)} in ${approx}${format.plural(look.live_blocks, "block")}`;
  return { id: `look ${look.number}`, at: look.at_unix_ms * 1e6, title, isOwn: false, opened: { kind: "look", process, number: look.number } };
}

export function markOfOwn(own: OwnSnapshot): Mark {
  const approx = signOf(own.is_estimate);
  const title = `“${clean(own.name)}” of ${format.timeOfDay(ms(own.taken_unix_ns))}: ${approx}${format.bytes(own.live_bytes)} in ${approx}${format.plural(own.live_blocks, "block")}`;
  return { id: `own ${own.id}`, at: own.taken_unix_ns, title, isOwn: true, opened: { kind: "own", id: own.id } };
}

/** The least distance of two marks in pixels: nearer ones could not be hit. */
const LEAST_DISTANCE = 11;

/** The marks that have room. The newest has, then chosen ones and those of the program, then the others from left to right; the list beside the timeline has all. */
function markedApart(marks: Mark[], chosen: Mark[], x: (ns: number) => number): Mark[] {
  const rank = (mark: Mark) => (mark === marks[marks.length - 1] ? 0 : chosen.some((each) => each.id === mark.id) ? 1 : mark.isOwn ? 2 : 3);
  const apart: Mark[] = [];
  for (const mark of [...marks].sort((a, b) => rank(a) - rank(b) || a.at - b.at)) if (apart.every((each) => Math.abs(x(each.at) - x(mark.at)) >= LEAST_DISTANCE)) apart.push(mark);
  return apart.sort((a, b) => a.at - b.at);
}

/** All looks and snapshots, by their times: also those that have no room on the timeline. */
export function MarkList({ marks, onChoose }: { marks: Mark[]; onChoose: (mark: Mark) => void }) {
  if (marks.length === 0) return null;
  return (
    <select class="mark-list" aria-label="Choose a look" value="" onChange={(event) => {
      const mark = marks.find((each) => each.id === event.currentTarget.value);
      event.currentTarget.value = "";
      if (mark) onChoose(mark);
    }}>
      <option value="">{format.plural(marks.length, "look")} …</option>
      {[...marks].reverse().map((mark) => <option value={mark.id} key={mark.id}>{mark.title}</option>)}
    </select>
  );
}

/** With the keyboard, arrows go from mark to mark: they are one stop of the Tab key. */
export function Marks({ marks: all, chosen, onChoose, x }: { marks: Mark[]; chosen: Mark[]; onChoose: (mark: Mark) => void; x: (ns: number) => number }) {
  const marks = markedApart(all, chosen, x);
  const [focused, setFocused] = useState("");
  const stop = marks.find((mark) => mark.id === focused)?.id ?? marks[marks.length - 1]?.id;
  const keys = (event: KeyboardEvent, index: number) => {
    const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: marks.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const mark = marks[Math.max(0, Math.min(marks.length - 1, next))];
    setFocused(mark.id);
    (event.currentTarget as HTMLElement).parentElement?.querySelector<HTMLElement>(`[data-mark="${mark.id}"]`)?.focus();
  };
  return (
    <div class="marks" role="group" aria-label="Looks and snapshots">
      {marks.map((mark, index) => (
        <button type="button" key={mark.id} data-mark={mark.id} class={mark.isOwn ? "mark own" : "mark"} style={{ left: `${x(mark.at)}px` }} title={`${mark.title}. Click two to compare them.`} aria-label={mark.title}
          aria-pressed={chosen.some((each) => each.id === mark.id)} tabIndex={mark.id === stop ? 0 : -1} onFocus={() => setFocused(mark.id)} onClick={() => onChoose(mark)} onKeyDown={(event) => keys(event, index)} />
      ))}
    </div>
  );
}

/** What can be done with the chosen marks. */
export function ChosenMarks({ chosen, marks, clear }: { chosen: Mark[]; marks: Mark[]; clear: () => void }) {
  const [action, act] = useActions();
  if (chosen.length === 0) return null;
  const busy = action.waiting;
  const between = (one: Mark, other: Mark) => {
    const [earlier, later] = one.at <= other.at ? [one, other] : [other, one];
    return act(({ signal }) => compare(earlier.opened, later.opened, signal));
  };
  const looks = marks.filter((mark) => !mark.isOwn);
  const [first, last] = [looks[0], looks[looks.length - 1]];
  const [one, other] = chosen;
  return (
    <div class="tools chosen-marks">
      {chosen.map((mark) => <span key={mark.id}>{mark.title} <button type="button" disabled={busy} onClick={() => void act(({ signal }) => open(mark.opened, signal))}>Open</button></span>)}
      {other && <button type="button" class="primary" disabled={busy} onClick={() => void between(one, other)}>Compare both</button>}
      {!other && first && first.id !== one.id && <button type="button" disabled={busy} onClick={() => void between(one, first)}>Compare with the first</button>}
      {!other && last && last.id !== one.id && <button type="button" disabled={busy} onClick={() => void between(one, last)}>Compare with the latest</button>}
      {!other && <small>or click another mark</small>}
      <button type="button" class="quiet" aria-label="Choose none" onClick={clear}>×</button>
      <StatusLine answer={action} />
    </div>
  );
}
