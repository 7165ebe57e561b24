import type { TriggerDocument } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import { denied } from '../../../domain/refusal.ts';
import { parsePath, parseTemplate, TemplateError } from '../../../lib/request-template.ts';
import type { Violation } from '../../../lib/validator.ts';
import {
  deleteHook,
  readPauses,
  recipientIn,
  recipientOf,
  saveHook,
} from '../../../store/statements/deliveries.ts';
import type { Document } from '../document.ts';
import { saveSigningKey } from '../signing-keys.ts';
import { hookUrl, newHookId } from './hooks.ts';
import { refuseOtherAgents } from './other-agents.ts';
import type { KindRules } from './rules.ts';

export const triggerRules: KindRules = {
  check: problemIn,
  warnings: ({ agentId, spawn }) =>
    agentId || spawn
      ? []
      : [{ field: 'spawn', description: 'is not set, and agentId neither: this trigger does nothing' }],
  complete: (caller, tenant, document) => {
    if (document.webhookSecret && caller.role === 'member')
      return denied('only an admin may let a trigger use a secret (webhookSecret)');
    return refuseOtherAgents(caller, tenant, 'trigger', document) ?? document;
  },
  onWrite: async (transaction, document) => {
    const { connection, tenant, write, publicUrl } = transaction;
    const [hook] = await saveHook(connection, tenant, recipientOf('trigger', write.name), newHookId());
    const url = hookUrl(publicUrl(), hook?.id ?? '');
    return { document: { ...document, url }, ...saveSigningKey(transaction) };
  },
  state: async (database, tenant, documents) => {
    const names = [...documents.keys()].map((name) => recipientOf('trigger', name));
    const rows = await readPauses(database, tenant, names);
    return new Map(
      rows.map((row) => [recipientIn(row.integration).name, { pausedReason: row.paused_reason }]),
    );
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteHook(connection, tenant, recipientOf('trigger', name));
  },
  /** With the address that the service has now. */
  onRead: (document, publicUrl) =>
    typeof document.url === 'string' ? { ...document, url: hookUrl(publicUrl, document.url) } : document,
};

function problemIn(document: Document): Violation | null {
  // A field that is null counts as absent.
  const { agentId, message, spawn, filter, dedupe } = document as TriggerDocument;
  if (agentId && spawn)
    return { field: 'spawn', description: 'is set, and agentId too: a trigger does one of the two' };
  if (message && spawn) return { field: 'message', description: 'is for agentId; use spawn.description' };
  const { name, description, expectedOutput, labels, agentId: spawned } = spawn ?? {};
  const path = spawned?.agent ?? [];
  if (name && path.length > 0)
    return { field: 'spawn.name', description: 'is set, and spawn.agentId.agent too: give one of the two' };
  const all = [
    ...Object.entries({ message, 'spawn.name': name, 'spawn.description': description }),
    ...path.map((element, at) => [`spawn.agentId.agent[${at}]`, element] as const),
    ['spawn.expectedOutput', expectedOutput] as const,
    ...Object.entries(labels ?? {}).map(([key, value]) => [`spawn.labels.${key}`, value] as const),
  ];
  let count = 0;
  for (const [field, text] of all) {
    const problem = problemOf(() => {
      count += parseTemplate(text ?? '').filter((part) => typeof part !== 'string').length;
      if (count > limits.triggerPlaceholders)
        throw new TemplateError(
          `must have, with all other texts, at most ${limits.triggerPlaceholders} "{{…}}"`,
        );
    });
    if (problem !== null) return { field, description: problem };
  }
  for (const [at, one] of (filter ?? []).entries()) {
    const problem = problemOf(() => parsePath(one.path ?? ''));
    if (problem !== null) return { field: `filter[${at}].path`, description: problem };
    const given = [one.equals, one.in, one.glob].filter((value) => value !== undefined && value !== null);
    if (given.length !== 1)
      return { field: `filter[${at}]`, description: 'must have one of equals, in and glob' };
  }
  const problem = dedupe ? problemOf(() => parsePath(dedupe)) : null;
  return problem === null ? null : { field: 'dedupe', description: problem };
}

function problemOf(parse: () => void): string | null {
  try {
    parse();
    return null;
  } catch (error) {
    if (error instanceof TemplateError) return error.message;
    throw error;
  }
}
