// What is shown as a profile for `go tool pprof`, which the server writes.
import { about } from "./question";
import { saved } from "./saved";
import { serverGone } from "./api";
import { metric } from "./sources";

export function SavePprof() {
  const question = about("pprof", { metric: metric.value, raw_names: null, allocator: null });
  if (saved || !question || serverGone.value) return null;
  return <a class="button" download href={`api/1/pprof?${question.parameters}`} title="Save this metric, window and these filters for 'go tool pprof'">pprof</a>;
}
