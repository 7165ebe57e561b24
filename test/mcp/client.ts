import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';

/** What a tool answered. */
export interface ToolAnswer {
  readonly text: string;
  readonly data: Record<string, unknown> | undefined;
  readonly failed: boolean;
}

/** A model's side of `/mcp`: the official client, with the key of a run. */
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

  async tools(): Promise<{ name: string; description?: string | undefined }[]> {
    return (await this.#client.listTools()).tools;
  }

  async call(name: string, args: Record<string, unknown> = {}, signal?: AbortSignal): Promise<ToolAnswer> {
    const result = (await this.#client.callTool({ name, arguments: args }, undefined, {
      ...(signal && { signal }),
    })) as CallToolResult;
    const text = result.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    return { text, data: result.structuredContent, failed: result.isError === true };
  }

  /** Calls a tool that has to work, and returns what it said. */
  async use(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { text, failed } = await this.call(name, args);
    if (failed) throw new Error(`${name}: ${text}`);
    return text;
  }

  /** Calls a tool that has to fail, and returns why it did. */
  async refused(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { text, failed } = await this.call(name, args);
    if (!failed) throw new Error(`${name} did not fail: ${text}`);
    return text;
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}
