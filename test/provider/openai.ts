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
  wholeText,
} from './script.ts';

/**
 * The Responses API as Codex uses it: always streamed, in one of two forms. To some models it offers its tools
 * one by one; to others (code mode) it offers a single tool that runs JavaScript, in which the tools are functions.
 */
export const openaiProtocol: StubProtocol = {
  provider: 'openai',
  path: '/v1/responses',

  conversation(body) {
    // The request with which Codex compacts a thread is not part of the conversation.
    if (isCompaction(body)) return [];
    const entries: ConversationEntry[] = [];
    let isAnswering = false;
    for (const item of inputOf(body)) {
      const isAnswer = isOfModel(item) && !isPoll(item);
      if (isAnswer && !isAnswering) entries.push({ by: 'model' });
      if (item.type === 'message' && item.role === 'user')
        entries.push({ by: 'user', text: textOf(item.content) });
      isAnswering = isAnswer;
    }
    return entries;
  },

  async answer(exchange, thoughts, step) {
    const running = runningCommand(exchange.body);
    const items =
      running === undefined
        ? [...thoughts.map((thought, index) => thoughtOf(exchange, thought, index)), itemOf(exchange, step)]
        : [pollOf(exchange, running)];
    const said = 'say' in step ? step.say : '';
    begin(exchange);
    for (const [index, item] of items.entries())
      await sendItem(exchange, item, index, thoughts[index] ?? said);
    const response = {
      ...responseOf(exchange, 'completed'),
      output: items,
      usage: usageOf(exchange.tokens),
    };
    sendEvent(exchange.response, { type: 'response.completed', response });
    exchange.response.end();
  },

  begin(exchange) {
    begin(exchange);
  },

  error(status) {
    const [type, code] = errorTypes[status] ?? ['server_error', null];
    return { error: { message: `the stub says ${status}`, type, param: null, code } };
  },
};

interface Item {
  readonly type: string;
  readonly id?: string;
  readonly role?: string;
  readonly name?: string;
  readonly content?: unknown;
  readonly output?: unknown;
  readonly [field: string]: unknown;
}

const errorTypes: Readonly<Record<number, readonly [type: string, code: string | null]>> = {
  400: ['invalid_request_error', null],
  401: ['invalid_request_error', 'invalid_api_key'],
  403: ['invalid_request_error', 'unsupported_country_region_territory'],
  404: ['invalid_request_error', 'model_not_found'],
  429: ['requests', 'rate_limit_exceeded'],
};

/** The longest time after which Codex asks the model about a command that still runs. */
const commandMs = 30_000;
const pollMs = 300_000;
const scriptMs = 3_600_000;

const inputOf = (body: Readonly<Record<string, unknown>>): Item[] => (body.input ?? []) as Item[];

const isCompaction = (body: Readonly<Record<string, unknown>>): boolean => {
  const metadata = (body.client_metadata ?? {}) as Record<string, string>;
  const turn = JSON.parse(metadata['x-codex-turn-metadata'] ?? '{}') as { request_kind?: string };
  return turn.request_kind === 'compaction';
};

const isOfModel = ({ type, role }: Item): boolean =>
  role === 'assistant' || type === 'reasoning' || type === 'function_call' || type === 'custom_tool_call';

const isPoll = ({ type, name }: Item): boolean => type === 'function_call' && name === 'write_stdin';

const textOf = (content: unknown): string => {
  if (typeof content === 'string') return content;
  const parts = Array.isArray(content) ? (content as { text?: string }[]) : [];
  return parts.flatMap(({ text }) => (text === undefined ? [] : [text])).join('\n');
};

/** A step ends with its command; until then the model asks again, as a real one does. */
const runningCommand = (body: Readonly<Record<string, unknown>>): number | undefined => {
  const last = inputOf(body).at(-1);
  if (last?.type !== 'function_call_output') return undefined;
  const [, id] = /Process running with session ID (\d+)/.exec(textOf(last.output)) ?? [];
  return id === undefined ? undefined : Number(id);
};

const itemOf = (exchange: Exchange, step: AnswerStep): Item => {
  if ('say' in step) return messageOf(exchange, wholeText(step.say));
  if ('output' in step) return messageOf(exchange, JSON.stringify(step.output));
  if ('native' in step)
    return {
      ...functionOf(exchange, step.native, step.args),
      ...(step.namespace !== undefined && { namespace: step.namespace }),
    };
  const isCodeMode = inputOf(exchange.body).some((item) => item.type === 'additional_tools');
  if (isCodeMode) return customOf(exchange, 'exec', codeOf(step));
  if ('shell' in step)
    return functionOf(exchange, 'exec_command', { cmd: step.shell, yield_time_ms: commandMs });
  if ('plan' in step) return functionOf(exchange, 'update_plan', planOf(step));
  if ('view' in step) return functionOf(exchange, 'view_image', { path: step.view });
  if ('write' in step || 'edit' in step) return customOf(exchange, 'apply_patch', patchOf(step));
  return { ...functionOf(exchange, step.tool, step.args), namespace: serverOf(step) };
};

const codeOf = (
  step: Exclude<AnswerStep, { say: Pieces } | { output: unknown } | { native: string }>,
): string => {
  const pragma = `// @exec: ${JSON.stringify({ yield_time_ms: scriptMs })}`;
  if ('write' in step || 'edit' in step)
    return `${pragma}\ntext(await tools.apply_patch(${JSON.stringify(patchOf(step))}));`;
  if ('plan' in step) return `${pragma}\ntext(await tools.update_plan(${JSON.stringify(planOf(step))}));`;
  if ('view' in step)
    return `${pragma}\nimage(await tools.view_image(${JSON.stringify({ path: step.view })}));`;
  if ('tool' in step)
    return `${pragma}\ntext(await tools.${serverOf(step)}__${step.tool}(${JSON.stringify(step.args)}));`;
  return [
    pragma,
    `let run = await tools.exec_command(${JSON.stringify({ cmd: step.shell, yield_time_ms: commandMs })});`,
    'text(run.output);',
    'while (run.session_id !== undefined) {',
    `  run = await tools.write_stdin({ session_id: run.session_id, yield_time_ms: ${pollMs} });`,
    '  text(run.output);',
    '}',
  ].join('\n');
};

const planOf = ({ plan }: Extract<AnswerStep, { plan: object }>): object => ({
  plan: plan.map(({ text, status }) => ({ step: text, status })),
});

/** Codex writes hyphens as underscores. */
const serverOf = ({ server = 'muster' }: Extract<AnswerStep, { tool: string }>): string =>
  `mcp__${server.replaceAll('-', '_')}`;

const patchOf = (step: Extract<AnswerStep, { write: object } | { edit: object }>): string => {
  const signed = (sign: string, text: string) =>
    text
      .replace(/\n$/, '')
      .split('\n')
      .map((line) => `${sign}${line}`);
  const change =
    'write' in step
      ? [`*** Add File: ${step.write.path}`, ...signed('+', step.write.text)]
      : [
          `*** Update File: ${step.edit.path}`,
          '@@',
          ...signed('-', step.edit.before),
          ...signed('+', step.edit.after),
        ];
  return ['*** Begin Patch', ...change, '*** End Patch'].join('\n');
};

const messageOf = ({ id }: Exchange, text: string): Item => ({
  type: 'message',
  id: `msg_stub${id}`,
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
});

const thoughtOf = ({ id }: Exchange, thought: Pieces, index: number): Item => ({
  type: 'reasoning',
  id: `rs_stub${id}_${index}`,
  summary: [{ type: 'summary_text', text: wholeText(thought) }],
  encrypted_content: 'c3R1Yg==',
});

const functionOf = ({ id }: Exchange, name: string, args: unknown): Item => ({
  type: 'function_call',
  id: `fc_stub${id}`,
  call_id: `call_stub${id}`,
  name,
  arguments: JSON.stringify(args),
  status: 'completed',
});

const pollOf = (exchange: Exchange, session: number): Item =>
  functionOf(exchange, 'write_stdin', { session_id: session, yield_time_ms: pollMs });

const customOf = ({ id }: Exchange, name: string, input: string): Item => ({
  type: 'custom_tool_call',
  id: `ctc_stub${id}`,
  call_id: `call_stub${id}`,
  name,
  input,
  status: 'completed',
});

/** The provider's input includes what was cached; the stub's does not. */
const usageOf = ({ input, cached, output }: Tokens): object => ({
  input_tokens: input + cached,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: input + cached + output,
});

const responseOf = ({ body, id }: Exchange, status: string): object => ({
  id: `resp_stub${id}`,
  object: 'response',
  status,
  model: body.model,
  service_tier: body.service_tier ?? 'default',
  output: [],
  usage: null,
});

const begin = (exchange: Exchange): void => {
  startEvents(exchange.response, { 'x-request-id': `req_stub${exchange.id}` });
  sendEvent(exchange.response, {
    type: 'response.created',
    response: responseOf(exchange, 'in_progress'),
  });
};

/** `pieces` are those of a message or thought. */
const sendItem = async (
  { response }: Exchange,
  item: Item,
  output_index: number,
  pieces: Pieces,
): Promise<void> => {
  const isMessage = item.type === 'message';
  const begun = isMessage ? { ...item, status: 'in_progress', content: [] } : item;
  const place = { item_id: item.id, output_index };
  sendEvent(response, { type: 'response.output_item.added', output_index, item: begun });
  if (isMessage) {
    const texts = pieces === '' ? textOf(item.content) : pieces;
    await sendPieces(texts, (delta) =>
      sendEvent(response, { type: 'response.output_text.delta', ...place, content_index: 0, delta }),
    );
  }
  if (item.type === 'reasoning') {
    const summary = { ...place, summary_index: 0 };
    sendEvent(response, { type: 'response.reasoning_summary_part.added', ...summary });
    await sendPieces(pieces, (delta) =>
      sendEvent(response, { type: 'response.reasoning_summary_text.delta', ...summary, delta }),
    );
  }
  sendEvent(response, { type: 'response.output_item.done', output_index, item });
};
