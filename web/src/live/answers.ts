// What the server answers about live processes: docs/api.md, as types.
import type { SiteGrowth, Tree } from "../answers";

interface Extremes {
  low: number[];
  high: number[];
  last: number[];
}

/** The memory of a process over time: one entry of each list is a bin. Times are nanoseconds since 1970, as exact as a browser holds them. */
export interface LiveTimeline {
  width_ns: number;
  from_unix_ns: number[];
  to_unix_ns: number[];
  live_bytes: Extremes;
  live_blocks: Extremes;
  rss_bytes: Extremes;
  allocations: number[];
  sample_bytes: number[];
  is_estimate: boolean[];
}

export interface Process {
  key: string;
  pid: number;
  name: string;
  since_unix_ns: number;
  exited_unix_ns: number | null;
  live_bytes: number;
  live_blocks: number;
  is_estimate: boolean;
  mode: string;
  problem: string | null;
  timeline: LiveTimeline | null;
}

export interface Live {
  collector: string | null;
  processes: Process[];
  ended: Process[];
  refused: Process[];
  problem: string | null;
  no_timelines?: string | null;
  now_unix_ns?: number;
}

/** Figures by site at one instant. */
export interface Look {
  number: number;
  at_unix_ms: number;
  live_bytes: number;
  live_blocks: number;
  is_estimate: boolean;
  is_verified: boolean;
  has_exited: boolean;
  sample_bytes: number;
}

export interface Looks {
  looks: Look[];
  kept_bytes: number;
  /** The seconds between two looks that the server takes by itself; 0 if it takes none. */
  every_s?: number;
}

/** Which looks an answer compares. */
interface ComparedLooks {
  opened_look: Look;
  lately_look: Look;
  now_look: Look;
}

export type LiveGrowth = SiteGrowth & ComparedLooks;
export type LiveTree = Tree & ComparedLooks;

/** A snapshot that a program took of itself. */
export interface OwnSnapshot {
  id: number;
  name: string;
  pid: number;
  program: string;
  taken_unix_ns: number;
  live_bytes: number;
  live_blocks: number;
  is_estimate: boolean;
}

/** Nanoseconds since 1970 in milliseconds. */
export const ms = (ns: number): number => ns / 1e6;

/** "~" before an estimate. */
export const signOf = (isEstimate: boolean): string => (isEstimate ? "~" : "");
