import { createHash } from 'node:crypto';
import type { AgentEntry, TimelineEntry, TimelinePartial } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { accepted } from '../support/agents.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { type EventStream, openStream } from '../support/streams.ts';
import { backends, gate, reasonOf, type TestAgents, useTestService } from './test-service.ts';

/** Values that agents use and that nothing they report contains. */
const token = 'agents-token-5d41402abc4b2a76';
const runnerToken = 'runner-token-b9719d911017c592';
const privateKey = '-----BEGIN PRIVATE KEY-----\n  c2VjcmV0IGxpbmUgb25l\nok\nc2VjcmV0IGxpbmUgdHdv\n';
const values = [token, runnerToken, 'PRIVATE KEY', 'c2VjcmV0'];

const service = useTestService({ env: { TEAM_TOKEN: runnerToken } }, async ({ api }) => {
  await writeResource(api, 'secret', 'token', { value: token });
  await writeResource(api, 'secret', 'key', { value: privateKey });
  const variables = {
    TOKEN: { fromSecret: 'token' },
    KEY: { fromSecret: 'key' },
    TEAM_TOKEN: { fromRunner: 'TEAM_TOKEN' },
    PLAIN: 'a plain value',
  };
  await writeResource(api, 'environment', 'secrets', { variables, setup: ['echo "setup with $TOKEN"'] });
});

const digestOf = (value: string): string => createHash('sha256').update(value).digest('hex');

/** Everything that the agent's runs have reported, and what they were told. */
async function reportsOf(agents: TestAgents, name: string): Promise<string> {
  const { description: _, ...status } = await agents.status(name);
  const entries = (await agents.timeline(name)).filter(({ type }) => type !== 'AGENT_SPAWNED');
  const diff = accepted('diff', await agents.send('agent/diff', name));
  const { description: __, ...entry } = await entryOf(agents, name);
  return JSON.stringify([status, entry, entries, await agents.runs(name), await agents.tasks(name), diff]);
}

async function entryOf(agents: TestAgents, name: string): Promise<AgentEntry> {
  const list = { workspace: agents.workspace, allDepths: true, includeTerminal: true };
  const { entries } = accepted('list', await agents.api.post<{ entries: AgentEntry[] }>('/v1/agents', list));
  return entries.find(({ agentId }) => agentId.agent.join('/') === name) as AgentEntry;
}

async function expectMasked(agents: TestAgents, name: string): Promise<string> {
  const reports = await reportsOf(agents, name);
  for (const value of values) expect(reports).not.toContain(value);
  return reports;
}

describe('a rehearsed agent', () => {
  it('has the values of its secrets in its environment, and reports none of them', async () => {
    const agents = await service().emptyWorkspace({ environment: 'secrets' });
    const description = [
      '!run echo "token=$TOKEN, team=$TEAM_TOKEN, $PLAIN"; echo "$KEY"',
      `!run printf %s "$TOKEN" | sha256sum; printf %s "$KEY" | sha256sum`,
      '!run env',
    ].join('\n');
    await agents.spawn('a', { description });
    await agents.wait('a');
    const [printed, digests] = await agents.texts('a', 'TOOL_RESULT');
    expect(printed).toBe('token=***, team=***, a plain value\n***\n\n');
    expect(digests).toBe(`${digestOf(token)}  -\n${digestOf(privateKey)}  -\n`);
    const setup = await agents.texts('a', 'SETUP_OUTPUT');
    expect(setup.join('')).toContain('setup with ***\n');
    await expectMasked(agents, 'a');
  });

  it('says, asks, outputs and fails without the values', async () => {
    const agents = await service().emptyWorkspace({ environment: 'secrets' });
    const outputSchema = '{"type":"object"}';
    const asked = `!say I have ${token}\n!output {"${token}": ["c2VjcmV0IGxpbmUgb25l"]}\n!ask Use ${token}?`;
    await agents.spawn('asks', { description: asked, outputSchema });
    await agents.spawn('fails', { description: `!fail because of ${runnerToken}` });
    await agents.spawn('adds', { description: `!task add check ${token}\n!task done check ***` });
    await agents.spawn('spawns', { description: `!spawn kid !say ${token} and more\n!say done` });
    expect(await agents.wait('asks')).toMatchObject({ needsInput: 'Use ***?', response: 'I have ***' });
    expect(await agents.wait('fails')).toMatchObject({ error: { message: 'because of ***' } });
    expect((await agents.wait('adds')).tasks).toMatchObject([
      { subject: 'check ***', status: 'TASK_STATUS_COMPLETED' },
    ]);
    await agents.wait('spawns');
    expect((await agents.wait('spawns/kid')).description).toBe('!say *** and more');
    expect(await entryOf(agents, 'asks')).toMatchObject({ news: 'Use ***?' });
    for (const name of ['asks', 'fails', 'adds', 'spawns', 'spawns/kid']) await expectMasked(agents, name);
    await agents.queue('asks', { description: `!output {"${token}": ["c2VjcmV0IGxpbmUgb25l"]}` });
    expect((await agents.wait('asks')).structuredOutput).toEqual({ '***': ['***'] });
  });

  it('pushes files whose names and diffs are reported without the values', async () => {
    const { agents } = await service().workspace(undefined, { environment: 'secrets' });
    await agents.spawn('a', { description: '!run echo "$TOKEN" > "for-$TOKEN.txt"\n!push for everyone' });
    await agents.wait('a');
    const [push] = await agents.timeline('a', 'PUSH');
    expect(push?.data).toMatchObject({ files: ['for-***.txt'] });
    expect(await expectMasked(agents, 'a')).toContain('+***');
  });

  it('does not start without a secret that its environment names, and gets new values with its next run', async () => {
    const { api } = service();
    const [environment, secret] = [uniqueName('environment'), uniqueName('secret')];
    await writeResource(api, 'environment', environment, { variables: { MINE: { fromSecret: secret } } });
    const agents = await service().emptyWorkspace({ environment });
    await agents.spawn('a', { description: '!run printf %s "$MINE" | sha256sum' });
    const blocked = await agents.wait('a');
    expect(reasonOf(blocked)).toBe('WAITING_FOR_INPUT/BLOCKED');
    expect(blocked.error).toEqual({
      code: 'ENVIRONMENT_INVALID',
      message: `The environment is invalid: variables.MINE: secret "${secret}" not found; set it: muster secret set ${secret}`,
    });
    for (const value of ['the first value', 'the second value']) {
      await writeResource(api, 'secret', secret, { value });
      await agents.queue('a', '!run printf %s "$MINE" | sha256sum');
      await agents.wait('a');
      expect((await agents.texts('a', 'TOOL_RESULT')).at(-1)).toBe(`${digestOf(value)}  -\n`);
    }
  });
});

it('an agent that has an earlier value of a secret does not report it in later runs either', async () => {
  const { api } = service();
  const [environment, secret] = [uniqueName('environment'), uniqueName('secret')];
  await writeResource(api, 'environment', environment, { variables: { MINE: { fromSecret: secret } } });
  const agents = await service().emptyWorkspace({ environment });
  await writeResource(api, 'secret', secret, { value: 'the first value' });
  await agents.spawn('a', { description: '!run echo "$MINE" > kept' });
  await agents.wait('a');
  await writeResource(api, 'secret', secret, { value: 'the second value' });
  await agents.queue('a', '!run cat kept; echo "$MINE"');
  await agents.wait('a');
  expect((await agents.texts('a', 'TOOL_RESULT')).at(-1)).toBe('***\n***\n');
});

type Streamed = TimelineEntry & TimelinePartial;

const liveTextOf = ({ seen }: EventStream<Streamed>): string =>
  seen.flatMap(({ type, data }) => (type === 'partial' ? [data.text] : [])).join('');

const watch = (agents: TestAgents, name: string) =>
  openStream<Streamed>(service().api, '/v1/agent/timeline/stream', { agentId: agents.id(name) });

it('a rehearsed agent shows what its command prints while it runs, without the values', async () => {
  const agents = await service().emptyWorkspace({ environment: 'secrets' });
  await agents.spawn('a', { description: '!run echo "token=$TOKEN"; echo ready; sleep 600' });
  const stream = await watch(agents, 'a');
  expect(await stream.until(() => liveTextOf(stream).includes('ready\n'))).toBe(true);
  expect(liveTextOf(stream)).toBe('token=***\nready\n');
  stream.close();
  await agents.kill('a');
});

describe.concurrent.each(backends)('$title', ({ model }) => {
  it('shows what it writes while it does, without a value that comes in parts', async () => {
    const agents = await service().emptyWorkspace({ environment: 'secrets' });
    const [begun, ended] = [gate(), gate()];
    const [half, rest] = [token.slice(0, 12), token.slice(12)];
    const marker = service().script({
      say: ['I know ', half, begun.promise, rest, ' and more', ended.promise, '.'],
    });
    await agents.spawn('a', { model, description: marker });
    const stream = await watch(agents, 'a');
    const shows = (text: string) => stream.until(() => liveTextOf(stream) === text);
    expect(await shows('I know ')).toBe(true);
    begun.open();
    expect(await shows('I know *** and more')).toBe(true);
    ended.open();
    expect(await stream.until(({ data }) => data.type === 'MESSAGE' && 'sequence' in data)).toBe(true);
    expect(stream.seen.at(-1)?.data).toMatchObject({ text: 'I know *** and more.' });
    stream.close();
  });

  it('uses the values of its secrets, and reports none of them', async () => {
    const agents = await service().emptyWorkspace({ environment: 'secrets' });
    const long = 'head -c 200000 /dev/zero | tr "\\\\0" x';
    const marker = service().script(
      { think: `The token is ${token}.` },
      { shell: 'echo "[$TOKEN]"; printf %s "$TOKEN" | sha256sum' },
      { shell: `echo "$KEY"; ${long}; echo "$TEAM_TOKEN"` },
      { tool: 'ask', args: { question: `May I use ${token}?` } },
      { say: `I asked about ${token}.` },
    );
    await agents.spawn('a', { model, description: `Use the token. ${marker}` });
    const status = await agents.wait('a');
    expect(status).toMatchObject({ needsInput: 'May I use ***?', response: 'I asked about ***.' });
    const reports = await expectMasked(agents, 'a');
    expect(reports).toContain('[***]');
    expect(reports).toContain(digestOf(token));
  });
});
