// The columns of a fleet's tables, by the names that the engine gives them.
import type { ComponentChildren } from "preact";
import type { FleetPart } from "../choice";
import * as format from "../format";
import { clean, shown } from "../names";
import type { Column } from "../table";
import { number, text, type FleetRow, type FleetTable } from "./answers";
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
const bytes = (name: string, title: string, hint?: string) => figure(name, title, "92px", (value) => (value < 0 ? `−${format.bytes(-value)}` : format.bytes(value)), hint);
const count = (name: string, title: string, hint?: string) => figure(name, title, "84px", (value) => format.count(Math.round(value)), hint);

const STYLES: { [column: string]: Style } = {
  function: { title: "Site", width: "minmax(160px, 3fr)", cell: (row) => <span class="name" title={clean(text(row, "function"))}>{shown(text(row, "function"))}</span> },
  service: words("service", "Service", "minmax(70px, 1fr)"),
  version: words("version", "Version", "minmax(70px, 1fr)"),
  region: words("region", "Region", "minmax(70px, 1fr)"),
  host: words("host", "Host", "minmax(80px, 1fr)"),
  pid: figure("pid", "PID", "72px", String),
  bytes: bytes("bytes", "Live", "Bytes that are live in all processes together at this slot"),
  live_bytes: bytes("live_bytes", "Live", "Live at its last slot"),
  blocks: count("blocks", "Blocks"),
  processes: count("processes", "Processes"),
  hosts: count("hosts", "Hosts", "How many hosts agree"),
  before: bytes("before", "Before", "Mean bytes of a process and slot"),
  after: bytes("after", "After", "Mean bytes of a process and slot"),
  grew: bytes("grew", "Grew", "After less before"),
  slowest: figure("slowest", "Slowest", "100px", perHour, "Blocks an hour, in the process in which it grows the slowest"),
  fastest: figure("fastest", "Fastest", "100px", perHour, "Blocks an hour, in the process in which it grows the fastest"),
  r2: figure("r2", "Straight", "72px", (value) => format.percent(value), "How straight it rises in the least straight of these processes (r²)"),
  kib_per_minute: figure("kib_per_minute", "Growth", "110px", (value) => `${value < 0 ? "−" : ""}${format.bytes(Math.abs(value) * 1024 * 60)}/h`, "Slope of live bytes (least squares)"),
  n: count("n", "Slots", "How many slots it was seen in"),
};

function perHour(value: number): string {
  return `${value < 10 ? value.toFixed(1) : format.count(Math.round(value))}/h`;
}

/** The columns in the order in which they are read, and the one that a part is sorted by. */
const ORDER: { [part in FleetPart]: { columns: string[]; sort: string } } = {
  sites: { columns: ["bytes", "blocks", "processes", "hosts", "function", "service"], sort: "bytes" },
  leaks: { columns: ["hosts", "processes", "slowest", "fastest", "r2", "function", "service"], sort: "hosts" },
  growth: { columns: ["grew", "before", "after", "function", "service", "host"], sort: "grew" },
  processes: { columns: ["kib_per_minute", "live_bytes", "n", "service", "version", "region", "host", "pid"], sort: "kib_per_minute" },
};

/** What goes first where there is little room. */
const SPARED = ["n", "region", "blocks", "service", "r2", "version"];

export function columnsOf(part: FleetPart, table: FleetTable | null, width: number): Column<FleetRow>[] {
  const spared = SPARED.slice(0, width >= 1000 ? 0 : width >= 800 ? 2 : 4);
  const names = ORDER[part].columns.filter((name) => table?.columns.some((column) => column.name === name) && !(spared.includes(name) && part !== "processes" || spared.slice(0, 2).includes(name)));
  return names.map((name) => ({ name, sortable: true, ...STYLES[name] }));
}

export const sortOf = (part: FleetPart): string => ORDER[part].sort;

/** All columns, as a file has them. */
export function csvOf(table: FleetTable | null): { [title: string]: (row: FleetRow) => string | number | null } {
  return Object.fromEntries((table?.columns ?? []).map(({ name }) => [name, (row: FleetRow) => (typeof row[name] === "boolean" ? String(row[name]) : (row[name] as string | number | null))]));
}
