import { type Kind, limits, writtenFields } from '@muster/sdk/contract';
import { exhausted, invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { FairThread } from '../../lib/fair-thread.ts';
import { packageFile } from '../../lib/package-file.ts';
import { type LockedResource, readResource } from '../../store/statements/resources.ts';
import { nameOf, type Principal } from '../access/principal.ts';
import type { CatalogOptions } from './catalog-options.ts';
import type { CheckedWrite } from './check-write.ts';
import { decideWrite } from './decide-write.ts';
import type { Document } from './document.ts';
import type { TextAnswer, TextJob } from './text-job.ts';

/** The bundle: a thread can't be started from a TypeScript source. */
const workerFile = packageFile('dist/bundle/text-worker.js');
const texts = new FairThread<TextJob, TextAnswer>(workerFile, { timeMs: 2000, heapMb: 160 }, 'texts');

/** The text to store with a document, computed before the transaction, because parsing YAML takes time. */
export interface WrittenText {
  readonly text: string | null;
  /** Whether it says what this document does, which the transaction has decided on over this row. */
  readonly isOf: (row: LockedResource, document: Document) => boolean;
}

/**
 * The text that a write comes with, or the stored one, changed to say what the document will. A stored text that can't be
 * changed without losing its form is dropped.
 */
export async function writtenText(
  { database, tenants }: CatalogOptions,
  caller: Principal,
  write: CheckedWrite,
): Promise<WrittenText | Refusal> {
  const { kind, name } = write;
  const tenant = await tenants.find(write.tenant);
  const [row] = tenant === undefined ? [] : await readResource(database, tenant, kind, name);
  const stored = row ?? { generation: 0, document: null, text: null };
  const text = write.text || (stored.document && stored.text);
  if (!text) return { text: null, isOf: (now) => !now.has_text };
  const document = decideWrite(caller, write, stored);
  // The transaction refuses it in the same way, or decides on what was stored in between.
  const isSame = ({ generation }: LockedResource) => generation === stored.generation;
  if (isRefusal(document)) return { text: null, isOf: isSame };
  const json = jsonOf(kind, document);
  const job = {
    kind,
    name,
    text,
    document: json,
    ...(write.text && { payload: JSON.stringify(write.payload) }),
  };
  const answer = await texts.run(`${tenant} ${nameOf(caller)}`, job, limits.documentTextsWaiting);
  const refused = write.text || answer.type === 'busy' ? refusalOf(answer) : null;
  if (refused) return refused;
  return {
    text: answer.type === 'done' && fits(answer.text) ? answer.text : null,
    isOf: (now, decided) => isSame(now) || jsonOf(kind, decided) === json,
  };
}

const fits = (text: string | null): boolean =>
  text !== null && Buffer.byteLength(text) <= limits.documentTextBytes;

const jsonOf = (kind: Kind, document: Document): string => JSON.stringify(writtenFields(kind, document));

function refusalOf(answer: Awaited<ReturnType<typeof texts.run>>): Refusal | null {
  switch (answer.type) {
    case 'done':
      return null;
    case 'bad-text':
      return invalid('text', answer.message);
    case 'over-limit':
      return invalid('text', `is too complex to be read: ${answer.message}`);
    case 'busy':
      return exhausted(`text: ${answer.message} for this account; retry later`);
  }
}
