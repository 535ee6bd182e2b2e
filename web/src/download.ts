// Files that the page itself makes from what it shows.

export function saveFile(name: string, kind: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A part of a file's name, made of any text. */
export function fileName(text: string): string {
  return text.replace(/^.*\//, "").replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80) || "highwater";
}
