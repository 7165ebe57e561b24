import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Person } from './cli.ts';
import { hasTerminal, isInstalled, Terminal } from './terminal.ts';

const shells = (['bash', 'zsh'] as const).filter((shell) => hasTerminal && isInstalled(shell));
let ada: Person;

beforeAll(() => {
  ada = new Person();
});
afterAll(() => ada?.leave());

describe.each(shells)('completion in %s', (shell) => {
  let at: Terminal;
  beforeAll(async () => {
    at = await Terminal.open(ada, { shell });
    expect(await at.run(`eval "$(muster completion ${shell})"`)).toEqual({ text: '', code: 0 });
  });
  afterAll(() => at?.close());

  test.each([
    ['a command', 'muster compl', 'muster completion'],
    ['a command of a group', 'muster queue rem', 'muster queue remove'],
    ['a flag', 'muster spawn --foll', 'muster spawn --follow'],
    ['a flag behind others', 'muster send x hello --pree', 'muster send x hello --preempt'],
    ['a flag for every command', 'muster ps --outp', 'muster ps --output'],
    ['what a flag takes', 'muster ps --output ya', 'muster ps --output yaml'],
    ['a shell', 'muster completion zs', 'muster completion zsh'],
  ])('completes %s', async (_, typed, completed) => {
    await at.press(typed);
    await at.shows(new RegExp(`^> ${typed}$`, 'm'));
    await at.key('Tab');
    await at.shows(new RegExp(`^> ${completed}$`, 'm'));
    await at.abandon();
    await at.run('true');
  });

  test('shows what there is to choose from', async () => {
    await at.press('muster queue ');
    await at.key('Tab');
    await at.key('Tab');
    const screen = await at.shows(/remove/);
    for (const word of ['clear', 'list', 'remove', '--help']) expect(screen).toContain(word);
  });
});
