import { useEffect, useState } from "preact/hooks";
import { choice, choose } from "./choice";

/** The search field of a view. What is typed is chosen when typing rests. */
export function Search({ hint }: { hint: string }) {
  const [text, setText] = useState(choice.value.search);
  useEffect(() => setText(choice.value.search), [choice.value.search]);
  useEffect(() => {
    if (text === choice.value.search) return;
    const timer = window.setTimeout(() => choose({ search: text }, false), 150);
    return () => clearTimeout(timer);
  }, [text]);
  return <input type="search" class="search" aria-label={hint} placeholder={`${hint}  ( / )`} value={text} onInput={(event) => setText(event.currentTarget.value)} />;
}
