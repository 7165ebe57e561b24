import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { writeResource } from '../support/catalog.ts';
import { databaseDump, findSecretsScript, wantedFile } from '../support/find-secrets.ts';
import { png } from '../support/images.ts';
import { sandbox } from '../support/sandbox.ts';
import { localMcpServer, startTeamMcpServer, type TeamMcpServer } from '../support/team-mcp-server.ts';
import { backends, claudeCode, codex, contentOf, type TestAgents, useTestService } from './test-service.ts';

const random = (name: string): string => `${name}-${randomBytes(12).toString('hex')}`;
/** Never inside the sandbox. */
const bearer = random('bearer');
const team = random('team');
const codeHostToken = random('codehost');
/** Inside by purpose, but in nothing that comes out. */
const localToken = `${random('local')}-it's`;
const canary = random('canary');

let remote: TeamMcpServer;
let agents: TestAgents;

const service = useTestService({ env: { TEAM_HEADER: team } }, async ({ api }) => {
  await writeResource(api, 'secret', 'tracker', { value: `Bearer ${bearer}` });
  await writeResource(api, 'secret', 'local', { value: localToken });
  await writeResource(api, 'secret', 'host', { value: codeHostToken });
  await writeResource(api, 'integration', 'host', {
    type: 'forgejo',
    url: 'https://git.example.com',
    token: { fromSecret: 'host' },
    repos: ['**'],
    paused: true,
  });
  await writeResource(api, 'environment', 'team', { variables: { CANARY: canary, TEAM: 'muster' } });
});

const tracker = () => ({
  url: remote.url,
  headers: { Authorization: { fromSecret: 'tracker' }, 'X-Team': { fromRunner: 'TEAM_HEADER' } },
});

beforeAll(async () => {
  remote = await startTeamMcpServer(`Bearer ${bearer}`);
  const workspace = await service().workspace(
    {
      'tools/mcp.mjs': localMcpServer,
      'find.sh': findSecretsScript,
      wanted: wantedFile([canary, bearer, team, codeHostToken]),
    },
    {
      environment: 'team',
      mcpServers: {
        'team-tracker': tracker(),
        local: {
          command: 'node',
          args: ['tools/mcp.mjs', `it's "\${HOME}" $HOME`],
          env: { TOKEN: { fromSecret: 'local' }, MODE: 'plain' },
        },
        broken: { command: 'no-such-program' },
      },
    },
  );
  agents = workspace.agents;
});
afterAll(() => remote?.close());

describe.concurrent.each(backends)('$title', ({ name, model }) => {
  it('uses a remote and a local server, and what reaches it or is reported has no value of their secrets', async () => {
    const marker = service().script(
      { tool: 'lookup', args: { word: name }, server: 'team-tracker' },
      { tool: 'remove', args: { word: name }, server: 'team-tracker' },
      { tool: 'measure', args: {}, server: 'local' },
      {
        shell: [
          'bash find.sh',
          'pwd',
          'printf %s "$MUSTER_MCP_1_TOKEN" | sha256sum; env | grep ^MUSTER_MCP_1_TOKEN',
        ].join('; echo =====; '),
      },
      { say: `It was ${localToken}.` },
    );
    await agents.spawn(name, { model, description: `Use the tools. ${marker}` });
    expect(await agents.wait(name)).toMatchObject({ error: null, response: 'It was ***.' });

    const results = await agents.texts(name, 'TOOL_RESULT');
    const [looked = '', removed = '', measured = '', printed = ''] = results;
    expect(looked).toContain(`lookup ${name}: got *** of ***`);
    expect(removed).toContain(`remove ${name}: got *** of ***`);
    // The search finds the canary everywhere, and nothing else.
    const [found = '', folder, ...given] = printed.split('=====\n');
    const places = ['environment', '/proc/environ', '/proc/cmdline'];
    const lines = found.trim().split('\n');
    expect(lines).toEqual(expect.arrayContaining(places.map((place) => `${place}:${canary}`)));
    expect(lines.filter((line) => !line.endsWith(`:${canary}`))).toEqual([]);
    expect(given.join('')).toContain(createHash('sha256').update(localToken).digest('hex'));
    expect(given.join('')).toContain('MUSTER_MCP_1_TOKEN=***');
    expect(JSON.parse(/{.*}/.exec(measured)?.[0] ?? '')).toMatchObject({
      args: [`it's "\${HOME}" $HOME`],
      TOKEN: '***',
      MODE: 'plain',
      TEAM: 'muster',
      proxied: sandbox !== null,
      cwd: folder?.trim(),
    });
    expect(await agents.images(name)).toEqual([png().toString('base64')]);
    expect(offeredIn(service().firstRequest(marker))).toEqual([]);
    const content = contentOf(service().lastRequest(marker));
    for (const value of [bearer, team, codeHostToken]) expect(content).not.toContain(value);
    expect(await agents.warnings(name)).toEqual([
      'The tools of broken are unavailable; the agent continues without them.',
    ]);
    expect(content).toContain(`lookup ${name}: got *** of ***`);
  });
});

/** Tools that a workspace has to turn on, with the steps that use them. */
const optionalTools = [
  {
    ...claudeCode,
    offered: ['Agent', 'WebFetch', 'WebSearch'],
    steps: (search: string, helper: string): Step[] => [
      { native: 'WebSearch', args: { query: `herons ${search}` } },
      { native: 'WebFetch', args: { url: 'https://docs.example.com/', prompt: 'What is it?' } },
      { native: 'Agent', args: { description: 'Help', prompt: helper, model: 'sonnet' } },
    ],
    shown: () => [
      expect.stringContaining('WebSearch Search the web: herons'),
      'WebFetch Fetch https://docs.example.com/',
      'Agent Sub-agent: Help',
    ],
  },
  {
    ...codex,
    offered: ['Multi-agent tools', 'web_search'],
    steps: (_search: string, helper: string): Step[] => [
      { native: 'spawn_agent', namespace: 'multi_agent_v1', args: { message: helper } },
      { until: service().asked(helper) },
    ],
    shown: (helper: string) => [`sub_agent spawnAgent: ${helper}`],
  },
  // Codex has another protocol for some models.
  {
    ...{ ...codex, title: 'Codex in code mode', name: 'code-mode', model: 'gpt-5.6-sol' },
    offered: ['spawn_agent'],
    steps: (): Step[] => [{ tool: 'lookup', args: { word: 'heron' }, server: 'team-tracker' }],
    shown: () => ['team-tracker.lookup team-tracker.lookup'],
  },
];

/** The optional tools in a request: one by one, in groups, or behind the tool that finds them. */
function offeredIn({ body }: SeenRequest): string[] {
  type Listed = { name?: string; type: string; description?: string; tools?: Listed[] };
  const namesOf = ({ name, type, description = '', tools = [] }: Listed): string[] => [
    name ?? type,
    ...(type === 'tool_search'
      ? [...description.matchAll(/^- ([^:\n]*)/gm)].map(([, one]) => one ?? '')
      : []),
    ...tools.flatMap(namesOf),
  ];
  const input = (body.input ?? []) as Listed[];
  const groups = input.filter(({ type }) => type === 'additional_tools');
  const optional = optionalTools.flatMap(({ offered }) => offered);
  return [...((body.tools ?? []) as Listed[]), ...groups]
    .flatMap(namesOf)
    .filter((name) => optional.includes(name))
    .sort();
}

describe.concurrent.each(optionalTools)('$title with all tools', ({ name, model, offered, steps, shown }) => {
  it('is offered them; what they use is counted, and they reach only allowed hosts', async () => {
    const { stub } = service();
    const script = (...scripted: Step[]) => service().script(...scripted);
    const workspace = await service().emptyWorkspace({
      tools: ['web_search', 'web_fetch', 'sub_agents'],
      ...(name === 'code-mode' && { mcpServers: { 'team-tracker': tracker() } }),
    });
    const search = script({ say: 'Herons were found.' });
    const helper = script({ say: 'The helper has looked.' });
    // Codex may ask once more, when it tells the agent that its helper has ended.
    const marker = script(...steps(search, helper), { say: 'Done.' }, { say: 'Done.' });
    await workspace.spawn(name, { model, description: `Use the tools. ${marker}` });
    const status = await workspace.wait(name);
    expect(status).toMatchObject({ error: null, response: 'Done.' });
    expect(offeredIn(service().firstRequest(marker))).toEqual(offered);
    const requests = [marker, search, helper].flatMap((one) => stub.requestsOf(one));
    expect(Number(status.inputTokens)).toBe(100 * requests.length);
    expect(requests.every(({ body }) => body.model === model)).toBe(true);
    expect(stub.requestsOf(helper)).toHaveLength(name === 'code-mode' ? 0 : 1);
    const calls = (await workspace.timeline(name, 'TOOL_CALL')).map(
      ({ data, text }) => `${data.tool} ${text}`,
    );
    expect(calls).toEqual(shown(helper));
    if (name === 'code-mode')
      expect(await workspace.texts(name, 'TOOL_RESULT')).toEqual(['lookup heron: got *** of ***']);
    if (name !== 'claude') return;
    const [searched, fetched, helped] = await workspace.texts(name, 'TOOL_RESULT');
    expect(searched).toContain('Herons were found.');
    expect(fetched).toMatch(/403|refused/i);
    expect(helped).toContain('The helper has looked.');
    expect(await workspace.warnings(name)).toEqual([
      expect.stringContaining('refused a connection to docs.example.com:443'),
    ]);
  });
});

it('a server whose secret is missing blocks the agent, and a rehearsal ignores it', async () => {
  const headers = { Authorization: { fromSecret: 'nothing' } };
  const workspace = await service().emptyWorkspace({ mcpServers: { a: { url: remote.url, headers } } });
  await workspace.spawn('real', { model: claudeCode.model, description: 'Work.' });
  await workspace.spawn('rehearsed', { model: 'rehearsal-a', description: '!say Done.' });
  expect(await workspace.wait('real')).toMatchObject({
    phaseReason: 'BLOCKED',
    error: {
      code: 'ENVIRONMENT_INVALID',
      message:
        'The workspace is invalid: mcpServers.a.headers.Authorization: secret "nothing" not found; set it: muster secret set nothing',
    },
  });
  expect(await workspace.wait('rehearsed')).toMatchObject({ error: null, response: 'Done.' });
});

it('the remote server gets the headers with every request, and neither the token of a run nor a cookie', () => {
  expect(new Set(remote.seen.map(({ method }) => method))).toEqual(new Set(['POST', 'GET', 'DELETE']));
  for (const { headers, url } of remote.seen) {
    expect(url).toBe('/team/mcp?tenant=7');
    expect(headers).toMatchObject({ authorization: `Bearer ${bearer}`, 'x-team': team });
    expect(JSON.stringify(headers)).not.toMatch(/mst_|cookie/);
  }
});

it('no secret is in the database or the log, and no run has reported one', async () => {
  const values = [bearer, team, codeHostToken, localToken];
  const texts = [
    ...(await databaseDump(service().server.databaseUrl)).map(({ table, rows }) => [table, rows.join('\n')]),
    ['log', service().server.output.join('')],
  ] as const;
  expect(
    texts.filter(([, text = '']) => values.some((value) => text.includes(value))).map(([at]) => at),
  ).toEqual([]);
});
