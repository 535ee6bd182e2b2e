// What is shown as a profile for `go tool pprof`, which the server writes.
import { choice } from "./choice";
import { about } from "./question";
import { saved } from "./saved";
import { serverGone } from "./api";
import { metric } from "./sources";

export function SavePprof() {
  const { view, focus, hide } = choice.value;
  const shown = view === "flame" ? { focus: focus || null, hide } : {};
  const question = about("pprof", { metric: metric.value, raw_names: null, allocator: null, ...shown });
  if (saved || !question || serverGone.value) return null;
  return <a class="button" download href={`api/1/pprof?${question.parameters}`} title="Save this metric and window for 'go tool pprof', with these filters, the focus, and without hidden functions; stacks are whole, also those of allocators">pprof</a>;
}
