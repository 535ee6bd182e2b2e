// What is shown as a profile for `go tool pprof`, which the server writes.
import { useActions } from "./actions";
import { fetchFile, serverGone } from "./api";
import { fileName, saveFile } from "./download";
import { about } from "./question";
import { saved } from "./saved";
import { metric, source } from "./sources";
import { StatusLine } from "./status";

export function SavePprof() {
  const [saving, act] = useActions();
  const question = about("pprof", { metric: metric.value, raw_names: null, allocator: null });
  if (saved || !question || serverGone.value) return null;
  const save = () => act(async ({ signal }) => {
    const file = await fetchFile(question.path, question.parameters, signal);
    if (!signal.aborted) saveFile(file.name ?? `${fileName(source.value?.name ?? "")}-${metric.value}.pb.gz`, "application/gzip", file.content);
  });
  return (
    <>
      <button type="button" disabled={saving.waiting} title="Save this metric, window and these filters for 'go tool pprof'" onClick={() => void save()}>pprof</button>
      <StatusLine answer={saving} />
    </>
  );
}
