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
    for (const [setting, list] of rules) {
      const value = settings[setting];
      const allowed = document[list];
      if (value && allowed && !allowed.some((pattern) => matchesPattern(pattern, value)))
        return denied(
          `${setting}: the policy "${name}" does not allow "${value}", only ${allowed.join(', ')}`,
        );
    }
    if (settings.fastMode && document.fastMode === false)
      return denied(`fastMode: the policy "${name}" does not allow it`);
  }
  return null;
}
