// The processes of the collector: running ones, ended ones with their last state, and those that cannot be read.
import { useState } from "preact/hooks";
import type { Source } from "../answers";
import type { Act } from "../actions";
import { choose } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import * as format from "../format";
import { clean } from "../names";
import { sources } from "../sources";
import type { Subject } from "../subject";
import { Table, type Column } from "../table";
import { signOf, ms, type Live, type LiveTimeline, type Process } from "./answers";
import { compare, open, type Opened } from "./opening";
import { Spark } from "./spark";
import { fitting } from "./width";

/** The snapshots that were taken of a process, or of all, the latest first. */
export function snapshotsOf(pid: number | null): Source[] {
  return (sources.value ?? []).filter((each) => each.kind === "live" && (pid === null || each.pid === pid)).reverse();
}

const lastRss = (timeline: LiveTimeline | null): number => timeline?.rss_bytes.last.at(-1) ?? 0;

const live = (process: Process) => <b>{signOf(process.is_estimate)}{format.bytes(process.live_bytes)}</b>;
const blocks = (process: Process) => `${signOf(process.is_estimate)}${format.count(process.live_blocks)}`;

function nameColumn<Row extends Process>(): Column<Row> {
  return { name: "name", title: "Name", width: "minmax(90px, 180px)", cell: (process) => <span class="name" title={clean(process.name)}>{clean(process.name)}</span> };
}

const CSV: CsvColumns<Process> = {
  pid: (process) => process.pid, name: (process) => process.name, live_bytes: (process) => process.live_bytes, live_blocks: (process) => process.live_blocks, rss_bytes: (process) => lastRss(process.timeline) || null,
  since_unix_ns: (process) => process.since_unix_ns, exited_unix_ns: (process) => process.exited_unix_ns, mode: (process) => process.mode,
};

const watch = (process: Process) => choose({ process: process.key });

export function Processes({ live: known, act, isBusy }: { live: Live; act: Act; isBusy: boolean }) {
  const [chosen, setChosen] = useState("");
  const busy = isBusy ? chosen : "";
  const doing = (key: string, work: (signal: AbortSignal) => Promise<void>) => {
    setChosen(key);
    void act(({ signal }) => work(signal));
  };
  const now = ms(known.now_unix_ns ?? Date.now() * 1e6);
  const running: Column<Process>[] = [
    { name: "pid", title: "Process", width: "72px", numeric: true, cell: (process) => process.pid },
    nameColumn(),
    { name: "spark", title: "Live bytes over time", width: "minmax(150px, 1fr)", cell: (process) => <Spark timeline={process.timeline} /> },
    { name: "live", title: "Live", width: "84px", numeric: true, cell: live },
    { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: blocks },
    { name: "rss", title: "RSS", width: "84px", numeric: true, hint: "The resident set", cell: (process) => (lastRss(process.timeline) ? format.bytes(lastRss(process.timeline)) : "") },
    { name: "since", title: "Runs for", width: "76px", numeric: true, cell: (process) => <span title={`Since ${format.timeOfDay(ms(process.since_unix_ns))}`}>{format.seconds(now - ms(process.since_unix_ns))}</span> },
    { name: "mode", title: "Mode", width: "84px", cell: (process) => clean(process.mode) },
    { name: "actions", title: "", width: "254px", cell: (process) => {
      const last = snapshotsOf(process.pid)[0];
      const fresh: Opened = { kind: "new", process: process.key };
      return (
        <span class="actions">
          <button type="button" class="primary" title="Its timeline, and which sites grow" onClick={(event) => { event.stopPropagation(); watch(process); }}>Watch</button>
          <button type="button" disabled={isBusy} title="Every block of it, now" onClick={(event) => { event.stopPropagation(); doing(process.key, (signal) => open(fresh, signal)); }}>{busy === process.key ? "taking it …" : "Snapshot now"}</button>
          {last && <button type="button" disabled={isBusy} title="A snapshot now, compared with the last one" onClick={(event) => { event.stopPropagation(); doing(process.key, (signal) => compare({ kind: "source", id: last.id }, fresh, signal)); }}>and compare</button>}
        </span>
      );
    } },
  ];
  const ended: Column<Process>[] = [
    running[0], running[1], running[2],
    { name: "live", title: "Live at the end", width: "104px", numeric: true, cell: live },
    { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: blocks },
    { name: "ended", title: "Ended", width: "136px", numeric: true, cell: (process) => <span title={`${format.seconds(now - ms(process.exited_unix_ns!))} ago`}>{format.timeOfDay(ms(process.exited_unix_ns!))}</span> },
    { name: "ran", title: "Ran for", width: "76px", numeric: true, cell: (process) => format.seconds(ms(process.exited_unix_ns! - process.since_unix_ns)) },
    { name: "actions", title: "", width: "176px", cell: (process) => (
      <span class="actions">
        <button type="button" title="Its timeline, and its sites when it ended" onClick={(event) => { event.stopPropagation(); watch(process); }}>Timeline</button>
        <button type="button" disabled={isBusy} title="Every block that was live when it ended" onClick={(event) => { event.stopPropagation(); doing(process.key, (signal) => open({ kind: "new", process: process.key }, signal)); }}>{busy === process.key ? "opening …" : "Last state"}</button>
      </span>
    ) },
  ];
  const refused: Column<Process>[] = [
    running[0], nameColumn(),
    { name: "problem", title: "Why", width: "minmax(200px, 1fr)", cell: (process) => <span class="name" title={clean(process.problem ?? "")}>{clean(process.problem ?? "")}</span> },
  ];
  const subject = (process: Process): Subject => {
    const last = snapshotsOf(process.pid)[0];
    const fresh: Opened = { kind: "new", process: process.key };
    const hasEnded = process.exited_unix_ns !== null;
    return {
      name: process.name,
      actions: [
        { name: hasEnded ? "Timeline" : "Watch", run: () => watch(process) },
        ...(isBusy ? [] : [{ name: hasEnded ? "Last state" : "Snapshot now", run: () => doing(process.key, (signal) => open(fresh, signal)) }]),
        ...(last && !isBusy && !hasEnded ? [{ name: "Snapshot now, and compare", run: () => doing(process.key, (signal) => compare({ kind: "source", id: last.id }, fresh, signal)) }] : []),
      ],
    };
  };
  const estimate = known.processes.some((each) => each.is_estimate);
  return (
    <>
      <div class="tools">
        {known.collector && <small class="in-all" title={`Of the collector at ${clean(known.collector)}`}>{format.plural(known.processes.length, "process", "processes")}, {signOf(estimate)}{format.bytes(known.processes.reduce((sum, each) => sum + each.live_bytes, 0))} live in all</small>}
        {known.processes.length + known.ended.length > 0 && <><span class="stretch" /><SaveCsv of="live" part="processes" columns={CSV} rows={() => [...known.processes, ...known.ended]} /></>}
        {known.no_timelines && <small class="problem">No timelines: {clean(known.no_timelines)}. Start the collector anew with this version.</small>}
      </div>
      <Table label="Processes" columns={fitting(running, ["spark", "blocks", "rss", "mode"])} count={known.processes.length} row={(index) => known.processes[index]} rowHeight={36} empty="" subject={subject} />
      {known.processes.length === 0 && !known.problem && <p class="nothing">No live process. Start one with <code>highwater run PROGRAM</code>; a Rust program can also call <code>highwater::live()</code>. It appears here within a second.</p>}
      {known.refused.length > 0 && <><h2>Cannot be read</h2><Table label="Processes that cannot be read" columns={refused} count={known.refused.length} row={(index) => known.refused[index]} subject={(process) => ({ name: process.name })} /></>}
      {known.ended.length > 0 && <><h2>Ended, with their last state</h2><Table label="Ended processes" columns={fitting(ended, ["spark", "blocks", "ran"])} count={known.ended.length} row={(index) => known.ended[index]} rowHeight={36} subject={subject} /></>}
    </>
  );
}
