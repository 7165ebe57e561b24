import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { claudeCodeClient, codexClient } from './harness-clients.ts';

/** The real Claude Code and Codex, on a user's machine with the user's key, running a fleet of rehearsal agents. */
let stub: ProviderStub;
let server: SharedServer;
let agents: Agents;
let folder: string;

beforeAll(async () => {
  stub = await startProviderStub();
  server = await sharedServer();
  agents = new Agents(apiOf(server), 'default');
});
afterAll(async () => {
  await server?.close();
  await stub?.close();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-client-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const clients = [
  ['claude', claudeCodeClient],
  ['codex', codexClient],
] as const;

describe.each(clients)('%s', (name, client) => {
  test.skipIf(!client.isInstalled)(
    'spawns an agent, waits for it, answers it and reads how it ended',
    async () => {
      const agent = `${name}-helper`;
      const wait = { tool: 'wait_for_agents', args: { agents: [agent], timeoutSeconds: 40 } };
      const marker = stub.script([
        { tool: 'spawn_agent', args: { agent, description: 'Paint it.\n!ask Red or blue?' } },
        wait,
        { tool: 'send_message', args: { agent, text: '!say Painted blue.\n!finish' } },
        wait,
        { tool: 'agent_status', args: { agent } },
        { say: 'It is painted.' },
      ]);
      expect(await client.prompt(`Have it painted. ${marker}`, { stub, server, folder })).toContain(
        'It is painted.',
      );
      expect(await agents.status(agent)).toMatchObject({
        phase: 'PHASE_COMPLETED',
        phaseReason: 'FINISHED',
        response: 'Painted blue.',
      });
      // Claude Code shows its model the words of an answer, Codex the data.
      const conversation = JSON.stringify(stub.requestsOf(marker).at(-1)?.body);
      for (const answer of [
        /is spawned|phase\W+PHASE_PENDING/,
        /(It asks: |question\W+)Red or blue\?/,
        /will get your message|deliverAt\W+null/,
        /COMPLETED \(FINISHED\)|reason\W+FINISHED/,
        /(It said: |response\W+)Painted blue\./,
      ])
        expect(conversation).toMatch(answer);
    },
  );
});
