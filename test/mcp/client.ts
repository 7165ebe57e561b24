import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult, Resource, Tool } from '@modelcontextprotocol/sdk/types.js';

/** What a tool answered. */
export interface ToolAnswer {
  readonly text: string;
  readonly data: Record<string, unknown> | undefined;
  readonly failed: boolean;
}

/** A model's side of `/mcp`: the official client, with the key of a run or of a user. */
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
    if (!content || !('text' in content)) throw new Error(`${uri} is no text`);
    return { text: content.text, mimeType: content.mimeType };
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

  /** The same, as data. */
  async data(name: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const { text, data, failed } = await this.call(name, args);
    if (failed || !data) throw new Error(`${name}: ${text}`);
    return data;
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
