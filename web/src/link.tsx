// A link to what is shown, with the token: it opens in any browser on this machine, as long as the server runs.
import { useState } from "preact/hooks";
import { ask } from "./api";
import { choice, fragmentOf } from "./choice";

/** How long a button says that something was copied, in milliseconds. */
export const COPIED_FOR = 2000;

/** Copies a text; where the clipboard is not ours, it is copied by hand. */
export async function copyText(text: string, question: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    window.prompt(question, text);
    return false;
  }
}

export function CopyLink() {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    const { address } = await ask<{ address: string }>("link", new URLSearchParams(), AbortSignal.timeout(5000));
    const link = `${address}#${fragmentOf(choice.value)}`;
    if (!(await copyText(link, "The link to what is shown:"))) return;
    setCopied(true);
    window.setTimeout(() => setCopied(false), COPIED_FOR);
  };
  // The top of the page says when the server does not answer.
  return <button type="button" id="copy-link" title="A link to what is shown, for any browser on this machine (l)" onClick={() => void copy().catch(() => {})}><span role="status">{copied ? "Copied" : "Copy link"}</span></button>;
}
