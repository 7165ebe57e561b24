import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readPassword } from '../../packages/service/src/store/embedded/data-folder.ts';
import { hasPid } from '../../packages/service/src/store/embedded/processes.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { freshDatabase } from '../support/database.ts';
import { bootstrapKey, type Server, startServer } from '../support/server.ts';

export interface NodeOptions {
  /** With the embedded PostgreSQL. */
  readonly embedded?: boolean;
  /** Another node's database. */
  readonly databaseUrl?: string;
  readonly runner?: boolean;
  /** The `muster.js` of another build. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A node that can be restarted after a crash: at the same address, with the same data folder, key and database. */
export class Node {
  readonly key = bootstrapKey();
  readonly folder = mkdtempSync(join(tmpdir(), 'muster-crash-'));
  readonly #options: NodeOptions;
  readonly #cleanUps: (() => unknown)[] = [];
  #databaseUrl = '';
  #port = '0';
  #server: Server | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
  }

  static async start(options: NodeOptions = {}): Promise<Node> {
    const node = new Node(options);
    if (options.databaseUrl) node.#databaseUrl = options.databaseUrl;
    else if (!options.embedded) {
      const database = await freshDatabase();
      node.#databaseUrl = database.url;
      node.#cleanUps.push(database.drop);
    }
    try {
      await node.start();
    } catch (error) {
      await node.close();
      throw error;
    }
    return node;
  }

  get server(): Server {
    if (!this.#server) throw new Error('the node was never started');
    return this.#server;
  }

  get url(): string {
    return this.server.url;
  }

  get api(): Api {
    return apiOf(this);
  }

  /** To query the database directly. */
  async databaseUrl(): Promise<string> {
    if (!this.#options.embedded) return this.#databaseUrl;
    const data = join(this.folder, 'postgres', 'data');
    const host = encodeURIComponent(data);
    return `postgres://muster:${encodeURIComponent(await readPassword(data))}@localhost:5432/muster?host=${host}`;
  }

  /** The process id of the embedded PostgreSQL. */
  postmaster(): number {
    const file = join(this.folder, 'postgres', 'data', 'postmaster.pid');
    return Number(readFileSync(file, 'utf8').split('\n')[0]);
  }

  async start(): Promise<void> {
    const former = this.#server;
    this.#server = await startServer({
      databaseUrl: this.#databaseUrl || 'embedded',
      runner: this.#options.runner ?? true,
      ...(this.#options.program && { program: this.#options.program }),
      env: {
        MUSTER_DATA: this.folder,
        MUSTER_BOOTSTRAP_KEY: this.key,
        MUSTER_PORT: this.#port,
        ...(this.#options.embedded && { DATABASE_URL: undefined }),
        ...this.#options.env,
      },
    });
    this.#port = new URL(this.#server.url).port;
    await former?.close();
  }

  kill(): Promise<void> {
    return this.server.end('SIGKILL');
  }

  /** Throws when the process has ended by itself. */
  readonly expectRunning = (): void => {
    const { exitCode, signalCode } = this.server.process;
    if (exitCode !== null || signalCode !== null)
      throw new Error(`the node is gone (${signalCode ?? exitCode}):\n${this.logTail()}`);
  };

  /** The end of the log, for the message of a failure. */
  logTail(): string {
    return this.server.output.join('').slice(-3_000);
  }

  async close(): Promise<void> {
    const postmaster = this.#options.embedded && this.#server ? this.postmaster() : undefined;
    await this.#server?.close();
    // The watcher stops PostgreSQL, which uses the folder until then.
    if (postmaster)
      await until(
        'PostgreSQL gone',
        async () => hasPid(postmaster),
        (is) => !is,
      );
    for (const cleanUp of this.#cleanUps) await cleanUp();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
