/** Examples of the operations on the people of a tenant and on runners that drain. */
export const memberExamples = {
  undrainRunners: {
    body: { pool: 'default', runners: ['builder-1'] },
    cli: 'muster runner undrain default builder-1',
    ts: `const { runners } = await muster.undrainRunners('default', ['builder-1']);
for (const { name, draining } of runners) console.log(name, draining);`,
  },
  listMembers: {
    cli: 'muster members ls',
    ts: `for await (const { account, role, lastSeenAt } of muster.members()) console.log(account, role, lastSeenAt);`,
  },
  updateMember: {
    body: {
      account: 'mia',
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      disabled: true,
      justification: 'left the team',
    },
    cli: 'muster members disable mia --yes --justification "left the team"',
    ts: `const { role } = await muster.updateMember({
  account: 'mia',
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  role: 'viewer',
});
console.log(role);`,
  },
  setup: {
    cli: null,
    ts: `const { steps } = await muster.setup();
for (const { name, state, text } of steps) console.log(name, state, text);`,
  },
};
