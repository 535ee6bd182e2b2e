// What stands beside the search of a flame graph: its matches one after the other, and the graph as a picture.
import type { FlameControl } from "./graph";

/** "3 of 17", and buttons for the next and the previous match. Enter and Shift+Enter in the search field do the same. */
export function Matches({ control, place, count, isSearched }: { control: { current: FlameControl | null }; place: number; count: number; isSearched: boolean }) {
  if (!isSearched) return null;
  return (
    <span class="matches" role="group" aria-label="Matches">
      <button type="button" aria-label="Previous match" title="Previous match (Shift+Enter in the search field)" disabled={count === 0} onClick={() => control.current?.step(true)}>‹</button>
      <small role="status" class="match-place">{place < 0 ? `${count} found` : `${place + 1} of ${count}`}</small>
      <button type="button" aria-label="Next match" title="Next match (Enter in the search field)" disabled={count === 0} onClick={() => control.current?.step(false)}>›</button>
    </span>
  );
}

export function SaveSvg({ control }: { control: { current: FlameControl | null } }) {
  return <button type="button" title="Save what is shown as a picture" onClick={() => control.current?.saveSvg()}>SVG</button>;
}
