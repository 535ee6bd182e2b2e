// What the server answers about a fleet: docs/api.md, as types. Slots are seconds since 1970.

/** The total of a fleet over time, stacked by a label. Each bin shows its fullest slot, the last one the latest slot. */
export interface FleetTimeline {
  by: string;
  first_slot: number;
  last_slot: number;
  slots: number[];
  total_bytes: number[];
  processes: number[];
  bands: { value: string; bytes: number[] }[];
  rest_bytes: number[];
  /** How many values the label has. */
  values: number;
  /** The fullest slot of all. */
  peak_slot: number;
  /** Whether some figures are estimates. */
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

export function rowsOf(table: FleetTable | null): FleetRow[] {
  return (table?.rows ?? []).map((row) => Object.fromEntries(table!.columns.map(({ name }, index) => [name, row[index]])));
}

export const text = (row: FleetRow, name: string): string => String(row[name] ?? "");
export const number = (row: FleetRow, name: string): number => Number(row[name] ?? 0);
