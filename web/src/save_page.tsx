// Saves what is chosen as one file. The server collects the answers; how far it is stands beside the button, and Cancel stops it.
import { signal } from "@preact/signals";
import { ask, type Progress } from "./api";
import { choice, fragmentOf } from "./choice";
import { saveFile } from "./download";
import "./save_page.css";

interface Saving {
  abort: AbortController;
  progress: Progress | null;
}

const saving = signal<Saving | null>(null);
const problem = signal<string | null>(null);

async function save(): Promise<void> {
  const abort = new AbortController();
  saving.value = { abort, progress: null };
  problem.value = null;
  try {
    const parameters = new URLSearchParams({ view: fragmentOf(choice.value) });
    const page = await ask<{ file: string; html: string }>("saved_page", parameters, abort.signal, (progress) => {
      if (saving.value?.abort === abort) saving.value = { abort, progress };
    });
    saveFile(page.file, "text/html", page.html);
  } catch (error) {
    if (!abort.signal.aborted) problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    if (saving.value?.abort === abort) saving.value = null;
  }
}

export function SavePage() {
  const now = saving.value;
  if (now === null) {
    return (
      <>
        {problem.value && <span class="save-problem" role="status">Not saved: {problem.value}</span>}
        <button type="button" id="save-page" title="One file with what is chosen, which opens without Highwater" onClick={() => void save()}>Save page</button>
      </>
    );
  }
  const part = now.progress?.part ?? 0;
  const percent = `${Math.floor(part * 100)}%`;
  return (
    <span class="saving" role="status">
      <progress aria-label="Saving the page" max={1} value={part} />
      <span title={now.progress?.what}>saving {percent}</span>
      <button type="button" id="cancel-save" onClick={() => now.abort.abort()}>Cancel</button>
    </span>
  );
}
