// What is shown as a profile for `go tool pprof`, which the server writes.
import { useActions } from "./actions";
import { fetchFile, serverGone } from "./api";
import { choice } from "./choice";
import { fileName, saveFile } from "./download";
import { about } from "./question";
import { saved } from "./saved";
import { metric, source } from "./sources";
import { StatusLine } from "./status";

export function SavePprof() {
  const [saving, act] = useActions();
  const { view, focus, hide } = choice.value;
  const shown = view === "flame" ? { focus: focus || null, hide } : {};
  const question = about("pprof", { metric: metric.value, raw_names: null, allocator: null, ...shown });
  if (saved || !question || serverGone.value) return null;
  const save = () => act(async ({ signal }) => {
    const file = await fetchFile(question.path, question.parameters, signal);
    if (!signal.aborted) saveFile(file.name ?? `${fileName(source.value?.name ?? "")}-${metric.value}.pb.gz`, "application/gzip", file.content);
  });
  return (
    <>
      <button type="button" disabled={saving.waiting} title="Save this metric and window for 'go tool pprof', with these filters, the focus, and without hidden functions; stacks are whole, also those of allocators" onClick={() => void save()}>pprof</button>
      <StatusLine answer={saving} />
    </>
  );
}
