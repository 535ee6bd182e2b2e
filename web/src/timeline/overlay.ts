// The second file on the axis of the first: both begin at the same place, however late each began.
import type { Source, Timeline } from "../answers";
import { useAnswer, type Answer } from "../answer";
import { choice } from "../choice";
import { question } from "../question";
import { isAnswered } from "../saved";
import { other, source, titleOf } from "../sources";
import { along } from "./gauges";
import { wholeRange, type Range } from "./range";

/** Its name among the curves that can be switched off. */
export const OVERLAY = "second file";

export interface Overlay {
  file: Source;
  title: string;
  /** What to add to its times. */
  shift: number;
  timeline: Timeline | null;
  along: (edges: number[]) => (number | null)[];
}

/** B's file, if it is another one with the same clock, and is not switched off. */
function fileOfOverlay(): Source | null {
  const [file, second] = [source.value, other.value];
  if (!file || !second || second.id === file.id || second.problem || !isAnswered(second.id)) return null;
  return second.has.includes("timeline") && (second.clock ?? "ns") === (file.clock ?? "ns") ? second : null;
}

export function hasOverlay(): boolean {
  return fileOfOverlay() !== null;
}

export function isOverlayShown(): boolean {
  return !choice.value.curves.includes(OVERLAY);
}

/** The second file, and the answer that its curve is made of. */
export function useOverlay(range: Range, points: number): [Overlay | null, Answer<Timeline>] {
  const file = isOverlayShown() ? fileOfOverlay() : null;
  const shift = file ? wholeRange().left - (file.begins_ns ?? 0) : 0;
  const isWhole = choice.value.left === null && choice.value.right === null;
  const from = Math.max(file?.begins_ns ?? 0, range.left - shift);
  const to = Math.min(file?.duration_ns ?? 0, range.right - shift);
  // It is asked about what is visible; nothing of a shorter run may be.
  const asked = file && to > from ? question("timeline", { source: file.id, filters_of: source.value!.id, from: isWhole ? null : from, to: isWhole ? null : to, points, filter: choice.value.filters }) : null;
  const answer = useAnswer<Timeline>(asked, 60);
  const timeline = answer.data;
  if (!file) return [null, answer];
  const { measure } = choice.value;
  const values = (edges: number[]) => {
    if (!timeline || !asked) return edges.map(() => null);
    const envelope = measure === "bytes" ? timeline.live_bytes : timeline.live_blocks;
    const ends = timeline.t[timeline.t.length - 1] + shift;
    const high = along(edges, timeline.t.slice(0, -1).map((t) => t + shift), envelope.high);
    return high.map((value, index) => (edges[index] > ends ? null : value));
  };
  return [{ file, title: titleOf(file), shift, timeline: asked ? timeline : null, along: values }, answer];
}

/** Where its own peak is on this axis. */
export function peakOfOverlay(overlay: Overlay): { at: number; own: number; bytes: number } | null {
  const peak = choice.value.filters.length > 0 ? overlay.timeline?.peak : overlay.file.peak;
  return peak && peak.bytes > 0 ? { at: peak.at_ns + overlay.shift, own: peak.at_ns, bytes: peak.bytes } : null;
}
