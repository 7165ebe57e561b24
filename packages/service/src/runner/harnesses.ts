import { type Backend, backendOfModel, type Claim, isRehearsalModel } from '@muster/sdk/contract';
import { claudeCodeHarness, findClaudeCode } from '../harness/claude-code/claude-code.ts';
import { codexHarness, findCodex } from '../harness/codex/codex.ts';
import type { FindModel, Harness } from '../harness/harness.ts';
import type { RunnerLog } from '../lib/log.ts';
import { type ModelTable, providerModel } from '../lib/models.ts';
import { providerTitles } from './accounts/account.ts';
import { type Accounts, accountsOf, accountText, usualProvider } from './accounts/accounts.ts';
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

/** What a runner can run, by its accounts and the installed harnesses. */
export interface Abilities {
  readonly providers: Accounts;
  readonly harnesses: Harnesses['real'];
  readonly rehearses: boolean;
  /** One line per backend, for the operator. */
  readonly summary: readonly string[];
}

/** Claude Code uses a small model for side tasks. */
export const defaultHelperModel = 'haiku';

/** Without any account everything is rehearsed; with one, the rehearsal agent never plays a real model. */
export function abilitiesOf(environment: Environment, models: ModelTable = {}, log?: RunnerLog): Abilities {
  const helperModel = environment.MUSTER_HELPER_MODEL_A || defaultHelperModel;
  const providers = accountsOf(environment, log);
  const claudeCode = findClaudeCode();
  const codex = findCodex();
  const find = (backend: Backend): FindModel => modelFinder(backend, providers, models);
  const hasA = usualProvider('BACKEND_A', providers) !== undefined;
  const hasB = usualProvider('BACKEND_B', providers) !== undefined;
  return {
    providers,
    harnesses: {
      ...(hasA && claudeCode && { BACKEND_A: claudeCodeHarness(claudeCode, helperModel, find('BACKEND_A')) }),
      ...(hasB && codex && { BACKEND_B: codexHarness(codex, find('BACKEND_B')) }),
    },
    rehearses: !hasA && !hasB,
    summary: [
      `Claude Code: ${stateText(accountText('BACKEND_A', providers), claudeCode !== undefined)}`,
      `Codex: ${stateText(accountText('BACKEND_B', providers), codex !== undefined)}`,
    ],
  };
}

function modelFinder(backend: Backend, accounts: Accounts, models: ModelTable): FindModel {
  const usual = usualProvider(backend, accounts) ?? 'anthropic';
  return (model) => {
    const found = providerModel(model, models, usual);
    if (!Object.hasOwn(models, model) && !backendOfModel(model))
      return `The model "${model}" is not in the file that MUSTER_MODELS of this runner names; give it the same file as the service`;
    if (accounts[found.provider]) return found;
    return `The model "${model}" needs an account of ${providerTitles[found.provider]}, which this runner does not have`;
  };
}

function stateText(account: string | undefined, isInstalled: boolean): string {
  if (account === undefined) return 'no key';
  return isInstalled
    ? `ready with ${account}`
    : `${account} found, but not installed (npm install --include=optional)`;
}
