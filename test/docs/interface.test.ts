import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RouteName, routes, type Schema } from '@muster/sdk/contract';
import { transform } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { errorSchemaProblem, replySchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { browserOf, codeOf } from '../support/sign-in.ts';
import { newTenant } from '../support/tenants.ts';
import { readText } from '../tidy/sources.ts';
import { type Block, blocksOf } from './blocks.ts';
import { jsonValuesIn } from './likeness.ts';
import { addressInPages, Reader } from './reader.ts';

/**
 * Every example of docs/interface.md, as written: below the lines with which the page begins, by a reader of its own
 * with a tenant of its own, in which there is what the example is about.
 */
const blocks = blocksOf('docs/interface.md');
const examples = blocks.filter(({ exampleOf }) => exampleOf !== null);
const [shellLines, clientLines] = blocks.filter(({ exampleOf }) => exampleOf === null);

/** Sets the stage and says what else is in the environment of the example. */
type Scene = (admin: Api, runnerId: string) => Promise<Record<string, string>>;

const agentsOf = (admin: Api): Agents => new Agents(admin, 'default');

const nothing: Scene = async () => ({});

const resting =
  (description = '!say Done.', more: Record<string, unknown> = {}): Scene =>
  async (admin) => {
    await agentsOf(admin).spawn('fix-login', { description, ...more });
    await agentsOf(admin).wait('fix-login');
    return {};
  };

/** In a turn that does not end by itself, with a message behind it. */
const working: Scene = async (admin) => {
  const agents = agentsOf(admin);
  await agents.spawn('fix-login', { description: '!sleep 3000' });
  await until(
    'a turn',
    () => agents.phase('fix-login'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  await agents.queue('fix-login', { followUpId: 'a-follow-up', description: 'One more thing.' });
  return {};
};

const withPersona: Scene = async (admin) => {
  await writeResource(admin, 'persona', 'terse', { instructions: 'Be terse.' });
  return {};
};

/** An agent that only a runner of the pool `builders` can take, and the key of such a runner. */
const waitingForRunner: Scene = async (admin) => {
  await writeResource(admin, 'pool', 'builders', {});
  await writeResource(admin, 'workspace', 'built', { pool: 'builders' });
  const { key } = await createKey(admin, { role: 'runner', pool: 'builders' });
  await new Agents(admin, 'built').spawn('fix-login', { model: 'claude-opus-4-8' });
  return { MUSTER_API_KEY: key };
};

/** The same, once the runner of the examples has taken it. */
const heldByRunner: Scene = async (admin, runnerId) => {
  const { MUSTER_API_KEY: key = '' } = await waitingForRunner(admin, runnerId);
  const { agentKey } = await new FakeRunner(admin.as(key), 'builder-1', runnerId).claim();
  return { MUSTER_API_KEY: key, AGENT_KEY: agentKey };
};

/** With a part of the checkpoint of the examples, */
const withPart: Scene = async (admin, runnerId) => {
  const held = await heldByRunner(admin, runnerId);
  const runner = new FakeRunner(admin.as(held.MUSTER_API_KEY ?? ''), 'builder-1', runnerId);
  const run = { agentKey: held.AGENT_KEY ?? '', runId: 1 };
  expectOk(await runner.savePart(run, checkpointIdInPage, 0, Buffer.from('work')));
  return held;
};

/** and with all of it. */
const withCheckpoint: Scene = async (admin, runnerId) => {
  const held = await withPart(admin, runnerId);
  const runner = new FakeRunner(admin.as(held.MUSTER_API_KEY ?? ''), 'builder-1', runnerId);
  expectOk(
    await runner.completeCheckpoint({ agentKey: held.AGENT_KEY ?? '', runId: 1 }, checkpointIdInPage, 1),
  );
  return held;
};

/** With the key of the run. */
const inItsRun: Scene = async (admin, runnerId) => {
  const { MUSTER_API_KEY: key = '' } = await waitingForRunner(admin, runnerId);
  const runner = new FakeRunner(admin.as(key));
  const claim = await runner.claim();
  await runner.started(claim);
  return { MUSTER_API_KEY: claim.token };
};

/** A directive that can't be followed is for a person to fix. */
const blocked = resting('!sleep soon');

/** With a browser that is signed in. */
const signedIn: Scene = async (admin) => {
  const { cookie, session } = await browserOf(admin.url, admin.key);
  return { COOKIE: cookie, SESSION: session.id };
};

const checkpointIdInPage =
  /"checkpointId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

/** Each process has an id of its own, so each example gets another one in its place. */
const runnerIdInPage = /"runnerId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

const scenes: Readonly<Record<RouteName, Scene>> = {
  whoami: nothing,
  service: nothing,
  signInCode: nothing,
  signIn: async (admin) => ({ CODE: await codeOf(admin) }),
  session: signedIn,
  signOut: signedIn,
  listSessions: signedIn,
  revokeSession: signedIn,
  spawn: nothing,
  status: resting(),
  wait: resting(),
  waitMany: resting('!spawn tests Test it.'),
  list: resting(),
  listStream: resting(),
  listStreamByGet: resting(),
  kill: resting(),
  retry: blocked,
  reopen: resting('!finish Done.'),
  labels: resting(),
  checkpoint: resting('!write login.txt Fixed'),
  diff: resting('!write login.txt Mended\n!push Mend the login page'),
  queue: resting(),
  removeFollowUp: working,
  listFollowUps: working,
  followUp: working,
  clearFollowUps: working,
  stopTurn: working,
  runs: resting(),
  timeline: resting(),
  timelineStream: resting(),
  timelineStreamByGet: resting(),
  ask: inItsRun,
  finish: inItsRun,
  fail: inItsRun,
  tasks: resting('Work.', { tasks: [{ subject: 'Fix it' }] }),
  createTasks: resting(),
  updateTask: resting('!say Later.', { tasks: [{ id: 'docs', subject: 'Write it down' }] }),
  writeResource: nothing,
  readResource: withPersona,
  listResources: withPersona,
  deleteResource: withPersona,
  resourceHistory: withPersona,
  runnerPoll: waitingForRunner,
  runnerReport: heldByRunner,
  runnerSaveCheckpoint: heldByRunner,
  runnerCompleteCheckpoint: withPart,
  runnerCheckpoints: withCheckpoint,
  runnerLoadCheckpoint: withCheckpoint,
  runnerEndedAgents: heldByRunner,
};

let server: SharedServer;
let operator: Api;
beforeAll(async () => {
  server = await sharedServer();
  operator = server.operator;
});
afterAll(() => server?.close());

/** Operations that only a page with a session cookie has a use for. */
const isForPages = (name: RouteName): boolean =>
  ['session', 'signOut'].includes(name) || name.endsWith('ByGet');

test('every operation has an example for curl, and all but those of runners and of pages one in TypeScript', () => {
  const lacking = routeEntries.flatMap(([name, { access }]) => {
    const own = examples.filter(({ exampleOf }) => exampleOf === name);
    const hasCurl = own.some(({ code }) => code.startsWith('curl '));
    const hasClient =
      access === 'runner' ||
      access === 'own-page' ||
      isForPages(name) ||
      own.some(({ language }) => language === 'ts');
    return hasCurl && hasClient ? [] : [name];
  });
  expect(lacking).toEqual([]);
});

test('the page has no other code than the examples and the lines before them', () => {
  expect(blocks.length).toBe(examples.length + 2);
  expect([shellLines?.language, clientLines?.language]).toEqual(['sh', 'ts']);
});

test('the prose names every path and every field of the contract', () => {
  const prose = readText('docs/interface.md').replace(/<!-- generated: [\s\S]*?<!-- end -->/g, '');
  const words = new Set([...prose.matchAll(/`[^`]*`/g)].flatMap(([code]) => code.match(/\w+/g) ?? []));
  const fieldsIn = ({ properties = {}, items, anyOf = [] }: Schema): string[] => [
    ...Object.keys(properties),
    ...[...Object.values(properties), ...(items ? [items] : []), ...anyOf].flatMap(fieldsIn),
  ];
  const missing = routeEntries.flatMap(([, { path, body = {}, query = {}, reply }]) => [
    ...(prose.includes(path.replaceAll('ref.', '')) ? [] : [path]),
    ...[body, query, reply].flatMap(fieldsIn).filter((field) => !words.has(field.split('.').at(-1) ?? '')),
  ]);
  expect([...new Set(missing)]).toEqual([]);
});

/** These go on until somebody presses Ctrl-C. */
const isEndless = ({ exampleOf, language }: Block): boolean =>
  language === 'sh' && 'stream' in routes[exampleOf as RouteName];

const kindOf = ({ code, language }: Block): string =>
  language === 'ts' ? 'TypeScript' : code.startsWith('curl ') ? 'curl' : 'the command line';

describe.each(examples.map((block) => [block.exampleOf as RouteName, kindOf(block), block] as const))(
  '%s by %s',
  (name, kind, block) => {
    test('runs as written', async () => {
      const { admin } = await newTenant(operator);
      const runnerId = randomUUID();
      const reader = new Reader(kind === 'TypeScript' ? { MUSTER_URL: server.url } : {});
      try {
        const { MUSTER_API_KEY: key = admin.key, ...variables } = await scenes[name](admin, runnerId);
        mkdirSync(join(reader.folder, '.muster'));
        writeFileSync(join(reader.folder, '.muster/admin.key'), `${key}\n`);
        const { printed, code } = await runAsWritten(
          reader,
          { ...block, code: block.code.replaceAll(runnerIdInPage, runnerId) },
          variables,
        );

        if (!isEndless(block)) expect({ code, printed }).toEqual({ code: 0, printed });
        if (kind !== 'curl') return;
        const [reply] = jsonValuesIn(printed);
        expect(errorSchemaProblem(reply), printed).toBeDefined();
        expect(replySchemaProblem(name, reply)).toBeUndefined();
      } finally {
        reader.close();
      }
    });
  },
);

async function runAsWritten(reader: Reader, block: Block, variables: Readonly<Record<string, string>>) {
  const exports = Object.entries(variables).map(([name, value]) => `export ${name}=${value}\n`);
  const above = `${shellLines?.code.replaceAll(addressInPages, server.url)}${exports.join('')}`;
  const shell = (code: string): readonly string[] => [
    'bash',
    '-e',
    '-o',
    'pipefail',
    '-c',
    `${above}${code}`,
  ];
  if (block.language === 'sh')
    return reader.runs(shell(block.code), isEndless(block) ? /Done\.|fix-login/ : undefined);
  const { code } = await transform(`${clientLines?.code}\n${block.code}`, { loader: 'ts' });
  writeFileSync(join(reader.folder, 'example.mjs'), code);
  return reader.runs(shell(`${JSON.stringify(process.execPath)} example.mjs`));
}
