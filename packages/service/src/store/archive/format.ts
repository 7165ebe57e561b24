/**
 * An archive is lines of JSON:
 *
 *   {"format": "muster-archive", "version": 1, "migration": 2, "createdAt": "…"}
 *   {"table": "tenants", "columns": ["id", "provider", "org"]}
 *   ["1", "PROVIDER_CODEHOST_APP", "local"]
 *   …
 *   {"end": true, "rows": {"tenants": 1, …}}
 *
 * Each value of a row is the text that PostgreSQL writes for it, or null, so that none changes on the way: no number
 * is rounded, no time cut, no JSON written anew. The last line tells a whole archive from one that was cut off.
 */
export interface Header {
  readonly format: typeof archiveFormat;
  readonly version: typeof archiveVersion;
  /** The last migration of the store it was taken from. */
  readonly migration: number;
  readonly createdAt: string;
}

export interface TableLine {
  readonly table: string;
  readonly columns: readonly string[];
}

/** How many rows each table has. */
export type RowCounts = Record<string, number>;

export interface Trailer {
  readonly end: true;
  readonly rows: Readonly<RowCounts>;
}

export const archiveFormat = 'muster-archive';
export const archiveVersion = 1;

/** The longest row there may be: a session in an older archive, as hexadecimal digits, and room to spare. */
const maxLineBytes = 256 * 1024 * 1024;

/** The archive, or the store that it is meant for, is not fit for it. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

export const cutOff = (): ArchiveError =>
  new ArchiveError('The archive is cut off: its end is missing. Export it again, or copy it again.');

export function headerIn(line: string, newestMigration: number): Header {
  const header = parsed(line) as Partial<Header> | null;
  if (header?.format !== archiveFormat) throw new ArchiveError('This is not an archive of muster export.');
  if (header.version !== archiveVersion || typeof header.migration !== 'number') {
    throw new ArchiveError(`The archive has version ${header.version}; this Muster reads ${archiveVersion}.`);
  }
  if (header.migration > newestMigration) {
    throw new ArchiveError(
      `The archive is of a newer Muster (migration ${header.migration}; this one knows ${newestMigration}). Upgrade first.`,
    );
  }
  return header as Header;
}

/** A line between rows. */
export function markIn(line: string): TableLine | Trailer {
  const mark = parsed(line) as Partial<TableLine & Trailer> | null;
  if (mark?.end === true && typeof mark.rows === 'object') return mark as Trailer;
  if (typeof mark?.table === 'string' && Array.isArray(mark.columns)) return mark as TableLine;
  throw new ArchiveError(`The archive is damaged: ${line.slice(0, 80)}`);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** Only a line feed ends a line: the texts in it may hold every other character that ends lines elsewhere. */
export async function* linesIn(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of bytes) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      begun.push(chunk.subarray(from, at));
      yield Buffer.concat(begun).toString();
      begun = [];
      begunBytes = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    begun.push(chunk.subarray(from));
    begunBytes += chunk.length - from;
    if (begunBytes > maxLineBytes) throw new ArchiveError('The archive is damaged: a line does not end.');
  }
  if (begunBytes > 0) throw cutOff();
}
