import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { arch, platform } from 'node:process';
import type { Claim } from '@muster/sdk/contract';
import type { ProviderModel } from '../../lib/models.ts';
import { isExecutable, resolveFrom, within } from '../agent-process.ts';
import {
  accessOf,
  type FindModel,
  type Harness,
  type McpServers,
  modelOrThrow,
  type ProviderAccess,
  type Work,
} from '../harness.ts';
import { AppServer, type Delta, isDelta, type Notification } from './app-server.ts';
import { outputFormat } from './output-format.ts';
import { CodexSession } from './session.ts';
import { environmentOf, settingsOf, startSeconds, turnSettings } from './settings.ts';
import { Timeline } from './timeline.ts';
import { viewedImage } from './viewed-image.ts';

const triples: Readonly<Record<string, string>> = {
  'linux-x64': 'x86_64-unknown-linux-musl',
  'linux-arm64': 'aarch64-unknown-linux-musl',
  'darwin-x64': 'x86_64-apple-darwin',
  'darwin-arm64': 'aarch64-apple-darwin',
};

/**
 * The native program, not the script of its package that starts it. Codex is an optional package, and so is the one with
 * the program for this platform: either may be missing.
 */
export function findCodex(): string | undefined {
  const system = `${platform}-${arch}`;
  const triple = triples[system];
  const codex = resolveFrom(import.meta.url, '@openai/codex/package.json');
  if (triple === undefined || codex === undefined) return undefined;
  const manifest = resolveFrom(codex, `@openai/codex-${system}/package.json`);
  if (manifest === undefined) return undefined;
  const executable = join(dirname(manifest), 'vendor', triple, 'bin', 'codex');
  return isExecutable(executable) ? executable : undefined;
}

const atOpenai: FindModel = (name) => ({ provider: 'openai', name });

/** Codex knows how to use a model by its maker's name, not by that of a deployment. The gateway sends the latter. */
const codexName = ({ name, pricedAs }: ProviderModel): string => pricedAs ?? name;

function underCodexNames({ models, pricedAs = {}, ...access }: ProviderAccess): ProviderAccess {
  const known = models.map((one) => pricedAs[one] ?? one);
  // Of two deployments of one model, the newest of the agent's settings, which comes first.
  const renames = models.flatMap((one, i) => (known[i] === one ? [] : [[known[i], one] as const])).reverse();
  return { ...access, models: [...new Set(known)], renames: Object.fromEntries(renames) };
}

/** Codex, driven by its app server: one process per run, with one open thread. */
export function codexHarness(executable: string, find: FindModel = atOpenai): Harness {
  const sent: SentInstructions = new Map();
  return {
    sessionFiles,
    providerOf: (claim) => underCodexNames(accessOf(claim, find)),
    open: async (given, listener) => {
      const work = {
        ...given,
        claim: { ...given.claim, model: codexName(modelOrThrow(find(given.claim.model))) },
      };
      const output = outputFormat(work.claim.outputSchema);
      const instructions = [work.instructions, output?.instruction].filter(Boolean).join('\n\n');
      const readImage = (path: string) => viewedImage(server, path);
      const timeline = new Timeline(listener, work.workspaceFolder, readImage);
      const servers = new ServerStarts(work.mcpServers);
      let session: CodexSession | undefined;
      listener.action('Starting Codex');
      // Before the session exists there are only warnings.
      const onNotification = (unmasked: Notification | Delta): void => {
        if (isDelta(unmasked)) return session?.handleDelta(unmasked);
        const notification = work.mask.value(unmasked);
        servers.add(notification);
        if (session) session.handle(notification);
        else timeline.add(notification);
      };
      const server = new AppServer(start(work, executable), onNotification, work.mask.stream());
      const abort = (): void => void server.process.kill();
      work.signal.addEventListener('abort', abort, { once: true });
      try {
        work.signal.throwIfAborted();
        const threadId = await openThread(server, work, instructions, sent);
        await Promise.race([
          servers.settled(),
          server.ended.then((reason) => Promise.reject(new Error(reason))),
        ]);
        listener.session(threadId);
        session = new CodexSession({
          server,
          threadId,
          settings: turnSettings(work.claim, output),
          output,
          timeline,
          onTurnEnd: () => remember(sent, threadId, digest(work.claim, instructions)),
        });
        return session;
      } catch (error) {
        await server.process.kill();
        throw error;
      } finally {
        work.signal.removeEventListener('abort', abort);
      }
    },
  };
}

/**
 * Whether the MCP servers of the workspace have started or failed. Codex begins a turn without the tools of those that
 * are still starting.
 */
class ServerStarts {
  readonly #starting: Set<string>;
  #settle: () => void = () => {};

  constructor({ servers }: McpServers) {
    this.#starting = new Set(servers.map(({ name }) => name));
  }

  add({ method, params }: Notification): void {
    if (method !== 'mcpServer/startupStatus/updated' || params.status === 'starting') return;
    this.#starting.delete(params.name);
    if (this.#starting.size === 0) this.#settle();
  }

  /** Codex itself ends a start that takes too long. */
  async settled(): Promise<void> {
    if (this.#starting.size === 0) return;
    const all = new Promise<void>((resolve) => {
      this.#settle = resolve;
    });
    await within(2 * startSeconds * 1000, all);
  }
}

/** The agent owns its home: these folders are created inside its sandbox, not by the runner. */
const createFolders = ['/bin/sh', '-c', 'mkdir -p "$CODEX_HOME" "$TMPDIR"; exec "$0" "$@"'];

const start = (work: Work, executable: string) =>
  work.processes.start([...createFolders, executable, 'app-server', ...settingsOf(work)], {
    environment: environmentOf(work),
    // The folder that also has the other programs that Codex needs.
    reads: [dirname(dirname(executable))],
    gateway: 'later',
  });

async function openThread(
  server: AppServer,
  { claim, workspaceFolder, resumes }: Work,
  instructions: string,
  sent: SentInstructions,
): Promise<string> {
  await server.request('initialize', {
    clientInfo: { name: 'muster', title: 'Muster', version: '1' },
    capabilities: { experimentalApi: true, requestAttestation: false },
  });
  server.notify('initialized');
  // Codex connects to the provider and to the agent's tools when a thread is opened.
  await server.process.gatewayReady;
  const params = { cwd: workspaceFolder, model: claim.model, developerInstructions: instructions };
  if (!resumes) {
    const { thread } = (await server.request('thread/start', params)) as { thread: { id: string } };
    if (!isThreadId(thread.id)) throw new Error('Codex started a thread with an invalid id');
    return thread.id;
  }
  const threadId = claim.session;
  await server.request('thread/resume', { ...params, threadId, excludeTurns: true });
  // A resumed thread keeps its first instructions until it is compacted.
  if (sent.get(threadId) !== digest(claim, instructions)) {
    // The new ones stay in the thread even when the turn is interrupted.
    sent.delete(threadId);
    const text = `These instructions replace all earlier ones.\n\n${instructions}`;
    const message = { type: 'message', role: 'developer', content: [{ type: 'input_text', text }] };
    await server.request('thread/inject_items', { threadId, items: [message] });
  }
  return threadId;
}

/**
 * The session's files below the agent's home, which another machine needs to resume it. The databases beside them are an
 * index that Codex rebuilds.
 */
export function sessionFiles(ref: string): string[] {
  return isThreadId(ref) ? [`.codex/sessions/*/*/*/rollout-*-${ref}.jsonl*`] : [];
}

/** Only UUIDs: the id comes from the sandbox and becomes part of a path. */
const isThreadId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

const mostThreads = 1000;

/**
 * The digest of the last instructions sent to each thread on this runner. They stay in the thread, so a run with the same
 * instructions does not repeat them. Forgetting them is harmless. So is a thread that was on another runner in between:
 * its `homeSince` differs.
 */
type SentInstructions = Map<string, string>;

function remember(sent: SentInstructions, threadId: string, instructions: string): void {
  sent.delete(threadId);
  sent.set(threadId, instructions);
  const [oldest] = sent.keys();
  if (sent.size > mostThreads && oldest !== undefined) sent.delete(oldest);
}

const digest = ({ homeSince }: Claim, instructions: string): string =>
  `${homeSince} ${createHash('sha256').update(instructions).digest('hex')}`;
