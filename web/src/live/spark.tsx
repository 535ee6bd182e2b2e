// A small curve of live bytes with its scale: how high it goes, and how long it is.
import { Curve } from "../curve";
import * as format from "../format";
import { signOf, ms, type LiveTimeline } from "./answers";

export function Spark({ timeline }: { timeline: LiveTimeline | null }) {
  const bins = timeline?.to_unix_ns.length ?? 0;
  if (!timeline || bins === 0) return <small>not known</small>;
  const highest = Math.max(...timeline.live_bytes.high);
  const length = format.seconds(ms(timeline.to_unix_ns[bins - 1] - timeline.from_unix_ns[0]));
  const most = `${signOf(timeline.is_estimate.some(Boolean))}${format.bytes(highest)}`;
  return (
    <span class="spark">
      <Curve stretched height={24} values={timeline.live_bytes.high} label={`Live bytes over ${length}, at most ${most}`} />
      <small title="The most live bytes of any reading, and the time from the first to the last one">≤ {most}<br />in {length}</small>
    </span>
  );
}
