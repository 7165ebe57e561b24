import { expect, test } from 'vitest';
import { MusterClient } from './muster-client.ts';

/** The events of one connection. */
const eventStream = (...events: readonly (readonly [name: string, data: string])[]): Response =>
  new Response(events.map(([name, data]) => `event: ${name}\ndata: ${data}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  });

test('a timeline stream yields entries of any type, and ignores events that it does not know', async () => {
  const entry = (sequence: string, type: string) =>
    [type, JSON.stringify({ sequence, type, text: '', data: {} })] as const;
  const partial = { runId: '1', key: 'k', type: 'MESSAGE', offset: 0, text: 'par' };
  const client = new MusterClient({
    url: 'http://muster.test',
    fetch: async () =>
      eventStream(
        ['progress', '{"sequence":"9","percent":50}'],
        entry('1', 'MESSAGE'),
        ['notice', 'not JSON'],
        ['partial', JSON.stringify(partial)],
        ['end-of-life', '{}'],
        entry('2', 'A_LATER_TYPE'),
      ),
  });
  const partials: unknown[] = [];
  const types: string[] = [];
  for await (const { type } of client.timelineStream('a', { onPartial: (one) => partials.push(one) })) {
    types.push(type);
    if (types.length === 2) break;
  }
  expect(types).toEqual(['MESSAGE', 'A_LATER_TYPE']);
  expect(partials).toEqual([partial]);
});
