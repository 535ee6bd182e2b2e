// Runs the module: node run.mjs leaky.wasm ROUNDS [tidy] [X.img]. With 'tidy', every proof is freed. X.img is the module's memory at the end.
import { readFileSync, writeFileSync } from 'node:fs';

const [, , file, rounds, ...options] = process.argv;
const tidy = options.includes('tidy');
const image = options.find((name) => name.endsWith('.img'));
const text = new TextDecoder();
let memory;
const highwater = {
  console: (pointer, length) => console.log(text.decode(new Uint8Array(memory.buffer, pointer, length).slice())),
};
const { instance } = await WebAssembly.instantiate(readFileSync(file), { highwater });
const { start, prove, verify, free_proof, round_done } = instance.exports;
memory = instance.exports.memory;

start();
for (let round = 1; round <= Number(rounds); round++) {
  for (let number = 0; number < 8; number++) {
    const proof = prove(100 + number);
    if (!verify(proof)) throw new Error('a wrong proof');
    // One proof in four is looked at and forgotten.
    if (tidy || number % 4 !== 0) free_proof(proof);
  }
  console.log(`round ${round}: 8 proofs verified`);
  round_done(round);
}
if (image) writeFileSync(image, new Uint8Array(memory.buffer));
