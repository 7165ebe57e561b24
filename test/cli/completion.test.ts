import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestUser } from './cli.ts';
import { hasTerminal, isInstalled, Terminal } from './terminal.ts';

const shells = (['bash', 'zsh'] as const).filter((shell) => hasTerminal && isInstalled(shell));
let ada: TestUser;

beforeAll(() => {
  ada = new TestUser();
});
afterAll(() => ada?.remove());

describe.each(shells)('completion in %s', (shell) => {
  let at: Terminal;
  beforeAll(async () => {
    at = await Terminal.open(ada, { shell });
    expect(await at.run(`eval "$(muster completion ${shell})"`)).toEqual({ text: '', code: 0 });
  });
  afterAll(() => at?.close());

  test.each([
    ['a command', 'muster compl', 'muster completion'],
    ['a subcommand', 'muster queue rem', 'muster queue remove'],
    ['a flag', 'muster spawn --foll', 'muster spawn --follow'],
    ['a flag after other arguments', 'muster send x hello --pree', 'muster send x hello --preempt'],
    ['a global flag', 'muster ps --outp', 'muster ps --output'],
    ['the value of a flag', 'muster ps --output ya', 'muster ps --output yaml'],
    ['an argument', 'muster completion zs', 'muster completion zsh'],
  ])('completes %s', async (_, typed, completed) => {
    await at.press(typed);
    await at.shows(new RegExp(`^> ${typed}$`, 'm'));
    await at.key('Tab');
    await at.shows(new RegExp(`^> ${completed}$`, 'm'));
    await at.abandon();
    await at.run('true');
  });

  test('lists the choices', async () => {
    await at.press('muster queue ');
    await at.key('Tab');
    await at.key('Tab');
    const screen = await at.shows(/remove/);
    for (const word of ['clear', 'list', 'remove', '--help']) expect(screen).toContain(word);
  });
});
