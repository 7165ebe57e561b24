import { join } from 'node:path';
import { sandbox } from '../support/sandbox.ts';
import { type Server, startServer } from '../support/server.ts';
import { addressInPages, type Ran, Reader } from './reader.ts';

/** One reader with one service, as `npm start` leaves them: its data in the reader's folder, PostgreSQL inside. */
export class PageSession {
  readonly reader: Reader;
  readonly server: Server;
  readonly #replacements: readonly (readonly [string, string])[];
  #printed: string | null = null;

  constructor(reader: Reader, server: Server, replacements: readonly (readonly [string, string])[]) {
    this.reader = reader;
    this.server = server;
    this.#replacements = [[addressInPages, server.url], ...replacements];
  }

  static async start(
    env: Readonly<Record<string, string>> = {},
    replacements: readonly (readonly [string, string])[] = [],
  ): Promise<PageSession> {
    const reader = new Reader();
    const server = await startServer({
      databaseUrl: 'embedded',
      env: {
        DATABASE_URL: undefined,
        MUSTER_DATA: join(reader.folder, '.muster'),
        MUSTER_SECRET: undefined,
        MUSTER_BOOTSTRAP_KEY: undefined,
        MUSTER_SANDBOX: sandbox ? 'required' : 'off',
        ...env,
      },
    });
    return new PageSession(reader, server, replacements);
  }

  /** What the last command printed; before the first, what the service said when it started. */
  get printed(): string {
    return this.#printed ?? this.server.output.join('');
  }

  /** Types a block, with the addresses of the page changed to those that are real here. */
  async types(code: string): Promise<Ran> {
    const ran = await this.reader.types(this.here(code));
    this.#printed = ran.printed;
    return ran;
  }

  here(text: string): string {
    return this.#replacements.reduce((all, [shown, real]) => all.replaceAll(shown, real), text);
  }

  async close(): Promise<void> {
    await this.server.end();
    await this.server.close();
    this.reader.close();
  }
}
