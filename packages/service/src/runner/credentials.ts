import type { Backend } from '@muster/sdk/contract';
import { claudeCodeHarness, findClaudeCode } from '../harness/claude-code/claude-code.ts';
import { codexHarness, findCodex } from '../harness/codex/codex.ts';
import type { Harness } from '../harness/harness.ts';
import type { Providers } from './gateway/gateway.ts';

/** What a runner can play, by the provider keys it was given and the harnesses that are installed. */
export interface Abilities {
  readonly providers: Providers;
  readonly harnesses: Readonly<Partial<Record<Backend, Harness>>>;
  /** It plays every model name of either backend by the rehearsal agent. */
  readonly rehearses: boolean;
  /** One line per backend, for the operator. */
  readonly summary: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What Claude Code asks on the side, it asks a small model. */
export const defaultHelperModel = 'haiku';

/** With no key at all everything is rehearsed; with any, a real model is never played by the rehearsal agent. */
export function abilitiesOf(environment: Environment): Abilities {
  const helperModel = environment.MUSTER_HELPER_MODEL_A || defaultHelperModel;
  const providers = providersOf(environment);
  const claudeCode = findClaudeCode();
  const codex = findCodex();
  return {
    providers,
    harnesses: {
      ...(providers.anthropic && claudeCode && { BACKEND_A: claudeCodeHarness(claudeCode, helperModel) }),
      ...(providers.openai && codex && { BACKEND_B: codexHarness(codex) }),
    },
    rehearses: !providers.anthropic && !providers.openai,
    summary: [
      `Claude Code: ${stateOf(providers.anthropic !== undefined, claudeCode !== undefined)}`,
      `Codex: ${stateOf(providers.openai !== undefined, codex !== undefined)}`,
    ],
  };
}

/** Whether a real backend has credentials: then agents must run in a sandbox unless the operator says otherwise. */
export const hasProviderKey = (environment: Environment): boolean =>
  Object.keys(providersOf(environment)).length > 0;

function providersOf(environment: Environment): Providers {
  const { ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL } = environment;
  return {
    ...(ANTHROPIC_API_KEY && {
      anthropic: { url: ANTHROPIC_BASE_URL || 'https://api.anthropic.com', apiKey: ANTHROPIC_API_KEY },
    }),
    ...(OPENAI_API_KEY && {
      openai: { url: OPENAI_BASE_URL || 'https://api.openai.com/v1', apiKey: OPENAI_API_KEY },
    }),
  };
}

function stateOf(hasKey: boolean, isInstalled: boolean): string {
  if (!hasKey) return 'no key';
  return isInstalled ? 'ready' : 'key found, but not installed (npm install --include=optional)';
}
