import {
  type Backend,
  backendFacts,
  backendOfModel,
  backends,
  type Claim,
  isRehearsalModel,
  type ModelProvider,
  rehearsalModels,
} from '@muster/sdk/contract';
import { claudeCodeHarness, defaultHelperModel, findClaudeCode } from '../harness/claude-code/claude-code.ts';
import { codexHarness, findCodex } from '../harness/codex/codex.ts';
import type { FindModel, Harness } from '../harness/harness.ts';
import type { RunnerLog } from '../lib/log.ts';
import { type ModelTable, providerModel } from '../lib/models.ts';
import { providerFacts } from './accounts/account.ts';
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

interface Program {
  /** The installed program; undefined if there is none for this platform. */
  find(): string | undefined;
  harness(program: string, find: FindModel, environment: Environment): Harness;
}

/** How the program of each backend is found and driven. */
export const programs: Readonly<Record<Backend, Program>> = {
  BACKEND_A: {
    find: findClaudeCode,
    harness: (program, find, { MUSTER_HELPER_MODEL_A: helper }) =>
      claudeCodeHarness(program, helper || defaultHelperModel, find),
  },
  BACKEND_B: { find: findCodex, harness: codexHarness },
};

/** Without any account everything is rehearsed; with one, the rehearsal agent never plays a real model. */
export function abilitiesOf(environment: Environment, models: ModelTable = {}, log?: RunnerLog): Abilities {
  const providers = accountsOf(environment, log);
  const harnesses: Partial<Record<Backend, Harness>> = {};
  const summary: string[] = [];
  for (const backend of backends) {
    const program = programs[backend].find();
    const usual = usualProvider(backend, providers);
    const state = stateText(accountText(backend, providers), program !== undefined);
    summary.push(`${backendFacts[backend].title}: ${state}`);
    if (program === undefined || usual === undefined) continue;
    const find = modelFinder(usual, providers, models);
    harnesses[backend] = programs[backend].harness(program, find, environment);
  }
  const rehearses = backends.every((backend) => usualProvider(backend, providers) === undefined);
  return { providers, harnesses, rehearses, summary };
}

function modelFinder(usual: ModelProvider, accounts: Accounts, models: ModelTable): FindModel {
  return (model) => {
    const found = providerModel(model, models, usual);
    if (!Object.hasOwn(models, model) && !backendOfModel(model))
      return `The model "${model}" is not in the file that MUSTER_MODELS of this runner names; give it the same file as the service`;
    const { title } = providerFacts[found.provider];
    const own = accounts[found.provider];
    // A short name becomes a longer one at the provider.
    const isShort = backends.some((backend) => backendFacts[backend].shortNames.includes(model));
    if (own && (isShort || own.serving(found.name).length > 0)) return found;
    if (own)
      return `No account of ${title} on this runner serves the model "${found.name}" (\`models\` in MUSTER_ACCOUNTS)`;
    return `The model "${model}" needs an account of ${title}, which this runner does not have`;
  };
}

function stateText(account: string | undefined, isInstalled: boolean): string {
  if (account === undefined) return 'no key';
  return isInstalled
    ? `ready with ${account}`
    : `${account} found, but not installed (npm install --include=optional)`;
}

export const noHarness = ({ model, backend }: Claim): string =>
  `This runner has no harness for the model ${model || '(none)'} of ${backendFacts[backend].title}. Give it the provider's key and install the harness, or use ${rehearsalModels.join(' or ')}.`;
