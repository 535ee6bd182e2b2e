// The columns of a fleet's tables, by the names that the engine gives them.
import type { ComponentChildren } from "preact";
import type { FleetPart } from "../choice";
import * as format from "../format";
import { clean, shown } from "../names";
import type { Column } from "../table";
import { isEstimate, number, text, type FleetRow, type FleetTable } from "./answers";
import { shownValue } from "./where";

interface Style {
  title: string;
  width: string;
  hint?: string;
  numeric?: boolean;
  cell: (row: FleetRow) => ComponentChildren;
}

const words = (name: string, title: string, width: string, hint?: string): Style => ({ title, width, hint, cell: (row) => <span class="name" title={clean(text(row, name))}>{shownValue(text(row, name))}</span> });
const figure = (name: string, title: string, width: string, write: (value: number) => string, hint?: string): Style => ({ title, width, hint, numeric: true, cell: (row) => (row[name] === null || row[name] === undefined ? "" : <span data-column={name} data-value={number(row, name)}>{write(number(row, name))}</span>) });
/** A figure that samples make in processes that count only samples of their blocks. */
const sampled = (name: string, title: string, width: string, write: (value: number) => string, hint?: string, isMarked = isEstimate): Style => ({ ...figure(name, title, width, write, hint), cell: (row) => (row[name] === null || row[name] === undefined ? "" : <span data-column={name} data-value={number(row, name)}>{isMarked(row) ? "~" : ""}{write(number(row, name))}</span>) });
const bytes = (name: string, title: string, hint?: string) => sampled(name, title, "92px", format.bytes, hint);
const change = (name: string, title: string, hint?: string) => sampled(name, title, "100px", (value) => format.signed(format.bytes(value), value), hint);
const count = (name: string, title: string, hint?: string) => figure(name, title, "84px", format.count, hint);
const bytesPerHour = (value: number): string => `${format.bytes(value)}/h`;

const STYLES: { [column: string]: Style } = {
  function: { title: "Site", width: "minmax(160px, 3fr)", cell: (row) => <Site row={row} /> },
  service: words("service", "Service", "minmax(70px, 1fr)"),
  version: words("version", "Version", "minmax(70px, 1fr)"),
  region: words("region", "Region", "minmax(70px, 1fr)"),
  host: words("host", "Host", "minmax(80px, 1fr)"),
  pid: figure("pid", "PID", "72px", String),
  bytes: bytes("bytes", "Live", "Live in all processes together at this slot"),
  live_bytes: bytes("live_bytes", "Live", "Live when it was seen last"),
  rss_bytes: figure("rss_bytes", "RSS", "92px", format.bytes, "The resident set when it was seen last"),
  share: sampled("share", "Share", "72px", format.percent, "Of what all chosen processes hold together at this slot", (row) => number(row, "fleet_sample_period") > 0),
  blocks: sampled("blocks", "Blocks", "84px", format.count),
  processes: { ...count("processes", "Processes", "In how many processes, of those that have the site"), cell: (row) => <Of row={row} name="processes" all="processes_seen" /> },
  hosts: { ...count("hosts", "Hosts", "On how many hosts, of those that have the site"), cell: (row) => <Of row={row} name="hosts" all="hosts_seen" /> },
  hosts_grew: { ...count("hosts_grew", "Hosts", "On how many hosts it grew, of those that have the new version"), cell: (row) => <Of row={row} name="hosts_grew" all="hosts_seen" /> },
  old_mean: bytes("old_mean", "Before", "Mean bytes of a process and slot"),
  new_mean: bytes("new_mean", "After", "Mean bytes of a process and slot"),
  grew: change("grew", "Grew", "After less before"),
  a_mean: bytes("a_mean", "Before", "Mean bytes of a process and slot"),
  b_mean: bytes("b_mean", "After", "Mean bytes of a process and slot"),
  more: change("more", "More", "After less before"),
  growth: sampled("growth", "Growth", "100px", bytesPerHour, "Bytes an hour, where it grows the fastest: blocks an hour times the mean size of a block, so always about", () => true),
  slowest: sampled("slowest", "Slowest", "92px", perHour, "Blocks an hour, in the process in which it grows the slowest"),
  fastest: sampled("fastest", "Fastest", "92px", perHour, "Blocks an hour, in the process in which it grows the fastest"),
  bytes_per_block: bytes("bytes_per_block", "Block", "Mean bytes of a block"),
  r2: figure("r2", "Straight", "76px", (value) => format.percent(value), "How straight it rises in the least straight of these processes (r²)"),
  bytes_per_hour: sampled("bytes_per_hour", "Growth", "110px", bytesPerHour, "Slope of live bytes (least squares) over the shown time"),
  hours_to_limit: sampled("hours_to_limit", "Limit in", "76px", (value) => (value > 9999 ? ">9,999h" : `${value < 10 ? value.toFixed(1) : Math.round(value)}h`), "When it reaches its memory limit if it goes on like this"),
  slots: count("slots", "Slots", "How many slots it was seen in"),
};

/** A site: its function, the type of its blocks, and three callers, which tell it from others of the same function. */
function Site({ row }: { row: FleetRow }) {
  const [name, type] = [text(row, "function"), text(row, "type_name")];
  if (name === "") return <span class="name" title="The lake does not have its stack">(not known)</span>;
  const frames = text(row, "stack").split(";");
  const callers = frames.slice(0, Math.max(0, frames.lastIndexOf(name))).reverse();
  return (
    <>
      <span class="name" title={[name, ...callers].map(clean).join("\n")}>{shown(name)}</span>
      {type && <small class="fleet-type"> {clean(type)}</small>}
      {callers.length > 0 && <small class="callers">{callers.slice(0, 3).map((caller) => ` ← ${shown(caller)}`).join("")}</small>}
    </>
  );
}

/** "3 of 5"; only "5" where both are the same. */
function Of({ row, name, all }: { row: FleetRow; name: string; all: string }) {
  const [some, every] = [number(row, name), number(row, all)];
  return <span data-column={name} data-value={some}>{row[all] === undefined || some === every ? format.count(some) : `${format.count(some)} of ${format.count(every)}`}</span>;
}

function perHour(value: number): string {
  return `${value < 10 ? value.toFixed(1) : format.count(Math.round(value))}/h`;
}

/** The columns in the order in which they are read. The first is what a part is sorted by. */
const ORDER: { [part in FleetPart]: string[] } = {
  sites: ["bytes", "share", "blocks", "processes", "hosts", "function", "service"],
  leaks: ["hosts", "processes", "growth", "fastest", "slowest", "bytes_per_block", "r2", "function", "service"],
  growth: ["grew", "more", "old_mean", "a_mean", "new_mean", "b_mean", "hosts_grew", "function", "service"],
  processes: ["bytes_per_hour", "live_bytes", "rss_bytes", "hours_to_limit", "slots", "service", "version", "region", "host", "pid"],
};

const MADE_OF: { [column: string]: string } = { share: "fleet_bytes", growth: "bytes_per_block" };

/** Columns that are left out below some widths of the window. */
const NEEDS: { [column: string]: number } = { slots: 1150, share: 700, fastest: 700, region: 1000, blocks: 800, bytes_per_block: 1000, r2: 800, rss_bytes: 1000, slowest: 700, version: 700, a_mean: 700, old_mean: 700 };

export function columnsOf(part: FleetPart, table: FleetTable | null, width: number): Column<FleetRow>[] {
  // A figure that follows from another is there if that is.
  const isThere = (name: string) => table?.columns.some((column) => column.name === (MADE_OF[name] ?? name)) && width >= (NEEDS[name] ?? 0);
  return ORDER[part].filter(isThere).map((name) => ({ name, sortable: true, ...STYLES[name] }));
}

/** All columns, as a file has them. */
export function csvOf(table: FleetTable | null): { [title: string]: (row: FleetRow) => string | number | null } {
  return Object.fromEntries((table?.columns ?? []).map(({ name }) => [name, (row: FleetRow) => (typeof row[name] === "boolean" ? String(row[name]) : (row[name] as string | number | null))]));
}
