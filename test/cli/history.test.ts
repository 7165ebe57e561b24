import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

const apply = (text: string) => ada.prints(['apply', '-f', '-'], { input: text });

test('history prints what a resource was, and restore writes that again, also after a deletion', async () => {
  for (const maxRuns of [1, 2]) await apply(`kind: pool\nname: big\nmaxRuns: ${maxRuns}\n`);
  expect(await ada.prints(['history', 'pool', 'big', '--generation', '1'])).toContain('maxRuns: 1');
  expect(await ada.data(['history', 'pool', 'big', '--generation', '2'])).toMatchObject({
    generation: '2',
    document: { maxRuns: 2 },
  });
  expect(await ada.prints(['history', 'pool', 'big'])).not.toMatch(/\d{4}-\d\d-\d\dT/);
  const wouldBe = await ada.prints(['restore', 'pool', 'big', '--generation', '1', '--dry-run']);
  expect(wouldBe).toMatch(/-maxRuns: 2\n\+maxRuns: 1\n(.*\n)*pool\/big would be changed\n$/);
  await ada.prints(['restore', 'pool', 'big', '--generation', '1', '--justification', 'Too many.']);
  expect(await ada.prints(['get', 'pool', 'big'])).toContain('maxRuns: 1');
  expect(await ada.prints(['history', 'pool', 'big'])).toMatch(/ 3 .*Too many\./);
  await ada.prints(['delete', 'pool', 'big', '--yes']);
  expect(await ada.muster(['restore', 'pool', 'big', '--generation', '4'])).toMatchObject({
    code: 5,
    err: 'muster: generation 4 deleted pool/big\n',
  });
  expect(await ada.data(['restore', 'pool', 'big', '--generation', '2'])).toMatchObject({
    action: 'created',
  });
  expect(await ada.prints(['get', 'pool', 'big'])).toContain('maxRuns: 2');
});

test('a persona is restored with its text; what has no stored value is refused', async () => {
  const file = (text: string) => ada.file('critic.md', `---\nmodel: rehearsal-a\n---\n${text}\n`);
  await ada.prints(['apply', '-f', file('You find fault.')]);
  await ada.prints(['apply', '-f', file('You praise.')]);
  await ada.prints(['restore', 'persona', 'critic', '--generation', '1']);
  expect(await ada.prints(['get', 'persona', 'critic'])).toContain('You find fault.');
  for (const [args, code] of [
    [['restore', 'secret', 'x', '--generation', '1'], 2],
    [['restore', 'nothing', 'x', '--generation', '1'], 2],
    [['restore', 'persona', 'critic', '--generation', 'x'], 2],
    [['restore', 'persona', 'critic', '--generation', '9'], 3],
    [['history', 'persona', 'critic', '--generation', '9'], 3],
  ] as const)
    expect(await ada.muster(args)).toMatchObject({ code, out: '' });
});

test('a generation whose document is no longer kept says so', async () => {
  for (let at = 0; at <= limits.historyDocuments; at += 1)
    await writeResource(ada.api, 'pool', 'often', { maxRuns: at + 1 });
  expect(await ada.muster(['restore', 'pool', 'often', '--generation', '1'])).toMatchObject({
    code: 5,
    err: expect.stringContaining('the document of generation 1 is no longer kept'),
  });
});
