import { accessExamples } from './access-examples.mjs';
import { memberExamples } from './member-examples.mjs';
import { runnerExamples } from './runner-examples.mjs';

/**
 * The examples of docs/interface.md, one set per operation. The curl example is generated from the route and the
 * contract's example, or from `body` here. `cli: null`: no command does this. `isCookie`: only a
 * page of the service does this. `muster` is the client from the beginning of the page. test/docs/interface.test.ts runs
 * all of them, with the set-up that each needs.
 */
const agentId = { agent: ['fix-login'] };

export const examples = {
  whoami: {
    cli: 'muster whoami',
    ts: `const { account, role } = await muster.whoami();
console.log(account, role);`,
  },
  service: {
    cli: 'muster doctor',
    ts: `const { backends } = await muster.service();
for (const { backend, ready, rehearsed } of backends) console.log(backend, ready, rehearsed);`,
  },
  usage: {
    cli: 'muster usage --by workspace --by model',
    ts: `const { rows } = await muster.usage({ interval: 'total', groupBy: ['workspace', 'model'] });
for (const { keys, costUsd, runs } of rows) console.log(keys.workspace, keys.model, costUsd, runs);`,
  },
  budgets: {
    cli: 'muster budget',
    ts: `const { budgets } = await muster.budgets();
for (const { name, spentUsd, amountUsd } of budgets) console.log(name, spentUsd, amountUsd);`,
  },
  runSchedule: {
    cli: 'muster schedule run nightly',
    ts: `const { outcome, reason } = await muster.schedules.run('nightly');
console.log(outcome, reason);`,
  },
  scheduleHistory: {
    cli: 'muster schedule history nightly',
    ts: `const { entries } = await muster.schedules.history('nightly');
for (const { scheduledAt, outcome, reason } of entries) console.log(scheduledAt, outcome, reason);`,
  },
  listTriggerDeliveries: {
    cli: 'muster trigger deliveries alerts --state failed',
    ts: `for await (const { deliveryId, subject, state, reason } of muster.triggers.deliveries('alerts'))
  console.log(deliveryId, subject, state, reason);`,
  },
  redeliverToTrigger: {
    cli: 'muster trigger redeliver alerts msg_2b5d8f0c',
    ts: `const { state } = await muster.triggers.redeliver('alerts', 'msg_2b5d8f0c');
console.log(state);`,
  },
  testTrigger: {
    cli: 'muster trigger test alerts',
    ts: `const { checks } = await muster.triggers.test('alerts');
for (const { name, ok, advice } of checks) console.log(ok, name, advice);`,
  },
  poolDemand: {
    cli: 'muster runner demand default',
    ts: `const { wanted, runners } = await muster.poolDemand('default');
console.log(wanted, runners);`,
  },
  listRunners: {
    cli: 'muster runner ls',
    ts: `const { runners } = await muster.listRunners();
for (const { name, runCount, free } of runners) console.log(name, runCount, free.real);`,
  },
  drainRunners: {
    cli: 'muster runner drain default',
    ts: `const { runners } = await muster.drainRunners('default');
for (const { name, runs } of runners) console.log(name, runs);`,
  },
  signInCode: {
    cli: 'muster open',
    ts: `const { code, expiresAt } = await muster.signInCode();
console.log(\`\${process.env.MUSTER_URL}/#code=\${code}\`, expiresAt);`,
  },
  signIn: { body: { code: '$CODE' }, cli: null },
  signInProviders: { body: {}, cli: null },
  listSignIns: {
    cli: null,
    ts: `for (const { at, outcome, account, rule, reason } of await muster.signIns.list('company'))
  console.log(at, outcome, account, rule, reason);`,
  },
  testSignIn: {
    cli: 'muster sign-in test company',
    ts: `const { checks } = await muster.signIns.test('company');
for (const { name, ok, advice } of checks) console.log(ok, name, advice);`,
  },
  session: { isCookie: true, cli: null },
  signOut: { isCookie: true, cli: null },
  pushSubscriptions: {
    cli: null,
    ts: `const { subscriptions } = await muster.pushSubscriptions();
for (const { userAgent, scope, recent } of subscriptions) console.log(userAgent, scope, recent.length);`,
  },
  subscribePush: {
    isCookie: true,
    body: {
      endpoint: 'https://push.example.com/send/1',
      p256dh: 'BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU',
      auth: 'BwcHBwcHBwcHBwcHBwcHBw',
      quietHours: { from: '22:00', to: '07:00', zone: 'Europe/Berlin' },
    },
    cli: null,
  },
  unsubscribePush: {
    body: { id: '$SESSION' },
    cli: null,
    ts: `const { subscriptions } = await muster.pushSubscriptions();
for (const { id } of subscriptions) await muster.unsubscribePush(id);`,
  },
  testPush: {
    body: { id: '$SESSION' },
    cli: null,
    ts: `const { subscriptions } = await muster.pushSubscriptions();
for (const { id } of subscriptions) console.log((await muster.testPush(id)).state);`,
  },

  spawn: {
    cli: `muster spawn "Fix the login page: a wrong password shows a blank screen." --name fix-login \\
  --task "Reproduce it in a test" --task "Fix it"`,
    ts: `const { agentId } = await muster.spawn({
  path: 'fix-login',
  description: 'Fix the login page: a wrong password shows a blank screen.',
  tasks: [{ subject: 'Reproduce it in a test' }, { subject: 'Fix it' }],
});
console.log(agentId.workspace, agentId.agent.join('/'));`,
  },
  status: {
    cli: 'muster status fix-login',
    ts: `const { phase, phaseReason, response } = await muster.status('fix-login');
console.log(phase, phaseReason, response);`,
  },
  wait: {
    cli: 'muster wait fix-login --timeout 10m',
    ts: `const { phaseReason, needsInput } = await muster.wait('fix-login', { signal: AbortSignal.timeout(600_000) });
console.log(phaseReason, needsInput);`,
  },
  waitMany: {
    cli: 'muster wait fix-login fix-login/tests',
    ts: `const first = await muster.waitMany(['fix-login', 'fix-login/tests']);
console.log(first.agentId.agent.join('/'), first.phaseReason);`,
  },
  list: {
    cli: 'muster ps --all',
    ts: `for await (const { agentId, phase } of muster.listAll({ includeTerminal: true })) {
  console.log(agentId.agent.join('/'), phase);
}`,
  },
  listStream: {
    cli: 'muster ps --watch',
    ts: `for await (const { agentId, phase } of muster.listStream({ allDepths: true })) {
  console.log(agentId.agent.join('/'), phase);
  if (phase === 'PHASE_WAITING_FOR_INPUT') break;
}`,
  },
  listStreamByGet: { query: '?allDepths=true', cli: null },
  kill: {
    cli: 'muster kill fix-login --yes',
    ts: `await muster.kill('fix-login');`,
  },
  retry: {
    cli: 'muster retry fix-login',
    ts: `await muster.retry('fix-login');`,
  },
  markAgents: {
    cli: null,
    ts: "await muster.markAgents([{ agentId: { agent: ['fix-login'] }, seen: '12', pinned: true }]);",
  },
  setBudget: {
    cli: 'muster budget fix-login 5',
    ts: "await muster.setBudget('fix-login', 5);",
  },
  retryMany: {
    cli: null,
    ts: `const { agents } = await muster.retryMany({ labels: { team: 'web' } });
for (const { agentId, retried, error } of agents) console.log(agentId.agent.join('/'), retried, error?.message);`,
  },
  deleteAgent: {
    cli: 'muster agent delete fix-login --yes',
    ts: `await muster.delete('fix-login');`,
  },
  reopen: {
    cli: 'muster reopen fix-login',
    ts: `await muster.reopen('fix-login');`,
  },
  labels: {
    cli: 'muster label fix-login team=web sprint=',
    ts: `const { labels } = await muster.label('fix-login', { team: 'web', sprint: '' });
console.log(labels);`,
  },
  diff: {
    cli: 'muster diff fix-login',
    ts: `const { branch, diff } = await muster.diff('fix-login');
console.log(branch, diff);`,
  },
  checkpoint: {
    cli: 'muster work fix-login',
    ts: `const { checkpointId, parts, content } = await muster.checkpoint('fix-login');
const contents = [content];
for (let part = 1; part < parts; part += 1)
  contents.push((await muster.checkpoint('fix-login', { checkpointId, part })).content);
console.log(contents.length);`,
  },

  queue: {
    cli: 'muster send fix-login "Cover the empty password, too."',
    ts: `const { followUpId } = await muster.queue('fix-login', 'Cover the empty password, too.');
console.log(followUpId);`,
  },
  removeFollowUp: {
    cli: 'muster queue remove fix-login a-follow-up',
    ts: `const { removed } = await muster.removeFollowUp('fix-login', 'a-follow-up');
console.log(removed);`,
  },
  orderQueue: {
    cli: 'muster queue order fix-login a-follow-up',
    ts: `const { followUpIds } = await muster.orderQueue('fix-login', ['a-follow-up']);
console.log(followUpIds);`,
  },
  listFollowUps: {
    cli: 'muster queue fix-login',
    ts: `const { followUps } = await muster.listFollowUps('fix-login', { pageSize: 100 });
for (const { followUpId, description } of followUps) console.log(followUpId, description);`,
  },
  followUp: {
    cli: 'muster queue show fix-login a-follow-up',
    ts: `const { state, answer } = await muster.followUp('fix-login', 'a-follow-up');
console.log(state, answer);`,
  },
  uploadAttachment: {
    query: '?agent=fix-login',
    upload: 'screenshot.png',
    cli: 'muster send fix-login "It looks like this." --image screenshot.png',
    ts: `const { readFile } = await import('node:fs/promises');
const image = await readFile(new URL('screenshot.png', import.meta.url));
const { attachmentId } = await muster.attachments.upload('fix-login', image);
await muster.queue('fix-login', { description: 'It looks like this.', attachmentIds: [attachmentId] });`,
  },
  attachment: {
    body: { agentId, attachmentId: '$ATTACHMENT' },
    cli: null,
    ts: `for await (const { data } of muster.timelineAll('fix-login', { types: ['FOLLOW_UP_DELIVERED', 'TOOL_RESULT'] })) {
  for (const id of (data.attachmentIds ?? []) as string[])
    console.log((await muster.attachments.read('fix-login', id)).mediaType);
}`,
  },
  clearFollowUps: {
    cli: 'muster queue clear fix-login',
    ts: `const { cleared } = await muster.clearFollowUps('fix-login');
console.log(cleared);`,
  },

  stopTurn: {
    cli: 'muster stop fix-login',
    ts: `const { runCount } = await muster.status('fix-login');
await muster.stopTurn('fix-login', { runId: runCount });`,
  },
  runs: {
    cli: 'muster runs fix-login',
    ts: `const { runs } = await muster.runs('fix-login', { limit: 10 });
for (const { runId, outcome, cost } of runs) console.log(runId, outcome, cost);`,
  },
  timeline: {
    cli: 'muster logs fix-login',
    ts: `for await (const { at, type, text } of muster.timelineAll('fix-login')) console.log(at, type, text);`,
  },
  timelineStream: {
    cli: 'muster logs fix-login --follow',
    ts: `const entries = muster.timelineStream('fix-login', { onPartial: ({ text }) => console.log('…', text) });
for await (const { type, text } of entries) {
  console.log(type, text);
  if (type === 'RUN_ENDED') break;
}`,
  },
  timelineStreamByGet: { query: '?agent=fix-login', cli: null },
  ask: {
    cli: null,
    ts: `await muster.ask('fix-login', 'Should an expired password lead to the reset page?');`,
  },
  finish: {
    cli: null,
    ts: `await muster.finish('fix-login', 'The login page shows what is wrong.');`,
  },
  fail: {
    cli: null,
    ts: `await muster.fail('fix-login', 'The password database is not in this repository.');`,
  },

  tasks: {
    cli: 'muster tasks fix-login',
    ts: `const { tasks } = await muster.tasks('fix-login');
for (const { id, status, subject } of tasks) console.log(id, status, subject);`,
  },
  createTasks: {
    cli: 'muster tasks add fix-login "Write it down"',
    ts: `await muster.createTasks('fix-login', [{ id: 'docs', subject: 'Write it down' }]);`,
  },
  updateTask: {
    cli: 'muster tasks done fix-login docs',
    ts: `await muster.updateTask('fix-login', 'docs', { status: 'TASK_STATUS_COMPLETED' });`,
  },

  threads: {
    cli: 'muster threads fix-login --open',
    ts: `for await (const { path, line, answer } of muster.threads('fix-login', { states: ['OPEN'] }))
  console.log(path, line, answer);`,
  },
  createReview: {
    cli: 'muster threads add fix-login src/login.ts:12 "What if the password is empty?"',
    ts: `const { threads } = await muster.createReview('fix-login', {
  comments: [{ path: 'src/login.ts', line: 12, body: 'What if the password is empty?' }],
});
console.log(threads[0]?.threadId);`,
  },
  replyToThread: {
    body: { agentId, threadId: '$THREAD', body: 'And if it is only spaces?' },
    cli: 'muster threads reply fix-login $THREAD "And if it is only spaces?"',
    ts: `for await (const { threadId } of muster.threads('fix-login'))
  await muster.replyToThread('fix-login', threadId, 'And if it is only spaces?');`,
  },
  resolveThread: {
    body: { agentId, threadId: '$THREAD' },
    cli: 'muster threads resolve fix-login $THREAD',
    ts: `for await (const { threadId } of muster.threads('fix-login')) await muster.resolveThread('fix-login', threadId);`,
  },

  writeResource: {
    cli: `muster apply --justification "A first draft" -f - <<'END'
kind: persona
name: terse
instructions: Be terse.
END`,
    ts: `const { generation } = await muster.catalog.write(
  'persona',
  'terse',
  { instructions: 'Be terse.' },
  { justification: 'A first draft' },
);
console.log(generation);`,
  },
  readResource: {
    cli: 'muster get persona terse',
    ts: `const { document, generation } = await muster.catalog.read('persona', 'terse');
console.log(generation, document.instructions);`,
  },
  listResources: {
    cli: 'muster get persona',
    ts: `for await (const { name, builtin } of muster.catalog.listAll('persona')) console.log(name, builtin);`,
  },
  deleteResource: {
    cli: 'muster delete persona terse --yes',
    ts: `await muster.catalog.delete('persona', 'terse');`,
  },
  resourceHistory: {
    cli: 'muster history persona terse',
    ts: `const { entries } = await muster.catalog.history('persona', 'terse');
for (const { generation, by, justification } of entries) console.log(generation, by, justification);`,
  },
  validateResource: {
    cli: `muster apply --dry-run -f - <<'END'
kind: persona
name: terse
instruction: Be terse.
END`,
    ts: `const { warnings } = await muster.catalog.validate('persona', 'terse', { instruction: 'Be terse.' });
for (const { field, description } of warnings) console.log(field, description);`,
  },

  openChangeRequest: {
    cli: 'muster cr open fix-login --title "Show what is wrong with a password" --draft',
    ts: `const { changeRequest } = await muster.openChangeRequest('fix-login', {
  title: 'Show what is wrong with a password',
  draft: true,
});
console.log(changeRequest?.url);`,
  },
  syncChangeRequests: {
    cli: 'muster cr sync',
    ts: `const { asked } = await muster.syncChangeRequests();
console.log(asked);`,
  },
  testIntegration: {
    cli: 'muster integration test github',
    ts: `const { checks } = await muster.testIntegration('github');
for (const { name, ok, advice } of checks) console.log(ok, name, advice);`,
  },
  listDeliveries: {
    cli: 'muster integration deliveries github --state failed',
    ts: `for await (const { deliveryId, event, state, reason } of muster.deliveries('github'))
  console.log(deliveryId, event, state, reason);`,
  },
  redeliver: {
    cli: 'muster integration redeliver github 72d3162e-cc78-11e3-81ab-4c9367dc0958',
    ts: `const { state } = await muster.redeliver('github', '72d3162e-cc78-11e3-81ab-4c9367dc0958');
console.log(state);`,
  },

  listNotificationDeliveries: {
    cli: 'muster notification deliveries team --state failed',
    ts: `for await (const { deliveryId, type, state, error } of muster.notifications.deliveries('team'))
  console.log(deliveryId, type, state, error);`,
  },
  redeliverNotification: {
    cli: 'muster notification redeliver team 72d3162e-cc78-41e3-81ab-4c9367dc0958',
    ts: `const { state } = await muster.notifications.redeliver('team', '72d3162e-cc78-41e3-81ab-4c9367dc0958');
console.log(state);`,
  },
  testNotification: {
    cli: 'muster notification test team',
    ts: `const { state, error } = await muster.notifications.test('team');
console.log(state, error);`,
  },

  ...memberExamples,
  ...accessExamples,
  ...runnerExamples,
};
