import {
  type AnswerStep,
  type ConversationEntry,
  type Exchange,
  type Pieces,
  type StubProtocol,
  sendEvent,
  sendPieces,
  startEvents,
  type Tokens,
} from './script.ts';

/** The Messages API as Claude Code uses it: always streamed, with the tools' own names. */
export const anthropicProtocol: StubProtocol = {
  provider: 'anthropic',
  path: '/v1/messages',

  conversation(body) {
    // Background requests of Claude Code (a title, a probe) have no tools and are not part of the conversation.
    if (offered(body).length === 0) return [];
    const entries: ConversationEntry[] = [];
    for (const message of (body.messages ?? []) as Message[]) {
      if (message.role === 'assistant') {
        if (entries.at(-1)?.by !== 'model') entries.push({ by: 'model' });
        continue;
      }
      if (message.role === 'user') entries.push({ by: 'user', text: textsOf(message.content).join('\n') });
    }
    return entries;
  },

  async answer(exchange, thoughts, step) {
    const blocks: Block[] = thoughts.map((thinking) => ({ type: 'thinking', thinking }));
    blocks.push(blockOf(exchange, step));
    begin(exchange);
    for (const [index, block] of blocks.entries()) await sendBlock(exchange, block, index);
    sendEvent(exchange.response, {
      type: 'message_delta',
      delta: {
        stop_reason: blocks.at(-1)?.type === 'tool_use' ? 'tool_use' : 'end_turn',
        stop_sequence: null,
      },
      usage: usageOf(exchange.tokens, exchange.tokens.output),
    });
    sendEvent(exchange.response, { type: 'message_stop' });
    exchange.response.end();
  },

  begin(exchange) {
    begin(exchange);
  },

  error(status) {
    const error = { type: errorTypes[status] ?? 'api_error', message: `the stub says ${status}` };
    return { type: 'error', error, request_id: 'req_stub' };
  },

  other(path) {
    return path === '/v1/messages/count_tokens' ? { input_tokens: 100 } : undefined;
  },
};

interface Message {
  readonly role: string;
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
}

type Block =
  | { readonly type: 'text'; readonly text: Pieces }
  | { readonly type: 'thinking'; readonly thinking: Pieces }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string; readonly input: unknown };

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

const offered = (body: Readonly<Record<string, unknown>>): string[] =>
  ((body.tools ?? []) as { name: string }[]).map((tool) => tool.name);

const textsOf = (content: Message['content']): string[] => {
  if (typeof content === 'string') return [content];
  return content.flatMap((block) => (block.type === 'text' && block.text !== undefined ? [block.text] : []));
};

const blockOf = ({ body, id }: Exchange, step: AnswerStep): Block => {
  const use = (name: string, input: unknown): Block => ({
    type: 'tool_use',
    id: `toolu_stub${id}`,
    name,
    input,
  });
  if ('say' in step) return { type: 'text', text: step.say };
  if ('shell' in step) return use('Bash', { command: step.shell, description: 'A step of the script' });
  if ('write' in step) return use('Write', { file_path: step.write.path, content: step.write.text });
  if ('edit' in step)
    return use('Edit', {
      file_path: step.edit.path,
      old_string: step.edit.before,
      new_string: step.edit.after,
    });
  if ('plan' in step)
    return use('TodoWrite', {
      todos: step.plan.map(({ text, status }) => ({ content: text, status, activeForm: text })),
    });
  if ('view' in step) return use('Read', { file_path: step.view });
  if ('tool' in step) return use(`mcp__${step.server ?? 'muster'}__${step.tool}`, step.args);
  if ('native' in step) return use(step.native, step.args);
  if (offered(body).includes('StructuredOutput')) return use('StructuredOutput', step.output);
  return { type: 'text', text: JSON.stringify(step.output) };
};

const usageOf = (tokens: Tokens, output: number): object => ({
  input_tokens: tokens.input,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: tokens.cached,
  output_tokens: output,
});

const begin = ({ body, response, tokens, id }: Exchange): void => {
  startEvents(response, { 'request-id': `req_stub${id}` });
  sendEvent(response, {
    type: 'message_start',
    message: {
      id: `msg_stub${id}`,
      type: 'message',
      role: 'assistant',
      model: body.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf(tokens, 1),
    },
  });
};

const sendBlock = async ({ response }: Exchange, block: Block, index: number): Promise<void> => {
  const start = (content_block: object): void =>
    sendEvent(response, { type: 'content_block_start', index, content_block });
  const delta = (part: object): void =>
    sendEvent(response, { type: 'content_block_delta', index, delta: part });
  switch (block.type) {
    case 'text':
      start({ type: 'text', text: '' });
      await sendPieces(block.text, (text) => delta({ type: 'text_delta', text }));
      break;
    case 'thinking':
      start({ type: 'thinking', thinking: '', signature: '' });
      await sendPieces(block.thinking, (thinking) => delta({ type: 'thinking_delta', thinking }));
      delta({ type: 'signature_delta', signature: 'c3R1Yg==' });
      break;
    case 'tool_use':
      start({ ...block, input: {} });
      delta({ type: 'input_json_delta', partial_json: JSON.stringify(block.input) });
      break;
  }
  sendEvent(response, { type: 'content_block_stop', index });
};
