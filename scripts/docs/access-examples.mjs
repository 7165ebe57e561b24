/** The examples of sessions, logins, keys and the audit. */
export const accessExamples = {
  listSessions: {
    cli: null,
    ts: `const { entries } = await muster.listSessions();
for (const { userAgent, lastSeenAt } of entries) console.log(userAgent, lastSeenAt);`,
  },
  revokeSession: {
    body: { id: '$SESSION' },
    cli: null,
    ts: `const { entries } = await muster.listSessions();
for (const { id } of entries) await muster.revokeSession(id);`,
  },
  audit: {
    body: { kind: 'persona', pageSize: 20 },
    cli: 'muster audit --kind persona --limit 20',
    ts: `for await (const { at, actor, action, name } of muster.auditAll({ kind: 'persona' })) {
  console.log(at, actor, action, name);
}`,
  },
  listKeys: {
    cli: 'muster keys ls',
    ts: `for await (const { keyId, kind, lastUsedAt } of muster.keys()) console.log(keyId, kind, lastUsedAt);`,
  },
  revokeKey: {
    body: { keyId: '$KEY', justification: 'The laptop is lost' },
    cli: null,
    ts: `for await (const { keyId, kind } of muster.keys()) if (kind === 'login') await muster.revokeKey(keyId);`,
  },
  startLogin: { body: { client: 'my program on build-7' }, cli: null },
  pollLogin: { body: { deviceCode: '$DEVICE' }, cli: null },
  showLogin: {
    body: { userCode: '$CODE' },
    cli: null,
    ts: `const { client, address, createdAt } = await muster.showLogin(process.env.CODE ?? '');
console.log(client, address, createdAt);`,
  },
  answerLogin: {
    body: { userCode: '$CODE', approve: true },
    cli: null,
    ts: `await muster.answerLogin(process.env.CODE ?? '', true);`,
  },
};
