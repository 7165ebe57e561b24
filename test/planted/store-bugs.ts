import type { PlantedBug } from './bugs.ts';

const store = 'packages/service/src/store';

/** Bugs in the store, and in what is read from it. */
export const storeBugs: readonly PlantedBug[] = [
  {
    name: 'a checkpoint counts before all its parts are saved',
    file: `${store}/statements/checkpoints.ts`,
    find: 'count(*) = $6 AND max(p.part) = $6 - 1',
    replace: 'count(*) > 0 AND $6 > 0',
    suites: ['test/conformance/checkpoints.test.ts'],
  },
  {
    name: "a live runner's name is given to another token",
    file: `${store}/statements/runners.ts`,
    find: 'OR o.token <>',
    replace: 'OR false AND o.token <>',
    suites: ['test/tenancy/runner-identity.test.ts'],
  },
  {
    name: 'tenants at their limit are offered, and so hide the others',
    file: `${store}/statements/claims.ts`,
    find: 'WHERE t.turn > 0 AND coalesce(l.room, 1) > 0 AND',
    replace: 'WHERE t.turn > 0 AND',
    suites: ['test/store/claims.test.ts'],
  },
  {
    name: 'the tenant is missing in one WHERE',
    file: `${store}/statements/list-agents.ts`,
    find: 'where: [tenantIs(range, bind), depthCondition, lifeIs(life)],',
    replace: 'where: [depthCondition, lifeIs(life)],',
    suites: ['test/tenancy/tenant-isolation.test.ts'],
  },
  {
    name: 'a list by labels compares only the first label',
    file: `${store}/statements/list-agents.ts`,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
    find: "conditions.set('l', `s.labels @> ${bind('labels', JSON.stringify(labels))}::jsonb`)",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
    replace: "conditions.set('l', `${bind('labels', JSON.stringify(labels))}::jsonb IS NOT NULL`)",
    suites: ['test/conformance/labels.test.ts'],
  },
  {
    name: 'a status reads all columns of a table, so its prepared statement breaks when one is added',
    file: `${store}/statements/status.ts`,
    find: 's.settings, s.result, s.response,',
    replace: 's.*, s.settings, s.result, s.response,',
    suites: ['test/crash/rolling-upgrade.test.ts'],
  },
  {
    name: 'a migration waits for its lock, and everyone behind it, as long as it takes',
    file: `${store}/apply-migration.ts`,
    find: 'const lockTimeoutMs = 1_500;',
    replace: 'const lockTimeoutMs = 0;',
    suites: ['test/store/apply-migration.test.ts'],
  },
  {
    name: 'an index that a failed attempt left invalid counts as built',
    file: `${store}/apply-migration.ts`,
    find: 'if (rows[0]?.indisvalid) return;',
    replace: 'if (rows[0]) return;',
    suites: ['test/store/apply-migration.test.ts'],
  },
  {
    name: 'several who use a sign-in code at the same time are all signed in',
    file: `${store}/statements/sign-in-codes.ts`,
    find: "'DELETE FROM sign_in_codes WHERE hash = $1 AND expires_at > now() RETURNING key_id'",
    replace: "'SELECT key_id FROM sign_in_codes WHERE hash = $1 AND expires_at > now()'",
    suites: ['test/conformance/sign-in.test.ts'],
  },
  {
    name: 'statements through a pooler are prepared',
    file: `${store}/connection.ts`,
    find: 'name && !pooled.has(connection) ? { name, text, values } : { text, values },',
    replace: 'name ? { name, text, values } : { text, values },',
    suites: ['test/crash/database-connections.test.ts'],
  },
  {
    name: 'a node reads from a server that follows another one',
    file: `${store}/connection.ts`,
    find: 'onConnect: refuseStandby,',
    replace: 'onConnect: (client) => void refuseStandby(client).catch(() => {}),',
    suites: ['test/crash/failover.test.ts'],
  },
  {
    name: 'of statements that are sent together, the error of a later one is reported',
    file: `${store}/connection.ts`,
    find: 'throw lastErrors.get(connection) ?? error;',
    replace: 'throw error;',
    suites: ['test/store/connection.test.ts'],
  },
  {
    name: 'a connection with an outdated plan is used again',
    file: `${store}/connection.ts`,
    find: 'client.release(!isUndone || isUnavailable(error));',
    replace: "client.release(!isUndone || (isUnavailable(error) && codeOf(error) === '25006'));",
    suites: ['test/store/connection.test.ts'],
  },
  {
    name: 'every command writes the large columns of its agent again',
    file: `${store}/save-changes.ts`,
    find: 'send(updateAgentStates, existing.filter(hasNewState).map(stateFields));',
    replace:
      'send(updateAgentStates, existing.filter((f) => hasNewState(f) || f.before !== null).map(stateFields));',
    suites: ['test/store/narrow-rows.test.ts'],
  },
  {
    name: 'every node does maintenance',
    file: `${store}/statements/maintenance.ts`,
    find: 'WHERE holder = $1 OR lease_until < now() RETURNING',
    replace: 'WHERE holder = $1 OR lease_until IS NOT NULL RETURNING',
    suites: ['test/store/timeline.test.ts'],
  },
  {
    name: 'a message that waits loses its text when the entry that admitted it is old',
    file: `${store}/statements/maintenance.ts`,
    find: "AND f.sequence = e.sequence AND f.state NOT IN ('QUEUED', 'DEFERRED')`;",
    replace: 'AND f.sequence = e.sequence`;',
    suites: ['test/store/timeline.test.ts'],
  },
  {
    name: 'the history of an agent is deleted although it was reopened meanwhile',
    file: `${store}/statements/maintenance.ts`,
    find: 'WHERE a.ended_at < $3 FOR UPDATE OF a',
    replace: 'WHERE a.created_at < $3 FOR UPDATE OF a',
    suites: ['test/store/timeline.test.ts'],
  },
  {
    name: 'no fence: a runner may write into the timeline of a run that is not its own',
    file: `${store}/statements/append-output.ts`,
    find: 'AND r.runner_id = n.runner ',
    replace: '',
    suites: ['test/conformance/lost-runners.test.ts'],
  },
  {
    name: 'a report of output that is sent again is stored again',
    file: `${store}/statements/append-output.ts`,
    find: ' AND r.reports < n.report',
    replace: '',
    suites: ['test/conformance/output-reports.test.ts'],
  },
  {
    name: 'a node starts on a schema that is too new for it',
    file: `${store}/migration-plan.ts`,
    find: 'if (newest && needed > newestKnown)',
    replace: 'if (newest && needed > newestKnown + 1_000)',
    suites: [`${store}/migration-plan.test.ts`],
  },
  {
    name: 'a notification that a node cannot read counts as nothing',
    file: 'packages/service/src/control/watching/node-bus.ts',
    find: '  return { many: true };',
    replace: '  return { many: false };',
    suites: ['packages/service/src/control/shared-formats.test.ts'],
  },
  {
    name: 'the password of the database is read once',
    file: 'packages/service/src/cli/store.ts',
    find: 'const password = passwordFile === null ? null : () => passwordIn(passwordFile);',
    replace:
      'const first = passwordFile === null ? null : passwordIn(passwordFile); const password = first && (() => first);',
    suites: ['test/crash/database-connections.test.ts'],
  },
  {
    name: 'a page of a timeline by type reads all entries',
    file: `${store}/statements/timeline.ts`,
    find: 'const areMilestones = range[4]?.every((type) => milestones.includes(type));',
    replace:
      'const areMilestones = range[4]?.every((type) => milestones.includes(type)) && range[4] === null;',
    suites: ['test/store/timeline.test.ts'],
  },
  {
    name: 'a command is decided on what was read of an agent before it was locked',
    file: 'packages/service/src/control/batches/load-batch.ts',
    find: 'this.#read.delete(key.id);',
    replace: '',
    suites: ['packages/service/src/control/batches/load-batch.test.ts'],
  },
  {
    name: 'two nodes count the runs of a pool at the same time, and each claims the last one',
    file: 'packages/service/src/control/batches/load-batch.ts',
    find: '!claiming.has(submission) &&',
    replace: 'claiming.size >= 0 &&',
    suites: ['test/simulation/simulator.test.ts', 'test/crash/two-nodes.test.ts'],
  },
];
