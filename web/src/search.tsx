import { useEffect, useState } from "preact/hooks";
import { choice, choose } from "./choice";
import { matcherOf } from "./matcher";

/** The search field of a view: a part of a name, or a regular expression between slashes. What is typed is chosen when typing rests. */
export function Search({ hint, onEnter }: { hint: string; onEnter?: (back: boolean) => void }) {
  const [text, setText] = useState(choice.value.search);
  useEffect(() => setText(choice.value.search), [choice.value.search]);
  useEffect(() => {
    if (text === choice.value.search) return;
    const timer = window.setTimeout(() => choose({ search: text }, false), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const { problem } = matcherOf(text);
  return (
    <span class="search-field">
      <input type="search" class="search" aria-label={hint} placeholder={`${hint}  ( / )`} title="A part of a name, or a /regular expression/" value={text} aria-invalid={problem !== null} onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !onEnter) return;
          event.preventDefault();
          onEnter(event.shiftKey);
        }} />
      {problem && <span class="problem" role="alert">{problem}</span>}
    </span>
  );
}
