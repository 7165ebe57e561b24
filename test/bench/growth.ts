import { createHash } from 'node:crypto';
import { MusterClient } from '@muster/sdk';
import { checkDisk, entriesOfLong, type Fill, familiesOf, fill, liveFamilies } from './fill.ts';
import { InstantRunner, runnerKey } from './instant-runner.ts';
import { ceiling, say } from './report.ts';
import { alternated, load, type Service, startService } from './tools.ts';

const small: Fill = { agents: 1_000, rows: 20_000, days: 7, long: 1 };
const largest = 1_000_000;
const seconds = 2;
const rounds = 7;
const pageSize = 100;

/** One of two services, with what is in its database. */
interface Filled {
  readonly service: Service;
  readonly filling: Fill;
  readonly runner: InstantRunner;
}

/** The time that an operation takes, in milliseconds. */
type Measure = (filled: Filled, round: number) => Promise<number>;

/** A word of a description: see fill.sql. */
const word = (text: string): string => createHash('md5').update(text).digest('hex').slice(0, 10);

/** By several callers at the same time; a `#` in the body becomes a number from the range. */
async function called(
  { service }: Filled,
  path: string,
  body: unknown,
  { from = 0, to = 0, callers = 64 } = {},
): Promise<number> {
  const env = {
    KEY: service.key,
    TARGET: path,
    BODY: JSON.stringify(body),
    FROM: String(from),
    TO: String(to),
  };
  const rate = await load(service.url, 'post.lua', seconds, env, callers);
  if (rate === 0) throw new Error(`no reply from ${path} within ${seconds} s`);
  return 1000 / rate;
}

/** A page takes a hundred times as long as a status. */
const callers = 4;

const listed =
  (filter: object): Measure =>
  (filled) =>
    called(filled, '/v1/agents', { pageSize, ...filter }, { callers });

const longPage = ({ filling }: Filled) => ({
  agentId: { agent: [`agent-${familiesOf(filling)}`] },
  limit: pageSize,
});

/** What the dashboard asks for first: who is signed in, and every agent that lives or ended in the last week. */
const firstLoad: Measure = async ({ service }) => {
  const client = new MusterClient({ url: service.url, apiKey: service.key });
  const startMs = performance.now();
  await client.whoami();
  const endedSince = new Date(Date.now() - 7 * 24 * 3600 * 1000).toISOString();
  const filter = { account: '*', allDepths: true, includeTerminal: true, endedSince };
  const stop = new AbortController();
  let agents = 0;
  const stream = client.listStream(filter, { signal: stop.signal, onWhole: () => stop.abort() });
  try {
    for await (const _ of stream) agents += 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
  if (agents < small.agents) throw new Error(`the first load had only ${agents} agents`);
  return performance.now() - startMs;
};

const status = (filled: Filled, from: number) =>
  called(
    filled,
    '/v1/agent/status',
    { agentId: { agent: ['agent-#'] } },
    { from, to: familiesOf(filled.filling) },
  );

/** Not compared with a gate: the pages of a million agents have to be read, those of a thousand are in memory. */
const anyStatus = 'status of any agent';

/** Reads first, because the other measures add agents to both databases. */
const measures: Readonly<Record<string, Measure>> = {
  [anyStatus]: (filled) => status(filled, 1),
  'status of a live agent': (filled) => status(filled, familiesOf(filled.filling) - liveFamilies + 1),
  'list, a page of 100': listed({}),
  'list with ended agents': listed({ includeTerminal: true, allDepths: true, account: '*' }),
  'search for a frequent word': listed({ text: word('often3'), includeTerminal: true, allDepths: true }),
  'search of live agents': listed({ text: word('seldom7'), allDepths: true }),
  'search for one agent': listed({ text: word('once17'), includeTerminal: true, allDepths: true }),
  'page of a long timeline': (filled) => {
    const to = entriesOfLong(filled.filling) - pageSize;
    return called(filled, '/v1/agent/timeline', { ...longPage(filled), afterSequence: '#' }, { to, callers });
  },
  'newest page of a long timeline': (filled) =>
    called(filled, '/v1/agent/timeline', { ...longPage(filled), beforeSequence: '1000000000' }, { callers }),
  "the dashboard's first load": async (filled) => {
    let ms = 0;
    for (let time = 0; time < 5; time += 1) ms += await firstLoad(filled, time);
    return ms / 5;
  },
  'queue-add': (filled) => {
    const families = familiesOf(filled.filling);
    const body = { agentId: { agent: ['agent-#'] }, description: 'Please also look at the login flow.' };
    // Not to those with a long timeline, which are the last.
    return called(filled, '/v1/agent/queue', body, { from: families - liveFamilies + 1, to: families - 50 });
  },
  spawn: async ({ service }, round) =>
    1000 / (await load(service.url, 'spawn.lua', 1, { KEY: service.key, ROUND: String(round) })),
  'claim of 8 runs': async ({ runner }) => {
    let ms = 0;
    for (let poll = 0; poll < 20; poll += 1) {
      const { claims, tookMs } = await runner.poll({ real: 0, rehearsed: 8 }, 0);
      if (claims !== 8) throw new Error(`a poll got ${claims} runs`);
      ms += tookMs;
    }
    return ms / 20;
  },
};

async function filled(service: Service, filling: Fill): Promise<Filled> {
  await fill(service, filling);
  const runner = new InstantRunner({ url: service.url, key: await runnerKey(service) });
  return { service, filling, runner };
}

/** The same operations on a small and on a large database, in turns. */
async function compare(few: Filled, many: Filled): Promise<void> {
  for (const [name, measure] of Object.entries(measures)) {
    await measure(few, 0);
    await measure(many, 0);
    const took = await alternated(
      { few: (round) => measure(few, round), many: (round) => measure(many, round) },
      rounds,
    );
    say(`      ${name}: ${took.few.toFixed(2)} ms → ${took.many.toFixed(2)} ms`);
    if (name !== anyStatus)
      ceiling(`${name}, ${many.filling.agents} agents against 1,000`, took.many / took.few, 1.5);
  }
}

export async function growth(rows: number): Promise<void> {
  const agents = Math.min(largest, rows / 20);
  const large: Fill = { agents, rows, days: 360, long: Math.max(1, Math.floor(agents / 50_000)) };
  checkDisk(small, large);
  const services = await Promise.all([1, 2].map(() => startService({ MUSTER_RUNNER: 'off' })));
  try {
    const [few, many] = services as [Service, Service];
    await compare(await filled(few, small), await filled(many, large));
  } finally {
    for (const service of services) await service.close();
  }
}
