import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

/** Writes `.br` and `.gz` beside each text file that the service serves to browsers, unless they are up to date. */
const encoders = { '.br': brotliCompressSync, '.gz': gzipSync };
const folder = new URL('../packages/service/static/', import.meta.url).pathname;

for (const name of readdirSync(folder, { recursive: true })) {
  const file = join(folder, name);
  if (!/\.(html|css|js|json|map|txt|svg)$/.test(name)) continue;
  for (const [extension, compress] of Object.entries(encoders)) {
    const target = `${file}${extension}`;
    const isCurrent = existsSync(target) && statSync(target).mtimeMs >= statSync(file).mtimeMs;
    if (!isCurrent) writeFileSync(target, compress(readFileSync(file)));
  }
}
