// Processes of the collector: figures that tick, a snapshot of one at the press of a button, and what changed since an earlier one.
import { useEffect, useState } from "preact/hooks";
import type { Live, Process, Source } from "../answers";
import { ask, Failure, post } from "../api";
import { choose } from "../choice";
import { Curve } from "../curve";
import * as format from "../format";
import { clean } from "../names";
import { lookAtSources, sources, titleOf } from "../sources";
import { Table, type Column } from "../table";

const KEPT = 60;
/** The course of each process while this page looked: a reading a second. */
const courses = new Map<number, number[]>();

export function LiveView() {
  const [live, problem, told] = useLive();
  const [busy, setBusy] = useState<number | null>(null);

  const snapshot = async (process: Process, before: Source | undefined) => {
    setBusy(process.pid);
    try {
      const { source } = await post<{ source: Source }>("live/snapshot", new URLSearchParams({ pid: String(process.pid) }));
      await lookAtSources();
      choose(before ? { source: before.id, other: source.id, view: "compare" } : { source: source.id, view: "overview" });
    } catch (error) {
      told(error);
    }
    setBusy(null);
  };

  const columns: Column<Process>[] = [
    { name: "pid", title: "Process", width: "72px", numeric: true, cell: (process) => process.pid },
    { name: "name", title: "Name", width: "minmax(110px, 180px)", cell: (process) => <span class="name" title={clean(process.name)}>{clean(process.name)}</span> },
    { name: "course", title: "Live bytes, the last minute", width: "minmax(160px, 1fr)", cell: (process) => <Curve stretched height={24} values={courses.get(process.pid) ?? []} label="Live bytes of the last minute" /> },
    { name: "live", title: "Live", width: "84px", numeric: true, cell: (process) => <b>{format.bytes(process.live_bytes)}</b> },
    { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: (process) => format.count(process.live_blocks) },
    { name: "since", title: "Watched for", width: "84px", numeric: true, cell: (process) => format.duration(Math.max(0, Math.round((Date.now() - process.since_unix_ns / 1e6) / 1e3) * 1e9)) },
    { name: "mode", title: "Mode", width: "92px", cell: (process) => clean(process.mode) },
    { name: "snapshot", title: "", width: "236px", cell: (process) => {
      const last = snapshotsOf(process.pid)[0];
      return (
        <span class="actions">
          <button type="button" class="primary" disabled={busy !== null} onClick={(event) => { event.stopPropagation(); void snapshot(process, undefined); }}>{busy === process.pid ? "taking it …" : "Snapshot now"}</button>
          {last && <button type="button" disabled={busy !== null} onClick={(event) => { event.stopPropagation(); void snapshot(process, last); }}>and compare</button>}
        </span>
      );
    } },
  ];
  const taken = snapshotsOf(null);
  return (
    <div class="live-view">
      <div class="tools">
        {live?.collector && <small title={`Of the collector at ${clean(live.collector)}`}>{format.plural(live.processes.length, "process", "processes")}, {format.bytes(live.processes.reduce((sum, each) => sum + each.live_bytes, 0))} live in all</small>}
      </div>
      {problem && <p class="told problem" role="alert">{clean(problem)}</p>}
      {live?.problem && <p class="told problem" role="alert">{clean(live.problem)}</p>}
      {live && <Table label="Processes" columns={columns} count={live.processes.length} row={(index) => live.processes[index]} rowHeight={34} empty="No process is watched: start one with 'highwater run PROGRAM'." />}
      {taken.length > 0 && <h2>Snapshots of this session</h2>}
      {taken.length > 0 && <Table label="Snapshots" columns={TAKEN} count={taken.length} row={(index) => taken[index]} rowHeight={30} />}
    </div>
  );
}

/** What the collector says, asked every second; what went wrong with that, or with a snapshot, and a way to say so. */
function useLive(): [Live | null, string | null, (error: unknown) => void] {
  const [live, setLive] = useState<Live | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const told = (error: unknown) => setProblem(error instanceof Error ? error.message : String(error));
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const answer = await ask<Live>("live", new URLSearchParams(), abort.signal);
        for (const process of answer.processes) courses.set(process.pid, [...(courses.get(process.pid) ?? []), process.live_bytes].slice(-KEPT));
        setLive(answer);
        setProblem(null);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Failure && error.gone)) told(error);
      }
      timer = window.setTimeout(look, 1000);
    };
    void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return [live, problem, told];
}

/** The snapshots that were taken of a process, or of all, the latest first. */
function snapshotsOf(pid: number | null): Source[] {
  return (sources.value ?? []).filter((each) => each.kind === "live" && (pid === null || each.pid === pid)).reverse();
}

const TAKEN: Column<Source>[] = [
  { name: "pid", title: "Process", width: "72px", numeric: true, cell: (taken) => taken.pid },
  { name: "name", title: "Name", width: "minmax(160px, 1fr)", cell: (taken) => <span class="name">{titleOf(taken)}</span> },
  { name: "live", title: "Live", width: "84px", numeric: true, cell: (taken) => <b>{format.bytes(taken.live_at_end?.bytes ?? 0)}</b> },
  { name: "blocks", title: "Blocks", width: "84px", numeric: true, cell: (taken) => format.count(taken.live_at_end?.blocks ?? 0) },
  { name: "open", title: "", width: "384px", cell: (taken) => {
    const earlier = snapshotsOf(taken.pid ?? null).find((each) => each.id < taken.id);
    return (
      <span class="actions">
        <button type="button" onClick={(event) => { event.stopPropagation(); choose({ source: taken.id, view: "overview" }); }}>Open</button>
        {taken.has.includes("rss") && <button type="button" title="Where its resident memory is" onClick={(event) => { event.stopPropagation(); choose({ source: taken.id, view: "rss" }); }}>RSS</button>}
        {earlier && <button type="button" onClick={(event) => { event.stopPropagation(); choose({ source: earlier.id, other: taken.id, view: "compare" }); }}>Compare with the one before</button>}
      </span>
    );
  } },
];
