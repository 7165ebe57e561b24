import createClient from 'openapi-fetch';
import type { components, paths } from './paths.js';

/**
 * A program that uses the service with types generated from `openapi.json` (`paths.d.ts`) and nothing else of ours. It
 * does not compile if the document lacks a field.
 */
export async function smoke(url: string, key: string) {
  const headers = { authorization: `Bearer ${key}` };
  const client = createClient<paths>({ baseUrl: url, headers });
  const agentId = { agent: ['smoke'], workspace: 'default' };

  const caller = await sent(client.GET('/v1/whoami'));

  const spawn = () =>
    client.POST('/v1/agent/spawn', {
      params: { header: { 'Idempotency-Key': 'smoke-1' } },
      body: { agentId, description: 'Work.\n!ask Red or blue?', tasks: [{ id: 't', subject: 'paint it' }] },
    });
  const spawned = await sent(spawn());
  const repeated = await sent(spawn());

  const asked: components['schemas']['AgentStatus'] = await sent(
    client.POST('/v1/agent/wait', { body: { agentId } }),
  );

  const { followUpId } = await sent(
    client.POST('/v1/agent/queue', {
      body: { agentId, description: 'Later.', deliverAt: new Date(Date.now() + 3_600_000).toISOString() },
    }),
  );
  const { removed } = await sent(client.POST('/v1/agent/queue/remove', { body: { agentId, followUpId } }));
  const { task } = await sent(
    client.POST('/v1/agent/tasks/update', { body: { agentId, id: 't', status: 'TASK_STATUS_COMPLETED' } }),
  );
  await sent(client.POST('/v1/agent/queue', { body: { agentId, description: '!say Blue.\n!finish' } }));
  const ended = await sent(client.POST('/v1/agents/wait', { body: { agentIds: [agentId] } }));

  const { entries: agents } = await sent(client.POST('/v1/agents', { body: { includeTerminal: true } }));
  const { entries: timeline } = await sent(
    client.POST('/v1/agent/timeline', { body: { agentId, afterSequence: '0' } }),
  );
  const { runs } = await sent(client.POST('/v1/agent/runs', { body: { agentId } }));

  const stream = await sent(
    client.POST('/v1/agent/timeline/stream', {
      params: { header: { 'Last-Event-ID': timeline[0]?.sequence ?? '' } },
      body: { agentId },
      parseAs: 'stream',
    }),
  );

  const persona = { 'ref.kind': 'persona', 'ref.name': 'terse' };
  const written = await sent(
    client.POST('/v1/catalog/{ref.kind}/{ref.name}', {
      params: { path: persona },
      body: { payload: btoa('{"instructions":"Be terse."}'), justification: 'smoke', ifGenerationMatch: 0 },
    }),
  );
  const read = await sent(client.GET('/v1/catalog/{ref.kind}/{ref.name}', { params: { path: persona } }));
  const { entries: history } = await sent(
    client.GET('/v1/catalog/{ref.kind}/{ref.name}/history', {
      params: { path: persona, query: { pageSize: '1' } },
    }),
  );
  const deleted = await sent(
    client.DELETE('/v1/catalog/{ref.kind}/{ref.name}', {
      params: { path: persona, query: { ifGenerationMatch: read.generation } },
    }),
  );

  const missing = await client.POST('/v1/agent/status', { body: { agentId: { agent: ['nobody'] } } });
  const misspelt = await client.POST('/v1/agent/status', { body: { agentId: { agent: ['no name'] } } });
  const keyless = await createClient<paths>({ baseUrl: url }).GET('/v1/whoami');

  return {
    caller: caller.role,
    spawned: spawned.phase,
    isRepeatedTheSame: JSON.stringify(spawned) === JSON.stringify(repeated),
    asked: { reason: asked.phaseReason, question: asked.needsInput, run: asked.run?.outcome },
    removed,
    task: task.status,
    ended: { phase: ended.phase, response: ended.response, error: ended.error },
    agents: agents.map((entry) => entry.agentId.agent.join('/')),
    timeline: timeline.map(({ type }) => type),
    runs: runs.map(({ runId }) => runId),
    streamed: await firstEntry(stream),
    written: written.generation,
    read: { generation: read.generation, document: JSON.parse(atob(read.payload)) as unknown },
    history: history.map(({ justification }) => justification),
    deleted: deleted.generation,
    errors: [missing, misspelt, keyless].map(({ error, response }) => ({
      status: response.status,
      code: error?.code,
      details: error?.details.map((detail) => detail['@type']),
    })),
  };
}

async function sent<T>(call: Promise<{ data?: T; error?: components['schemas']['Error'] }>): Promise<T> {
  const { data, error } = await call;
  if (data === undefined) throw new Error(`refused: ${JSON.stringify(error)}`);
  return data;
}

/** The first event of a stream of Server-Sent Events. */
async function firstEntry(
  stream: ReadableStream<Uint8Array> | null,
): Promise<components['schemas']['TimelineEntry']['sequence']> {
  if (stream === null) throw new Error('there is no stream');
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    text += decoder.decode(value, { stream: true });
    const [, data] = /^data: (.*)\n\n/m.exec(text) ?? [];
    if (data !== undefined) {
      await reader.cancel();
      return (JSON.parse(data) as components['schemas']['TimelineEntry']).sequence;
    }
    if (done) throw new Error('the stream ended without an event');
  }
}
