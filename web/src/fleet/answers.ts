// What the server answers about a fleet: docs/api.md, as types. Slots are seconds since 1970.

/** The total of a fleet over time, stacked by a label. Each bin shows its fullest slot, the last one the latest slot. */
export interface FleetTimeline {
  by: string;
  first_slot: number;
  last_slot: number;
  slots: number[];
  total_bytes: number[];
  /** Whether samples made the total of a slot. */
  total_estimated: boolean[];
  processes: number[];
  hosts: number[];
  bands: { value: string; bytes: number[]; estimated: boolean[] }[];
  rest_bytes: number[];
  rest_estimated: boolean[];
  /** How many values the label has. */
  values: number;
  /** The fullest slot of all. */
  peak_slot: number;
  /** Whether samples made some of these figures. */
  estimated: boolean;
  /** The processes by their labels, the latest first. */
  labels: { service: string; version: string; region: string; processes: number; hosts: number; first_slot: number; last_slot: number }[];
  labels_left_out: boolean;
  /** Files that could not be used, each with the reason. */
  left_out: string[];
}

/** What an engine answered. Identities are texts, since they have 64 bits. */
export interface FleetTable {
  columns: { name: string; type: string }[];
  rows: (string | number | boolean | null)[][];
  left_out: string[];
}

export type FleetRow = { [column: string]: string | number | boolean | null };

/** The rows, with two figures that follow from others: the part of the whole fleet's memory, and the bytes an hour of the fastest leak. */
export function rowsOf(table: FleetTable | null): FleetRow[] {
  return (table?.rows ?? []).map((cells) => {
    const row: FleetRow = Object.fromEntries(table!.columns.map(({ name }, index) => [name, cells[index]]));
    if (typeof row.fleet_bytes === "number") row.share = row.fleet_bytes > 0 ? number(row, "bytes") / row.fleet_bytes : 0;
    if (typeof row.bytes_per_block === "number") row.growth = number(row, "fastest") * row.bytes_per_block;
    return row;
  });
}

export const text = (row: FleetRow, name: string): string => String(row[name] ?? "");
export const number = (row: FleetRow, name: string): number => Number(row[name] ?? 0);
/** Whether samples made some of the figures of a row. */
export const isEstimate = (row: FleetRow): boolean => number(row, "sample_period") > 0;
