import type { Kind } from '@muster/sdk/contract';
import { budgetRules } from './kinds/budget.ts';
import { changeRequestRules } from './kinds/change-request.ts';
import { environmentRules } from './kinds/environment.ts';
import { integrationRules } from './kinds/integration.ts';
import { notificationRules } from './kinds/notification.ts';
import { personaRules } from './kinds/persona.ts';
import type { KindRules } from './kinds/rules.ts';
import { scheduleRules } from './kinds/schedule.ts';
import { secretRules } from './kinds/secret.ts';
import { shareLinkRules } from './kinds/share-link.ts';
import { signInRules } from './kinds/sign-in.ts';
import { tokenRules } from './kinds/token.ts';
import { triggerRules } from './kinds/trigger.ts';
import { workspaceRules } from './kinds/workspace.ts';

/** Kinds that do more than store a document. What else a kind is, its entry in the contract says. */
const rules: Readonly<Partial<Record<Kind, KindRules>>> = {
  workspace: workspaceRules,
  persona: personaRules,
  environment: environmentRules,
  budget: budgetRules,
  notification: notificationRules,
  token: tokenRules,
  'share-link': shareLinkRules,
  integration: integrationRules,
  schedule: scheduleRules,
  'sign-in': signInRules,
  trigger: triggerRules,
  secret: secretRules,
  'change-request': changeRequestRules,
};

const none: KindRules = {};

export const rulesOf = (kind: Kind): KindRules => rules[kind] ?? none;
