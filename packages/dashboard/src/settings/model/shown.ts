import { type Kind, kindTable } from '@muster/sdk/contract';
import type { Tone } from '../../parts/model/tone.ts';

type Document = Readonly<Record<string, unknown>>;

export interface Shown {
  readonly name: string;
  readonly text: string;
  readonly state: readonly [text: string, tone: Tone] | null;
}

/** A document as a row: what it is, and what keeps it from working. */
export const shownOf = (kind: Kind, name: string, document: Document, nowMs: number): Shown => ({
  name,
  text: kindTable[kind].summary(document),
  state: stateOf(document, nowMs),
});

function stateOf({ paused, pausedReason, expiresAt }: Document, nowMs: number): Shown['state'] {
  if (paused === true || (typeof pausedReason === 'string' && pausedReason !== ''))
    return ['paused', 'warning'];
  if (typeof expiresAt === 'string' && Date.parse(expiresAt) <= nowMs) return ['expired', 'bad'];
  return null;
}
