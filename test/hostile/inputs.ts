import { randomBytes, randomUUID } from 'node:crypto';
import { type AgentStatus, limits } from '@muster/sdk/contract';
import type { Answer, Api } from '../support/api.ts';
import { encode } from '../support/catalog.ts';
import type { TestTenant } from '../support/test-tenant.ts';

/**
 * Small inputs that are expensive for some programs. Each is within the limits on size, or is refused by one. An input
 * gets a test tenant with a fake runner, and returns the replies.
 */
export interface Hostile {
  readonly name: string;
  run(tenant: TestTenant): Promise<Answer<unknown>[]>;
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const kib = 1024;

/** Spawns an agent and runs its first turn with a report in between; returns all replies. */
export async function playTurn(
  tenant: TestTenant,
  spawn: Record<string, unknown>,
  report: Record<string, unknown> = {},
) {
  const name = `hostile-${randomUUID().slice(0, 8)}`;
  const send = (route: string, more: Record<string, unknown> = {}) => tenant.send(route, name, more);
  const spawned = await send('agent/spawn', { model: 'rehearsal-a', description: 'work', ...spawn });
  if (spawned.status !== 200) return [spawned];
  const claim = await tenant.claim(name);
  return [
    spawned,
    await tenant.runner.started(claim),
    await tenant.runner.report(claim, report),
    await send('agent/queue', { description: 'more', ...spawn, tasks: [] }),
    await send('agent/status'),
    await send('agent/tasks'),
    await tenant.runner.end(claim),
    await send('agent/status'),
    await send('agent/kill'),
  ];
}

// Graphs

const graph = (name: string, tasks: { id: string; blockedBy?: string[]; blocks?: string[] }[]): Hostile => ({
  name,
  run: (tenant) => playTurn(tenant, { tasks }),
});

export const graphs: readonly Hostile[] = [
  graph(
    '64 tasks in 32 layers of two, each blocked by both of the layer before',
    times(64, (i) => ({
      id: `t${i}`,
      blockedBy: i < 2 ? [] : [`t${i - 2 - (i % 2)}`, `t${i - 1 - (i % 2)}`],
    })),
  ),
  graph(
    '500 tasks, each blocked by all before it',
    times(500, (i) => ({ id: `${i}`, blockedBy: times(i, String) })),
  ),
  graph(
    '500 tasks, each blocking all after it',
    times(500, (i) => ({ id: `${i}`, blocks: times(499 - i, (j) => `${i + j + 1}`) })),
  ),
  graph(
    'a chain of 500 tasks',
    times(500, (i) => ({ id: `t${i}`, blockedBy: i === 0 ? [] : [`t${i - 1}`] })),
  ),
  graph(
    'a circle of 500 tasks',
    times(500, (i) => ({ id: `t${i}`, blockedBy: [`t${(i + 1) % 500}`] })),
  ),
];

// Schemas

const schema = (name: string, outputSchema: unknown): Hostile => ({
  name: `${name} (${Math.round(JSON.stringify(outputSchema).length / kib)} KiB)`,
  run: (tenant) => playTurn(tenant, { outputSchema: JSON.stringify(outputSchema) }),
});

/** References to one large definition, which a naive implementation copies to each of them. */
const copied = (width: number) => ({
  $defs: {
    big: {
      anyOf: times(width, (i) => ({
        type: 'object',
        properties: { [`p${i}`]: { type: 'string', minLength: 1 } },
      })),
    },
  },
  allOf: times(width, () => ({ $ref: '#/$defs/big' })),
});

/** Each level refers twice to the next: 2^levels paths. */
const doubling = (levels: number) => ({
  $defs: Object.fromEntries(
    times(levels, (i) => [
      `level${i}`,
      i === levels - 1 ? { type: 'string' } : { allOf: times(2, () => ({ $ref: `#/$defs/level${i + 1}` })) },
    ]),
  ),
  $ref: '#/$defs/level0',
});

export const schemas: readonly Hostile[] = [
  schema('references to one large definition', copied(90)),
  schema('references to one large definition', copied(180)),
  schema('references to one large definition', copied(340)),
  schema('levels that refer twice to the next', doubling(90)),
  schema('levels that refer twice to the next', doubling(600)),
  schema('a pattern that backtracks', { type: 'string', pattern: '^(a+)+$' }),
  schema('a pattern of 60 KiB', { type: 'string', pattern: '(a|'.repeat(20 * kib) }),
  schema('a pattern with a huge repetition', { type: 'string', pattern: '((a{1,1000}){1,1000}){1,1000}' }),
  schema('5,000 names in an enum', { enum: times(5000, (i) => `v${i}`) }),
  schema('1,900 properties', {
    properties: Object.fromEntries(times(1900, (i) => [`p${i}`, { minLength: i }])),
  }),
  schema('unevaluated properties', {
    unevaluatedProperties: false,
    allOf: times(400, (i) => ({ anyOf: [{ properties: { [`a${i}`]: true } }] })),
  }),
  schema(
    'a schema nested in itself',
    times(60, (i) => i).reduce<object>((inner) => ({ not: { items: inner } }), {}),
  ),
];

// Outputs: the service's own runner rehearses these agents, and checks or generates their outputs.

/** Spawns an agent in the default pool and waits for the end of its turn. */
async function rehearse(api: Api, spawn: Record<string, unknown>): Promise<Answer<AgentStatus>> {
  const agentId = { agent: [`hostile-${randomUUID().slice(0, 8)}`] };
  const spawned = await api.post<AgentStatus>('/v1/agent/spawn', { agentId, model: 'rehearsal-a', ...spawn });
  return spawned.status === 200 ? api.post('/v1/agent/wait', { agentId }) : spawned;
}

const output = (name: string, outputSchema: unknown, description = '!say done'): Hostile => ({
  name,
  run: async ({ api }) => [await rehearse(api, { outputSchema: JSON.stringify(outputSchema), description })],
});

/** An output that makes a pattern backtrack is in schema-worker.test.ts. */
export const slowOutput = output('an output with 2^90 ways through its schema', doubling(90), '!output "x"');

export const outputs: readonly Hostile[] = [
  // Without a sample the output is null, which is valid here, so that only the sample takes long.
  output('a sample of a schema with 2^90 ways through it', {
    type: ['object', 'null'],
    required: ['x'],
    properties: { x: { $ref: '#/$defs/level0' } },
    $defs: doubling(90).$defs,
  }),
  output('a sample of a schema that refers to itself', { allOf: [{ $ref: '#' }] }),
  output('a directive with very many spaces', {}, `!say a${' '.repeat(200 * kib)}b`),
  output('an output nested 50,000 deep', {}, `!output ${'['.repeat(50_000)}${']'.repeat(50_000)}`),
  output('a wide output', {}, `!output ${JSON.stringify(times(40_000, String))}`),
  output(
    'a wide output that does not fit',
    { items: { type: 'number' } },
    `!output ${JSON.stringify(times(30_000, String))}`,
  ),
];

// Globs

const long = 'a'.repeat(4000);

const glob = (name: string, patterns: readonly string[], files: readonly string[]): Hostile => ({
  name,
  run: (tenant) =>
    playTurn(
      tenant,
      { tasks: patterns.map((pattern, i) => ({ id: `t${i}`, activation: { filesModified: { pattern } } })) },
      { pushes: [{ ref: 'refs/heads/x', commits: ['c0ffee'], files }] },
    ),
});

export const globs: readonly Hostile[] = [
  glob('nested repetitions', ['*(*a)b', '+(+(+(a)))b', '*(*(*(*(a))))b', '@(a|a*|*a)+(a|*a)b'], [long]),
  glob(
    '500 patterns of many stars',
    times(500, (i) => `${'*a'.repeat(500)}${i}`),
    times(200, (i) => `${long}${i}`),
  ),
  glob(
    'braces within braces',
    [`${'{a,{a,'.repeat(100)}b${'}}'.repeat(100)}*c`, '{a,b}'.repeat(200)],
    times(100, () => long),
  ),
  glob(
    '500 patterns of many sets',
    times(500, (i) => `${'[a]'.repeat(330)}*${i}`),
    times(200, (i) => `${long}${i}`),
  ),
  glob('globstars', [`${'**/'.repeat(300)}b`], [`${'a/'.repeat(2000)}a`]),
  glob(
    'very many states',
    times(50, (i) => `*a${'?'.repeat(400 + i)}c`),
    times(200, (i) => long.slice(i)),
  ),
  glob(
    'wide sets',
    [`*[${'xy'.repeat(500)}]*z*`],
    times(200, (i) => `${long}${i}z`),
  ),
  glob(
    'wide characters',
    [`*${'ü*'.repeat(500)}`],
    times(100, () => 'ü'.repeat(2000)),
  ),
];

// JSON

const nested = (levels: number, open = '[', close = ']') => `${open.repeat(levels)}1${close.repeat(levels)}`;
const manyKeys = (bytes: number) =>
  Object.fromEntries(times(Math.floor(bytes / 14), (i) => [`k${i.toString(36).padStart(6, '0')}`, i % 10]));

/** The same body to the routes with open-ended fields, and to one of each other kind. */
const everywhere = (api: Api, value: string): Promise<Answer<unknown>[]> =>
  Promise.all([
    api.post('/v1/agent/spawn', `{"agentId":{"agent":["x"]},"description":"x","more":${value}}`),
    api.post('/v1/agent/spawn', `{"agentId":${value}}`),
    api.post('/v1/agent/queue', `{"agentId":{"agent":["x"]},"tasks":${value}}`),
    api.post('/v1/agents', `{"parentId":${value}}`),
    api.post('/v1/catalog/persona/hostile', `{"payload":"","more":${value}}`),
    api.post('/v1/sign-in', `{"code":${value}}`),
    api.post(
      '/mcp',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent_status","arguments":${value}}}`,
    ),
  ]);

const catalog = (api: Api, text: string): Promise<Answer<unknown>> =>
  api.post(`/v1/catalog/persona/hostile-${randomUUID().slice(0, 8)}`, {
    payload: Buffer.from(text).toString('base64'),
  });

export const json: readonly Hostile[] = [
  { name: 'arrays nested 500,000 deep', run: ({ api }) => everywhere(api, nested(500_000)) },
  { name: 'objects nested 100,000 deep', run: ({ api }) => everywhere(api, nested(100_000, '{"a":', '}')) },
  { name: 'objects nested 99 deep', run: ({ api }) => everywhere(api, nested(96, '{"a":', '}')) },
  { name: '70,000 keys', run: ({ api }) => everywhere(api, JSON.stringify(manyKeys(1000 * kib))) },
  {
    name: '300,000 empty objects',
    run: ({ api }) => everywhere(api, JSON.stringify(times(300_000, () => ({})))),
  },
  {
    name: '49,000 objects, each with a field of another name',
    run: ({ api }) => everywhere(api, JSON.stringify(times(49_000, (i) => ({ [i.toString(36)]: 1 })))),
  },
  { name: 'a number of a million digits', run: ({ api }) => everywhere(api, '9'.repeat(1_000_000)) },
  { name: 'a million escapes', run: ({ api }) => everywhere(api, `"${'\\u0061'.repeat(170_000)}"`) },
  {
    name: 'catalog documents, deep and wide',
    run: async ({ api }) => [
      await catalog(api, `{"a":${nested(250_000)}}`),
      await catalog(api, `{"a":${nested(62)}}`),
      await catalog(api, JSON.stringify(manyKeys(510 * kib))),
      await api.post('/v1/catalog/persona/hostile', { payload: `${'='.repeat(1_000_000)}a` }),
      await catalog(api, JSON.stringify({ tasks: times(500, (i) => ({ id: `t${i}`, blockedBy: ['t0'] })) })),
    ],
  },
  {
    name: 'an update mask of many long paths',
    run: async ({ api }) => [
      await api.post('/v1/catalog/persona/hostile', { payload: encode({}) }),
      await api.post('/v1/catalog/persona/hostile', {
        payload: encode({}),
        updateMask: times(100, (i) => times(1000, (j) => `a${i}b${j}`).join('.')).join(),
      }),
      await api.post('/v1/catalog/persona/hostile', {
        payload: encode({}),
        updateMask: '.'.repeat(1_000_000),
      }),
    ],
  },
];

// Texts

/** Slow for quadratic expressions and loops: one character repeated, and repeated pairs. */
const lines = [
  'a',
  ' ',
  '\n',
  '\t',
  '`',
  '```\n',
  '!say ',
  '> ',
  '[',
  '\\',
  '"',
  '\u0001',
  '👩‍👩‍👧',
  '$(',
  '/a',
  'a@',
  '%',
];

export const longLines: readonly Hostile[] = lines.map((part) => {
  const text = part.repeat(Math.floor((200 * kib) / Buffer.byteLength(part)));
  return {
    name: `200 KiB of ${JSON.stringify(part)}`,
    run: async (tenant) => [
      ...(await playTurn(
        tenant,
        { description: text, expectedOutput: text },
        { currentAction: text.slice(0, 512), items: times(3, () => ({ type: 'MESSAGE', text })) },
      )),
      await tenant.api.post('/v1/agents', { text: text.slice(0, 256), account: '*' }),
    ],
  };
});

// Reports

export const reports: readonly Hostile[] = [
  {
    name: 'a push of 10,000 files for 500 tasks',
    run: glob(
      '',
      times(500, (i) => `**/x${i}/**/*.md`),
      times(10_000, (i) => `packages/service/src/control/folder/file-${i}.ts`),
    ).run,
  },
  {
    name: '100 pushes of 100 files each, for 500 tasks',
    run: (tenant) =>
      playTurn(
        tenant,
        { tasks: times(500, (i) => ({ activation: { filesModified: { pattern: `**/*${i}*/**` } } })) },
        {
          pushes: times(100, (i) => ({
            ref: `refs/heads/${i}`,
            commits: times(100, () => 'c0ffee'),
            files: times(100, (j) => `some/folder/of/many/${i}/${j}.ts`),
          })),
        },
      ),
  },
  {
    name: '500 items with deep and wide data',
    run: (tenant) =>
      playTurn(
        tenant,
        {},
        { items: times(500, (i) => ({ type: 'TOOL_CALL', text: `${i}`, data: manyKeys(kib) })) },
      ),
  },
  {
    name: 'a structured output of many keys',
    run: (tenant) =>
      playTurn(tenant, {}, { end: { outcome: 'COMPLETED', structuredOutput: manyKeys(900 * kib) } }),
  },
  {
    name: 'a diff of 384 Ki one-character lines',
    run: (tenant) =>
      playTurn(
        tenant,
        {},
        {
          diff: {
            repo: 'https://example.com/x',
            files: 1,
            insertions: 1,
            deletions: 0,
            text: '\n'.repeat(384 * kib),
          },
        },
      ),
  },
];

// Large

const mebibyte = kib * kib;

export const large: readonly Hostile[] = [
  {
    // Each part is a request, so more of them would only repeat the same work.
    name: 'a checkpoint of 16 parts of the largest size, saved and loaded',
    run: async (tenant) => {
      const name = `hostile-${randomUUID().slice(0, 8)}`;
      await tenant.spawn(name);
      const claim = await tenant.start(name);
      const archive = randomBytes(16 * limits.checkpointPartBytes);
      await tenant.runner.saveCheckpoint(claim, archive);
      if (!(await tenant.runner.loadCheckpoint(claim))?.equals(archive))
        throw new Error('it was loaded otherwise than it was saved');
      return [await tenant.runner.checkpoints(claim)];
    },
  },
  {
    name: 'a timeline of 40 entries of almost 1 MiB',
    run: async (tenant) => {
      const name = `hostile-${randomUUID().slice(0, 8)}`;
      await tenant.spawn(name);
      const claim = await tenant.start(name);
      const items = [{ type: 'TOOL_RESULT', data: { out: 'x'.repeat(mebibyte - kib) } }];
      for (let i = 0; i < 40; i += 1) await tenant.report(claim, { items });
      return [await tenant.send('agent/timeline', name)];
    },
  },
];
