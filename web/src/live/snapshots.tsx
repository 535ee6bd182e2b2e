// Snapshots that programs took of themselves, and snapshots that were opened in this session.
import { useState } from "preact/hooks";
import type { Source } from "../answers";
import type { Act } from "../actions";
import { choose } from "../choice";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean } from "../names";
import { question } from "../question";
import { takenAt, titleOf } from "../sources";
import type { Subject } from "../subject";
import { Table, type Column } from "../table";
import { signOf, ms, type OwnSnapshot } from "./answers";
import { usePolled } from "./following";
import { open } from "./opening";
import { snapshotsOf } from "./processes";
import { fitting } from "./width";

const EVERY_MS = 3000;

export function useOwnSnapshots(): OwnSnapshot[] {
  const answer = usePolled<{ snapshots: OwnSnapshot[] }>(question("live/own", {}), EVERY_MS);
  return answer.data?.snapshots ?? [];
}

/** The latest first. */
export function OwnSnapshots({ own, act, isBusy }: { own: OwnSnapshot[]; act: Act; isBusy: boolean }) {
  const [opened, setOpened] = useState(-1);
  const list = [...own].reverse();
  const opening = (one: OwnSnapshot) => {
    setOpened(one.id);
    void act(({ signal }) => open({ kind: "own", id: one.id }, signal));
  };
  const columns: Column<OwnSnapshot>[] = [
    { name: "id", title: "Number", width: "64px", numeric: true, cell: (one) => one.id },
    { name: "taken", title: "Taken", width: "136px", numeric: true, cell: (one) => format.timeOfDay(ms(one.taken_unix_ns)) },
    { name: "name", title: "Name", width: "minmax(120px, 1fr)", cell: (one) => <b class="name" title={clean(one.name)}>{clean(one.name)}</b> },
    { name: "program", title: "Program", width: "minmax(90px, 180px)", cell: (one) => <span class="name">{clean(one.program)}</span> },
    { name: "pid", title: "Process", width: "72px", numeric: true, cell: (one) => one.pid },
    { name: "live", title: "Live", width: "84px", numeric: true, cell: (one) => <b>{signOf(one.is_estimate)}{format.bytes(one.live_bytes)}</b> },
    { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: (one) => `${signOf(one.is_estimate)}${format.count(one.live_blocks)}` },
    { name: "open", title: "", width: "90px", cell: (one) => <span class="actions"><button type="button" disabled={isBusy} onClick={(event) => { event.stopPropagation(); opening(one); }}>{isBusy && opened === one.id ? "opening …" : "Open"}</button></span> },
  ];
  if (list.length === 0) return null;
  return <><h2>Snapshots that programs took of themselves</h2><Table label="Snapshots of programs" columns={fitting(columns, ["id", "pid", "blocks"])} count={list.length} row={(index) => list[index]} rowHeight={30} subject={(one) => ({ name: one.name, actions: isBusy ? [] : [{ name: "Open", run: () => opening(one) }] })} /></>;
}

/** The snapshot of the same process before one. */
function earlierOf(taken: Source): Source | undefined {
  return snapshotsOf(taken.pid ?? null).find((each) => each.id < taken.id);
}

const TAKEN: Column<Source>[] = [
  { name: "pid", title: "Process", width: "72px", numeric: true, cell: (taken) => taken.pid },
  { name: "taken", title: "Taken", width: "136px", numeric: true, cell: (taken) => { const at = takenAt(taken); return at === null ? "" : format.timeOfDay(at); } },
  { name: "name", title: "Name", width: "minmax(160px, 1fr)", cell: (taken) => <span class="name">{titleOf(taken)}</span> },
  { name: "live", title: "Live", width: "84px", numeric: true, cell: (taken) => <b>{estimate.bytes(taken.live_at_end?.bytes ?? 0, taken)}</b> },
  { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: (taken) => estimate.count(taken.live_at_end?.blocks ?? 0, taken) },
  { name: "open", title: "", width: "300px", cell: (taken) => {
    const earlier = earlierOf(taken);
    return (
      <span class="actions">
        <button type="button" onClick={(event) => { event.stopPropagation(); choose({ source: taken.id, view: "overview" }); }}>Open</button>
        {taken.has.includes("rss") && <button type="button" title="Where its resident memory is" onClick={(event) => { event.stopPropagation(); choose({ source: taken.id, view: "rss" }); }}>RSS</button>}
        {earlier && <button type="button" onClick={(event) => { event.stopPropagation(); choose({ source: earlier.id, other: taken.id, view: "compare" }); }}>Compare with the one before</button>}
      </span>
    );
  } },
];

function subjectOfTaken(taken: Source): Subject {
  const earlier = earlierOf(taken);
  const actions = [{ name: "Open", run: () => choose({ source: taken.id, view: "overview" }) }];
  if (taken.has.includes("rss")) actions.push({ name: "Where its resident memory is", run: () => choose({ source: taken.id, view: "rss" }) });
  if (earlier) actions.push({ name: "Compare with the one before", run: () => choose({ source: earlier.id, other: taken.id, view: "compare" }) });
  return { name: titleOf(taken), actions };
}

export function TakenSnapshots() {
  const taken = snapshotsOf(null);
  if (taken.length === 0) return null;
  return <><h2>Snapshots of this session</h2><Table label="Snapshots" columns={fitting(TAKEN, ["pid", "taken", "blocks"])} count={taken.length} row={(index) => taken[index]} rowHeight={30} subject={subjectOfTaken} /></>;
}
