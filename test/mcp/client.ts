import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult, Resource, Tool } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

/** The result of a tool call. */
export interface ToolAnswer {
  readonly text: string;
  readonly data: Record<string, unknown> | undefined;
  readonly failed: boolean;
}

/** The official MCP client at `/mcp`, with the key of a run or of a user. */
export class ToolUser {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async open(url: string, key: string): Promise<ToolUser> {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(
      new StreamableHTTPClientTransport(new URL('/mcp', url), {
        requestInit: { headers: { authorization: `Bearer ${key}` } },
      }),
    );
    return new ToolUser(client);
  }

  get instructions(): string {
    return this.#client.getInstructions() ?? '';
  }

  async tools(): Promise<Tool[]> {
    return (await this.#client.listTools()).tools;
  }

  async resources(): Promise<Resource[]> {
    return (await this.#client.listResources()).resources;
  }

  async resourceTemplates(): Promise<string[]> {
    return (await this.#client.listResourceTemplates()).resourceTemplates.map(
      ({ uriTemplate }) => uriTemplate,
    );
  }

  /** The text of a resource, and its media type. */
  async read(uri: string): Promise<{ text: string; mimeType: string | undefined }> {
    const [content] = (await this.#client.readResource({ uri })).contents;
    if (!content || !('text' in content)) throw new Error(`${uri} is not text`);
    return { text: content.text, mimeType: content.mimeType };
  }

  async call(name: string, args: Record<string, unknown> = {}, signal?: AbortSignal): Promise<ToolAnswer> {
    const result = (await this.#client.callTool({ name, arguments: args }, undefined, {
      ...(signal && { signal }),
    })) as CallToolResult;
    const text = result.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    return { text, data: result.structuredContent, failed: result.isError === true };
  }

  /** Calls a tool that must succeed, and returns its text. */
  async use(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { text, failed } = await this.call(name, args);
    if (failed) throw new Error(`${name}: ${text}`);
    return text;
  }

  /** Calls a tool that must succeed, and returns its data. */
  async data(name: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const { text, data, failed } = await this.call(name, args);
    if (failed || !data) throw new Error(`${name}: ${text}`);
    return data;
  }

  /** Calls a tool that must fail, and returns the error. */
  async refused(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { text, failed } = await this.call(name, args);
    if (!failed) throw new Error(`${name} did not fail: ${text}`);
    return text;
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

/** What the tests of one file share: a server without a runner, a tenant on it, and clients that are closed at the end. */
export class McpFixture {
  server!: SharedServer;
  admin!: Api;
  tenant!: TestTenant;
  readonly #clients: ToolUser[] = [];
  #names = 0;

  static use(): McpFixture {
    const fixture = new McpFixture();
    beforeAll(() => fixture.#start());
    afterAll(() => fixture.#close());
    return fixture;
  }

  async #start(): Promise<void> {
    this.server = await sharedServer({ runner: false });
    this.admin = apiOf(this.server);
    this.tenant = await newTestTenant(this.admin);
  }

  async #close(): Promise<void> {
    for (const client of this.#clients) await client.close();
    await this.server?.close();
  }

  newName(): string {
    this.#names += 1;
    return `agent-${this.#names}`;
  }

  async toolsOf({ key }: Pick<Api, 'key'>): Promise<ToolUser> {
    const client = await ToolUser.open(this.server.url, key);
    this.#clients.push(client);
    return client;
  }

  /** An agent with a live run. */
  async running(fields: Record<string, unknown> = {}) {
    const path = this.newName();
    await this.tenant.spawn(path, fields);
    return { path, claim: await this.tenant.start(path) };
  }

  /** An agent with a live run, and the tools of that run. */
  async working(fields: Record<string, unknown> = {}) {
    const { path, claim } = await this.running(fields);
    return { path, claim, tools: await this.toolsOf({ key: claim.token }) };
  }

  untilOpenWaits(wanted: number): Promise<string> {
    return until(
      `${wanted} open waits`,
      async () => (await sendRaw(this.server.url, { method: 'GET', path: '/metrics' })).text,
      (text) => new RegExp(`^muster_long_replies_open\\{kind="wait"\\} ${wanted}$`, 'm').test(text),
    );
  }
}
