import { describe, expect, it } from 'vitest';
import type { ProtocolName } from '../accounts/account.ts';
import { checkRequest } from './provider-request.ts';

const paths = { anthropic: '/v1/messages', bedrock: '', vertex: '', openai: '/responses' } as const;

const checked = (provider: ProtocolName, text: string, webSearch = false) =>
  checkRequest({ provider, path: paths[provider], webSearch, bytes: new TextEncoder().encode(text) });

const refusal = (provider: ProtocolName, body: unknown, webSearch = false): string | undefined => {
  const result = checked(provider, JSON.stringify(body), webSearch);
  return result.type === 'refused' ? result.message : undefined;
};

const anthropic = (fields: object) => ({ model: 'claude-opus-4-8', messages: [], ...fields });
const openai = (fields: object) => ({ model: 'gpt-5.5', input: [], store: false, ...fields });
const saying = (...content: unknown[]) => anthropic({ messages: [{ role: 'user', content }] });
const png = 'iVBORw0KGgo=';

describe('a request is forwarded', () => {
  it.each([
    ['a text', anthropic({ system: 'Be brief', messages: [{ role: 'user', content: 'Hello' }] })],
    [
      'the settings of Claude Code',
      anthropic({
        system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
        context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
        thinking: { type: 'adaptive' },
        output_config: { effort: 'high', format: { type: 'json_schema', schema: {} } },
        metadata: { user_id: 'u' },
        speed: 'fast',
        tools: [
          { name: 'Bash', input_schema: {} },
          { type: 'custom', name: 'x' },
        ],
      }),
    ],
    [
      'inline images',
      saying({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }),
    ],
    [
      'inline documents, also in the result of a tool',
      saying({
        type: 'tool_result',
        tool_use_id: 't',
        content: [
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: png } },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
          { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'x' }] } },
        ],
      }),
    ],
    [
      'the answers of a model',
      saying(
        { type: 'thinking', thinking: 'x', signature: 's' },
        { type: 'redacted_thinking', data: 'x' },
        { type: 'tool_use', id: 't', name: 'Bash', input: { url: 'http://example.com', file_id: 'f' } },
      ),
    ],
    [
      'tools that change during the conversation',
      saying(
        { type: 'tool_addition', tool: { type: 'tool_definition', definition: { name: 'x' } } },
        { type: 'tool_removal', tool: { type: 'tool_reference', name: 'x' } },
      ),
    ],
  ])('to anthropic with %s', (_, body) => {
    expect(refusal('anthropic', body)).toBeUndefined();
  });

  it.each([
    ['a text', openai({ input: 'Hello' })],
    [
      'the settings of Codex',
      openai({
        stream: true,
        include: ['reasoning.encrypted_content'],
        reasoning: { effort: 'high' },
        text: { verbosity: 'low' },
        prompt_cache_key: 'k',
        client_metadata: { a: 'b' },
        service_tier: 'priority',
        background: false,
        previous_response_id: null,
        tools: [{ type: 'function', name: 'f' }, { type: 'custom' }, { type: 'tool_search' }],
      }),
    ],
    [
      'every item that Codex sends',
      openai({
        input: [
          { role: 'user', content: 'without a type' },
          { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'x' }] },
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] },
          { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' },
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output: 'x' },
          { type: 'custom_tool_call', call_id: 'c', name: 'exec', input: 'x' },
          {
            type: 'custom_tool_call_output',
            call_id: 'c',
            output: [{ type: 'input_image', image_url: `data:image/png;base64,${png}` }],
          },
          { type: 'additional_tools', tools: [{ type: 'namespace', tools: [{ type: 'custom' }] }] },
          { type: 'tool_search_output', tools: [{ type: 'function' }] },
          { type: 'compaction', encrypted_content: 'x' },
          { type: 'compaction_trigger' },
        ],
      }),
    ],
    [
      'an inline file',
      openai({
        input: [
          { role: 'user', content: [{ type: 'input_file', file_data: 'data:text/plain;base64,eA==' }] },
        ],
      }),
    ],
  ])('to openai with %s', (_, body) => {
    expect(refusal('openai', body)).toBeUndefined();
  });
});

const part = (content: object) => openai({ input: [{ role: 'user', content: [content] }] });
const url = 'https://elsewhere.example/x';

describe('a request is refused with the field and the value that are not forwarded', () => {
  it.each([
    [saying({ type: 'image', source: { type: 'url', url } }), 'messages[0].content[0].source.type'],
    [saying({ type: 'image', source: { type: 'file', file_id: 'f' } }), 'source.type'],
    [saying({ type: 'image', source: { type: 'base64', data: 'x', url } }), 'source.url'],
    [saying({ type: 'image', url }), 'content[0].url'],
    [saying({ type: 'document', source: { type: 'url', url } }), '`url`'],
    [saying({ type: 'document', source: { type: 'file', file_id: 'f' } }), '`file`'],
    [
      saying({
        type: 'document',
        source: { type: 'content', content: [{ type: 'image', source: { type: 'url', url } }] },
      }),
      'source.content[0].source.type',
    ],
    [
      saying({ type: 'tool_result', content: [{ type: 'image', source: { type: 'url', url } }] }),
      'content[0].content[0].source.type',
    ],
    [saying({ type: 'container_upload', file_id: 'f' }), 'container_upload'],
    [saying({ type: 'mcp_tool_use' }), 'mcp_tool_use'],
    [saying({ type: 'server_tool_use', name: 'web_fetch', input: { url } }), 'web_fetch'],
    [saying({ type: 'tool_addition', tool: { type: 'mcp_toolset_reference' } }), 'mcp_toolset_reference'],
    [
      saying({
        type: 'tool_addition',
        tool: { type: 'tool_definition', definition: { type: 'web_fetch_20250910' } },
      }),
      'web_fetch_20250910',
    ],
    [saying({ type: 'hologram' }), '`hologram`'],
    [saying({ text: 'no type' }), '`undefined`'],
    [saying({ type: 'constructor' }), '`constructor`'],
    [saying('bare'), 'messages[0].content[0]'],
    [anthropic({ messages: {} }), '`messages`: expected a list'],
    [anthropic({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }), 'web_search'],
    [anthropic({ tools: [{ type: 'web_fetch_20250910' }] }), 'web_fetch'],
    [anthropic({ tools: [{ type: 'code_execution_20250825' }] }), 'code_execution'],
    [anthropic({ mcp_servers: [{ type: 'url', url }] }), '`mcp_servers`'],
    [anthropic({ container: 'c' }), '`container`'],
    [anthropic({ thread: { type: 'continue', previous_message_id: 'm' } }), '`thread`'],
    [anthropic({ fallbacks: 'default' }), '`fallbacks`'],
    [anthropic({ workspace_id: 'w' }), '`workspace_id`'],
    [anthropic({ model: ['claude-opus-4-8'] }), '`model`'],
  ])('to anthropic: %j', (body, named) => {
    expect(refusal('anthropic', body)).toContain(named);
  });

  it.each([
    [part({ type: 'input_image', image_url: url }), 'input[0].content[0].image_url'],
    [part({ type: 'input_image', file_id: 'f' }), 'content[0].file_id'],
    [part({ type: 'input_image', image_url: { url } }), 'image_url'],
    [part({ type: 'input_file', file_url: url }), 'file_url'],
    [part({ type: 'input_file', file_id: 'f' }), 'file_id'],
    [part({ type: 'input_file', file_data: url }), 'file_data'],
    [part({ type: 'input_audio', audio_url: url }), 'audio_url'],
    [part({ type: 'hologram' }), 'hologram'],
    [
      openai({
        input: [{ type: 'function_call_output', output: [{ type: 'input_image', image_url: url }] }],
      }),
      'input[0].output[0].image_url',
    ],
    [openai({ input: [{ type: 'item_reference', id: 'msg_1' }] }), 'item_reference'],
    [openai({ input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] }), 'encrypted_content'],
    [openai({ input: [{ type: 'web_search_call', id: 'ws' }] }), 'web_search_call'],
    [openai({ previous_response_id: 'resp_1' }), '`previous_response_id`'],
    [openai({ conversation: 'conv_1' }), '`conversation`'],
    [openai({ prompt: { id: 'pmpt_1' } }), '`prompt`'],
    [openai({ background: true }), '`background`'],
    [openai({ store: true }), '`store`'],
    [openai({ store: undefined }), '`store`'],
    [openai({ tools: [{ type: 'web_search' }] }), 'web_search'],
    [openai({ tools: [{ type: 'mcp', server_url: url }] }), 'mcp'],
    [openai({ tools: [{ type: 'namespace', tools: [{ type: 'web_search' }] }] }), 'tools[0].tools[0].type'],
    [
      openai({ input: [{ type: 'additional_tools', tools: [{ type: 'code_interpreter' }] }] }),
      'code_interpreter',
    ],
  ])('to openai: %j', (body, named) => {
    expect(refusal('openai', body)).toContain(named);
  });

  it.each(['', '[]', 'null', '"x"', '{', '{"model":"m"} x', '{"a":\u0001}', '\u0000'])('%j', (text) => {
    expect(checked('openai', text)).toMatchObject({ type: 'refused', status: 400 });
  });

  it('when it is not UTF-8', () => {
    const bytes = Uint8Array.from([0x7b, 0x22, 0xff, 0x22, 0x7d]);
    expect(checkRequest({ provider: 'openai', path: '/responses', bytes })).toMatchObject({ status: 400 });
  });
});

describe('a forwarded request', () => {
  it('is what was checked: of two fields with the same name, the last', () => {
    const text = `{"model":"other","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"${url}"}}]}],"messages":[],"model":"m"}`;
    const result = checked('anthropic', text);
    if (result.type !== 'allowed') throw new Error(result.message);
    expect(new TextDecoder().decode(result.bytes)).toBe('{"model":"m","messages":[]}');
    expect(result.models).toEqual(['m']);
  });

  it('names every model that may answer', () => {
    const result = checked('anthropic', JSON.stringify(anthropic({ fallbacks: [{ model: 'b' }, {}] })));
    expect(result).toMatchObject({ models: ['claude-opus-4-8', 'b', 'undefined'] });
  });

  it('is within the size limit, also when numbers grow as they are serialized', () => {
    const text = `{"model":"m","metadata":{"n":[${'1e20,'.repeat(100_000)}1]},"messages":"${'x'.repeat(32.5e6)}"}`;
    expect(checked('anthropic', text)).toMatchObject({ type: 'refused' });
  });
});

it('bounds are checked before the body is parsed', () => {
  expect(checked('openai', '['.repeat(5_000_000))).toMatchObject({
    status: 400,
    message: 'The body is nested deeper than 128 levels',
  });
  expect(checked('openai', `{"input":[${'{},'.repeat(2_000_000)}{}]}`)).toMatchObject({
    status: 400,
    message: 'The body has more than 1000000 values',
  });
});

describe('with web search', () => {
  const anthropicSearch = { type: 'web_search_20250305', name: 'web_search', max_uses: 8 };

  it.each([
    ['anthropic', anthropic({ tools: [anthropicSearch] })],
    [
      'openai',
      openai({
        tools: [{ type: 'web_search', external_web_access: true }],
        input: [{ type: 'web_search_call', id: 'ws', action: { type: 'open_page', url: 'https://x' } }],
      }),
    ],
  ] as const)('a search at %s is forwarded unchanged', (provider, body) => {
    expect(refusal(provider, body, false)).toContain('web_search');
    const result = checked(provider, JSON.stringify(body), true);
    if (result.type === 'refused') throw new Error(result.message);
    expect(JSON.parse(new TextDecoder().decode(result.bytes))).toEqual(body);
  });

  it.each([
    ['anthropic', anthropic({ tools: [anthropicSearch, { type: 'web_fetch_20250910' }] }), 'web_fetch'],
    ['anthropic', anthropic({ input: [{ type: 'x' }] }), 'input'],
    ['anthropic', saying({ type: 'image', source: { type: 'url', url: 'https://x' } }), 'source'],
    ['openai', openai({ tools: [{ type: 'web_search' }, { type: 'code_interpreter' }] }), 'code_interpreter'],
    ['openai', openai({ tools: [{ type: 'namespace', tools: [{ type: 'web_search' }] }] }), 'tools[0].tools'],
    [
      'openai',
      openai({ input: [{ type: 'web_search_call' }, { type: 'item_reference' }] }),
      'item_reference',
    ],
  ] as const)('everything else is refused as before: %s %j', (provider, body, place) => {
    expect(refusal(provider, body, true)).toContain(place);
  });
});
