// A link to what is shown, with the token: it opens in any browser on this machine, as long as the server runs.
import { useState } from "preact/hooks";
import { ask } from "./api";
import { choice, fragmentOf } from "./choice";

const TOLD_FOR = 2000;

export function CopyLink() {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    const { address } = await ask<{ address: string }>("link", new URLSearchParams(), AbortSignal.timeout(5000));
    const link = `${address}#${fragmentOf(choice.value)}`;
    try {
      await navigator.clipboard.writeText(link);
      setCopied(true);
      window.setTimeout(() => setCopied(false), TOLD_FOR);
    } catch {
      // Where the clipboard is not ours, it is copied by hand.
      window.prompt("The link to what is shown:", link);
    }
  };
  // A server that does not answer is told of at the top.
  return <button type="button" id="copy-link" title="A link to what is shown, for any browser on this machine (l)" onClick={() => void copy().catch(() => {})}><span role="status">{copied ? "Copied" : "Copy link"}</span></button>;
}
