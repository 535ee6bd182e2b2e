// Processes of the collector: figures that tick, a snapshot of one at the press of a button, and what changed since the last.
import { useEffect, useState } from "preact/hooks";
import type { Live, Process, Source } from "../answers";
import { ask, Failure, post } from "../api";
import { choose } from "../choice";
import { Curve } from "../curve";
import * as format from "../format";
import { clean } from "../names";
import { lookAtSources, sources } from "../sources";
import { Table, type Column } from "../table";

const KEPT = 60;
/** The course of each process while this page looked: a reading a second. */
const courses = new Map<number, number[]>();
/** The last snapshot that was taken here, by process. */
const taken = new Map<number, number>();

export function LiveView() {
  const [live, setLive] = useState<Live | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState<number | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const answer = await ask<Live>("live", new URLSearchParams(), abort.signal);
        for (const process of answer.processes) {
          const course = courses.get(process.pid) ?? [];
          course.push(process.live_bytes);
          courses.set(process.pid, course.slice(-KEPT));
        }
        setLive(answer);
        setProblem(null);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Failure && error.gone)) setProblem(error instanceof Error ? error.message : String(error));
      }
      timer = window.setTimeout(look, 1000);
    };
    void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);

  const snapshot = async (process: Process) => {
    setBusy(process.pid);
    try {
      const { source } = await post<{ source: Source }>("live/snapshot", new URLSearchParams({ pid: String(process.pid) }));
      const last = taken.get(process.pid);
      taken.set(process.pid, source.id);
      await lookAtSources();
      if (last !== undefined && sources.value?.some((each) => each.id === last)) choose({ source: last, other: source.id, view: "compare" });
      else choose({ source: source.id, view: "overview" });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setBusy(null);
  };

  const columns: Column<Process>[] = [
    { name: "pid", title: "Process", width: "84px", numeric: true, cell: (process) => process.pid },
    { name: "name", title: "Name", width: "minmax(140px, 1fr)", cell: (process) => <span class="name">{clean(process.name)}</span> },
    { name: "course", title: "The last minute", width: "140px", cell: (process) => <Curve values={courses.get(process.pid) ?? []} label="Live bytes of the last minute" /> },
    { name: "live", title: "Live", width: "100px", numeric: true, cell: (process) => <b>{format.bytes(process.live_bytes)}</b> },
    { name: "blocks", title: "Blocks", width: "100px", numeric: true, cell: (process) => format.count(process.live_blocks) },
    { name: "since", title: "Since", width: "90px", numeric: true, cell: (process) => format.duration(Math.max(0, Math.round((Date.now() - process.since_unix_ns / 1e6) / 1e3) * 1e9)) },
    { name: "mode", title: "Mode", width: "110px", cell: (process) => clean(process.mode) },
    { name: "snapshot", title: "", width: "240px", cell: (process) => (
      <button type="button" class="primary" disabled={busy !== null} onClick={(event) => { event.stopPropagation(); void snapshot(process); }}>
        {busy === process.pid ? "taking it …" : taken.has(process.pid) ? "Snapshot, compared with the last" : "Snapshot now"}
      </button>
    ) },
  ];
  return (
    <div class="live-view">
      <div class="tools"><small>{live?.collector ? `Collector at ${clean(live.collector)}` : ""}</small></div>
      {problem && <p class="told problem" role="alert">{clean(problem)}</p>}
      {live?.problem && <p class="told problem" role="alert">{clean(live.problem)}</p>}
      {live && <Table label="Processes" columns={columns} count={live.processes.length} row={(index) => live.processes[index]} rowHeight={32} empty="No process is watched: start one with 'highwater run PROGRAM'." />}
    </div>
  );
}
