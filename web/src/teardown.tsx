// Where leaks and growth are judged: at the end of the window, or before the tear-down of a program that ends there.
import { choice, choose } from "./choice";
import { when } from "./clock";
import { has, source } from "./sources";

/** The words for the instant of an answer, and a way to the other instant. */
export function endOf(at: number | undefined) {
  const { to } = choice.value;
  const end = to ?? source.value?.duration_ns ?? 0;
  if (at === undefined || !has("timeline")) return <>the end</>;
  if (at < end) return <>{when(at)}, before the program's tear-down (<button type="button" class="quiet" onClick={() => choose({ at: "end" })}>at the end instead</button>)</>;
  return <>{to === null ? "the end" : "its end"}, {when(at)}</>;
}
