import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { version } from "./sources";

export const helpShown = signal(false);

const KEYS: [string, string][] = [
  ["1 … 9", "the views"], ["/", "search"], ["+", "add a filter"], ["l", "copy a link to what is shown"], ["d", "light or dark"], ["c", "colours that colour-blind eyes can tell apart"], ["Esc", "close, or one step back"],
  ["z, x", "zoom the timeline to the window; take the window away"], ["p, r, e, b", "A to the peak; A to the RSS peak; A to the end; B on and off"], ["[ ]", "zoom the timeline out and in"], ["← → ↑ ↓", "in the timeline: move and zoom; on a handle: move it"],
  ["drag, click, Shift+click", "on the timeline: a window, A, B"], ["wheel, Shift+wheel", "on the timeline: zoom, move"], ["click, right click", "on a band of the timeline: only this row; its menu"],
  ["← → ↑ ↓ Enter Esc", "in the flame graph: walk, zoom in, zoom out"], ["f, i, o, h", "in the flame graph: focus on the function, only inside it, not inside it, hide it"], ["↑ ↓ PgUp PgDn", "in a table: rows"], ["Enter", "in the table of processes: open the chosen one"], ["right click, Shift+F10", "on a frame or a row: its menu"], ["Enter, Shift+Enter", "in the search of a flame graph: the next match, the previous one"], ["s", "the source of the selected row or frame"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog class="help" ref={dialog} aria-label="Keys" onClose={() => (helpShown.value = false)} onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
      <h2>Keys</h2>
      <dl>{KEYS.map(([keys, what]) => <div key={keys}><dt><kbd>{keys}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <p><button type="button" onClick={() => dialog.current?.close()}>Close</button> <small>Highwater {version.value}</small></p>
    </dialog>
  );
}
