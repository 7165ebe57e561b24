import type { Claim } from '@muster/sdk/contract';
import { type Harness, modelsOf, type Work } from '../harness.ts';
import { AppServer } from './app-server.ts';
import type { Codex } from './find.ts';
import { Items } from './items.ts';
import { type Output, outputOf } from './output-format.ts';
import type { Notification, TurnSettings } from './protocol.ts';
import { CodexSession } from './session.ts';
import { isThreadId, sessionFiles } from './session-files.ts';
import { codexEnvironment, codexSettings } from './settings.ts';
import { ToldInstructions } from './told-instructions.ts';

export { type Codex, findCodex } from './find.ts';
export { sessionFiles } from './session-files.ts';

/** Codex, by its app server: one process per run, with one thread open in it. */
export function codexHarness(codex: Codex): Harness {
  const told = new ToldInstructions();
  return {
    sessionFiles,
    providerOf: (claim) => ({ name: 'openai', models: modelsOf(claim) }),
    open: async (work, listener) => {
      const output = outputOf(work.claim.outputSchema);
      const instructions = [work.instructions, output?.instruction].filter(Boolean).join('\n\n');
      const items = new Items(listener, work.workspaceFolder);
      let session: CodexSession | undefined;
      listener.action('Starting Codex');
      // Before the session is there, only warnings can come.
      const hear = (notification: Notification): void =>
        session ? session.hear(notification) : items.tell(notification);
      const server = new AppServer(start(work, codex), hear);
      const giveUp = (): void => void server.process.kill();
      work.signal.addEventListener('abort', giveUp, { once: true });
      try {
        work.signal.throwIfAborted();
        const threadId = await openThread(server, work, instructions, told);
        listener.session(threadId);
        session = new CodexSession({
          server,
          threadId,
          settings: settingsOf(work.claim, output),
          output,
          items,
          onRest: () => told.remember(threadId, work.claim, instructions),
        });
        return session;
      } catch (error) {
        await server.process.kill();
        throw error;
      } finally {
        work.signal.removeEventListener('abort', giveUp);
      }
    },
  };
}

/** What is in the agent's home is the agent's: its folders are made from within its sandbox, not by the runner. */
const inItsFolders = ['/bin/sh', '-c', 'mkdir -p "$CODEX_HOME" "$TMPDIR"; exec "$0" "$@"'];

const start = (work: Work, { executable, folder }: Codex) =>
  work.processes.start([...inItsFolders, executable, 'app-server', ...codexSettings(work)], {
    environment: codexEnvironment(work),
    reads: [folder],
    gateway: 'later',
  });

async function openThread(
  server: AppServer,
  { claim, workspaceFolder, resumes }: Work,
  instructions: string,
  told: ToldInstructions,
): Promise<string> {
  await server.request('initialize', {
    clientInfo: { name: 'muster', title: 'Muster', version: '1' },
    capabilities: { experimentalApi: true, requestAttestation: false },
  });
  server.notify('initialized');
  // It is with its thread that Codex goes to the provider, and to the agent's tools.
  await server.process.gatewayReady;
  const params = { cwd: workspaceFolder, model: claim.model, developerInstructions: instructions };
  if (!resumes) {
    const { thread } = await server.request('thread/start', params);
    if (!isThreadId(thread.id)) throw new Error('Codex began a thread that has no proper name');
    return thread.id;
  }
  const threadId = claim.session;
  await server.request('thread/resume', { ...params, threadId, excludeTurns: true });
  // A resumed thread shows the model the instructions that it began with, until it is summed up and begins anew.
  if (!told.knows(threadId, claim, instructions)) {
    told.forget(threadId);
    const text = `These instructions take the place of all that you were given before.\n\n${instructions}`;
    const message = { type: 'message', role: 'developer', content: [{ type: 'input_text', text }] };
    await server.request('thread/inject_items', { threadId, items: [message] });
  }
  return threadId;
}

const tiers: Readonly<Record<string, string | null>> = { standard: null, fast: 'priority', flex: 'flex' };

function settingsOf(claim: Claim, output: Output | undefined): TurnSettings {
  const { model, reasoningEffort, serviceTier, fastMode } = claim;
  return {
    model,
    effort: reasoningEffort || null,
    serviceTier: serviceTier === '' && fastMode ? 'priority' : (tiers[serviceTier] ?? null),
    summary: 'auto',
    outputSchema: output?.strictSchema ?? null,
  };
}
