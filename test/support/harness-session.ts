import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, request as requestHttp } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import type { Claim, ReportItem } from '@muster/sdk/contract';
import { expect, vi } from 'vitest';
import type {
  AgentTools,
  ContextUse,
  Harness,
  Message,
  PartialOutput as Piece,
  Work,
} from '../../packages/service/src/harness/harness.ts';
import { ValueMask } from '../../packages/service/src/lib/value-mask.ts';
import type { ProviderStub } from '../provider/stub.ts';
import { unlimitedCredit } from './credit.ts';
import type { MarkedProcesses } from './processes.ts';

/** The part of a listener for what a test does not look at. */
export const ignored = {
  partial: () => {},
  discardPartial: () => {},
  isWatched: () => false,
  action: () => {},
  context: () => {},
  diff: () => {},
};

/** Opens a session of a harness, and records what it reports. */
export async function openSession(
  harness: Harness,
  claim: Partial<Claim>,
  work: Pick<Work, 'workspaceFolder' | 'homeFolder' | 'endpoint' | 'processes'> & Partial<Work>,
) {
  const items: ReportItem[] = [];
  const images: string[] = [];
  const partials: Piece[] = [];
  const actions: string[] = [];
  const refs: string[] = [];
  const contexts: ContextUse[] = [];
  const defaults = {
    session: '',
    homeSince: 1,
    reasoningEffort: 'high',
    serviceTier: '',
    fastMode: false,
    outputSchema: '',
    workspace: { document: {} },
  };
  const whole = { ...defaults, ...claim } as Claim;
  const session = await harness.open(
    {
      claim: whole,
      tools: {} as AgentTools,
      signal: new AbortController().signal,
      instructions: 'You are Ada.',
      resumes: whole.session !== '',
      mcpServers: { servers: [], environment: {}, commonVariables: [] },
      mask: new ValueMask(),
      credit: unlimitedCredit(),
      ...work,
    },
    {
      item: (item, shown = []) => {
        items.push(item);
        images.push(...shown);
      },
      partial: (partial) => partials.push(partial),
      discardPartial: () => {},
      isWatched: () => true,
      action: (action) => actions.push(action),
      usage: () => {},
      context: (context) => contexts.push(context),
      diff: () => {},
      push: () => {},
      session: (ref) => refs.push(ref),
    },
  );
  return { session, items, images, partials, actions, refs, contexts, ref: refs[0] ?? '' };
}

type OpenedSession = Awaited<ReturnType<typeof openSession>>;

export const message = (text: string, images: Message['images'] = []): Message => ({ text, images });

/** The result of a turn of an open session, and what this turn reported. */
export async function deliverTo({ session, items, actions }: OpenedSession, text: string) {
  for (const reported of [items, actions]) reported.length = 0;
  return { result: await session.deliver(message(text)), items, actions };
}

/** The result of a turn that is interrupted while the model is silent after a command. */
export async function interruptSilentTurn({ session }: OpenedSession, stub: ProviderStub) {
  const marker = stub.script([{ shell: 'true' }, { stall: true }]);
  const turn = session.deliver(message(marker));
  await vi.waitUntil(() => stub.requestsOf(marker).length === 2, { timeout: 20_000 });
  session.interrupt();
  return turn;
}

/** The result of a turn that is interrupted while the harness and its command do not react. Both are ended soon. */
export async function interruptFrozenTurn(
  { session }: OpenedSession,
  stub: ProviderStub,
  processes: MarkedProcesses,
) {
  const turn = session.deliver(message(stub.script([{ shell: 'tail -f /dev/null' }, { say: 'Never.' }])));
  const runs = () => processes.commands().some((command) => command.includes('tail -f'));
  await vi.waitUntil(runs, { timeout: 20_000 });
  processes.freeze();
  const sinceMs = performance.now();
  session.interrupt();
  const result = await turn;
  await vi.waitUntil(() => processes.alive().length === 0, { timeout: 20_000 });
  expect(performance.now() - sinceMs).toBeLessThan(10_000);
  return result;
}

export const ofType = (items: readonly ReportItem[], type: string): ReportItem[] =>
  items.filter((item) => item.type === type);

/** A turn in which the model and a command wait, each in the middle, until what they produced before was reported. */
export async function expectLiveOutput(opened: OpenedSession, stub: ProviderStub, workspace: string) {
  const { session, items, partials } = opened;
  items.length = 0;
  partials.length = 0;
  const produced = (type: string): Record<string, string> => {
    const texts: Record<string, string> = {};
    for (const { key, text } of partials.filter((partial) => partial.type === type))
      texts[key] = (texts[key] ?? '') + text;
    return texts;
  };
  const reported = (type: string, text: string) =>
    vi.waitUntil(() => Object.values(produced(type)).includes(text), { timeout: 20_000 });
  const isThere = (file: string) => `until [ -e ${join(workspace, file)} ]; do sleep 0.1; done`;
  const marker = stub.script([
    { think: ['Let me ', reported('THINKING', 'Let me '), 'see.'] },
    { shell: `${isThere('begin')}; echo one; ${isThere('go-on')}; echo two` },
    { say: ['All ', reported('MESSAGE', 'All '), 'done.'] },
  ]);
  const turn = session.deliver(message(marker));
  await vi.waitUntil(() => ofType(items, 'TOOL_CALL').length > 0, { timeout: 20_000 });
  writeFileSync(join(workspace, 'begin'), '');
  await reported('TOOL_RESULT', 'one\n');
  writeFileSync(join(workspace, 'go-on'), '');
  expect(await turn).toMatchObject({ type: 'done', response: 'All done.' });
  for (const type of ['THINKING', 'TOOL_RESULT', 'MESSAGE']) {
    const keys = ofType(items, type).map(({ data }) => data?.key);
    expect(Object.keys(produced(type))).toEqual(keys);
  }
  expect(Object.values(produced('THINKING'))).toEqual(['Let me see.']);
  expect(Object.values(produced('MESSAGE'))).toEqual(['All done.']);
}

/** The endpoint of a run with one tool of Muster, in front of the provider at `providerUrl`. */
export async function startEndpoint(providerUrl: string): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request, response) => {
    if (request.url !== '/mcp') {
      const { method, headers } = request;
      const forwarded = requestHttp(`${providerUrl}${request.url}`, { method, headers });
      forwarded.on('response', (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      request.pipe(forwarded);
      return;
    }
    const tools = new Server({ name: 'muster', version: '1' }, { capabilities: { tools: {} } });
    const inputSchema = { type: 'object', properties: { taskId: { type: 'string' } } } as const;
    tools.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [{ name: 'complete_task', inputSchema }],
    }));
    tools.setRequestHandler(CallToolRequestSchema, ({ params }) => {
      const text = `Completed ${params.arguments?.taskId} for ${request.headers.authorization}`;
      return { content: [{ type: 'text', text }] };
    });
    const transport = new StreamableHTTPServerTransport();
    await tools.connect(transport as Transport);
    await transport.handleRequest(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
