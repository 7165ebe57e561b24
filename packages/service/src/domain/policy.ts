import { matchesPattern, type PolicyDocument } from '@muster/sdk/contract';
import type { Settings } from './agent.ts';
import { denied, type Refusal } from './refusal.ts';

/** A policy that holds for an agent. Null: its workspace names one that does not exist. */
export interface Policy {
  readonly name: string;
  readonly document: PolicyDocument | null;
}

const rules = [
  ['model', 'models'],
  ['reasoningEffort', 'reasoningEfforts'],
  ['serviceTier', 'serviceTiers'],
  ['persona', 'personas'],
] as const;

/** The first setting that one of the policies does not allow. An effort or tier that is not set is that of the model. */
export function refusePolicy(settings: Settings, policies: readonly Policy[]): Refusal | null {
  for (const { name, document } of policies) {
    if (!document) return denied(`the workspace names the policy "${name}", which does not exist`);
    const [first] = forbidden(settings, name, document);
    if (first) return denied(`${first.setting}: ${first.description}`);
  }
  return null;
}

/** The settings that a policy does not allow, with the reason as a clause. */
export function forbidden(
  settings: Partial<Settings>,
  name: string,
  document: PolicyDocument,
): { readonly setting: string; readonly description: string }[] {
  const found = rules.flatMap(([setting, list]) => {
    const value = settings[setting];
    const allowed = document[list];
    return value && allowed && !allowed.some((pattern) => matchesPattern(pattern, value))
      ? { setting, description: `the policy "${name}" does not allow "${value}", only ${allowed.join(', ')}` }
      : [];
  });
  return settings.fastMode && document.fastMode === false
    ? [...found, { setting: 'fastMode', description: `the policy "${name}" does not allow it` }]
    : found;
}
