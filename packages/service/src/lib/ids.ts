import { randomBytes, randomInt, randomUUID } from 'node:crypto';

let lastMs = 0;
let counter = 0;

/**
 * A UUID of version 7. Ids of this process sort in the order of their creation, so "newest first" reads the primary key
 * backwards. The 12 bits after the milliseconds are a counter.
 */
export function mintId(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    counter = randomInt(0x400);
  } else {
    counter += 1;
    if (counter > 0xfff) {
      lastMs += 1;
      counter = 0;
    }
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const sequence = counter.toString(16).padStart(3, '0');
  // The rest is as in version 4, for which Node keeps random bytes ready.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}${randomUUID().slice(18)}`;
}

const adjectives =
  'amber brave brisk calm clear deft eager fair fleet keen lucid merry noble quick quiet ready swift vivid warm wise';
const nouns =
  'badger crane falcon finch fox heron ibis lark lynx marten otter owl raven robin seal stoat swan tern wolf wren';
const pick = (words: string): string => {
  const all = words.split(' ');
  return all[randomInt(all.length)] ?? '';
};

/** A readable name, for an agent without one. */
export const mintName = (): string => `${pick(adjectives)}-${pick(nouns)}-${randomBytes(3).toString('hex')}`;

/** A short id, for a task without one. */
export const mintTaskId = (): string => `t-${randomBytes(6).toString('hex')}`;
