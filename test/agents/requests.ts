import type { SeenRequest } from '../provider/script.ts';

/** All that a model is told in a request: instructions, tools and the conversation so far. */
export const toldIn = ({ body }: SeenRequest): string => JSON.stringify(body);

/** The harness's own name of the session, as both tell it to their providers. */
export const sessionOf = ({ headers }: SeenRequest): unknown =>
  headers['x-claude-code-session-id'] ?? headers['session-id'];

/** What the provider is asked for. */
export function settingsIn({ provider, body }: SeenRequest): {
  readonly model: unknown;
  readonly effort: unknown;
  readonly speed: unknown;
} {
  const { model, speed, service_tier: tier } = body;
  const { effort } = ((provider === 'anthropic' ? body.output_config : body.reasoning) ?? {}) as Fields;
  return { model, effort, speed: provider === 'anthropic' ? speed : tier };
}

type Fields = Readonly<Record<string, unknown>>;
