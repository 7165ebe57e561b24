import { type Backend, type Claim, isRehearsalModel } from '@muster/sdk/contract';
import { claudeCodeHarness, findClaudeCode } from '../harness/claude-code/claude-code.ts';
import { codexHarness, findCodex } from '../harness/codex/codex.ts';
import type { Harness } from '../harness/harness.ts';
import type { Providers } from './gateway/gateway.ts';
import type { Environment } from './workspace/environment.ts';

/** The harnesses of a runner: the rehearsal agent always, and one real harness per backend it has. */
export interface Harnesses {
  readonly rehearsal: Harness;
  readonly real: Readonly<Partial<Record<Backend, Harness>>>;
  /** The rehearsal agent plays every model. */
  readonly rehearses: boolean;
}

export type Slot = 'real' | 'rehearsed';

/** A run is rehearsed if no model is behind it. */
export function slotOf(claim: Claim, rehearses: boolean): Slot {
  return rehearses || isRehearsalModel(claim.model) ? 'rehearsed' : 'real';
}

/** Undefined if this runner has no harness for the claim. */
export function harnessFor(claim: Claim, harnesses: Harnesses): Harness | undefined {
  if (slotOf(claim, harnesses.rehearses) === 'rehearsed') return harnesses.rehearsal;
  return harnesses.real[claim.backend];
}

/** What a runner can run, by its provider keys and the installed harnesses. */
export interface Abilities {
  readonly providers: Providers;
  readonly harnesses: Harnesses['real'];
  readonly rehearses: boolean;
  /** One line per backend, for the operator. */
  readonly summary: readonly string[];
}

/** Claude Code uses a small model for side tasks. */
export const defaultHelperModel = 'haiku';

/** Without any key everything is rehearsed; with one, the rehearsal agent never plays a real model. */
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
    rehearses: !hasProviderKey(environment),
    summary: [
      `Claude Code: ${stateText(providers.anthropic !== undefined, claudeCode !== undefined)}`,
      `Codex: ${stateText(providers.openai !== undefined, codex !== undefined)}`,
    ],
  };
}

/** With a key for a real backend, agents must run in a sandbox unless the operator decides otherwise. */
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

function stateText(hasKey: boolean, isInstalled: boolean): string {
  if (!hasKey) return 'no key';
  return isInstalled ? 'ready' : 'key found, but not installed (npm install --include=optional)';
}
