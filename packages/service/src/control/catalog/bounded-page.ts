import { limits } from '@muster/sdk/contract';
import type { Document } from './document.ts';

/** How many documents are in memory at a time, beside those that a page shows. */
const chunkRows = 32;

/** A page of a limited number of rows, with no more documents than fit; at least one row, if there is any. */
export async function boundedPage<
  R extends { readonly document: Document | null; readonly text?: string | null },
>(
  limit: number,
  read: (last: R | undefined, count: number) => Promise<R[]>,
): Promise<{ rows: R[]; hasMore: boolean }> {
  const rows: R[] = [];
  let bytes = 0;
  for (;;) {
    // One more than wanted tells whether there is another page.
    const count = Math.min(chunkRows, limit + 1 - rows.length);
    const chunk = await read(rows.at(-1), count);
    for (const row of chunk) {
      bytes += Buffer.byteLength(JSON.stringify(row.document ?? {})) + Buffer.byteLength(row.text ?? '');
      const isFull = rows.length === limit || (rows.length > 0 && bytes > limits.catalogPageBytes);
      if (isFull) return { rows, hasMore: true };
      rows.push(row);
    }
    if (chunk.length < count) return { rows, hasMore: false };
  }
}
