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
  let terminal: Terminal;
  beforeAll(async () => {
    terminal = await Terminal.open(ada, { shell });
    expect(await terminal.run(`eval "$(muster completion ${shell})"`)).toEqual({ text: '', code: 0 });
  });
  afterAll(() => terminal?.close());

  test.each([
    ['a command', 'muster compl', 'muster completion'],
    ['a subcommand', 'muster queue rem', 'muster queue remove'],
    ['a flag', 'muster spawn --foll', 'muster spawn --follow'],
    ['a flag after other arguments', 'muster send x hello --pree', 'muster send x hello --preempt'],
    ['a global flag', 'muster ps --outp', 'muster ps --output'],
    ['the value of a flag', 'muster ps --output ya', 'muster ps --output yaml'],
    ['an argument', 'muster completion zs', 'muster completion zsh'],
  ])('completes %s', async (_, typed, completed) => {
    await terminal.press(typed);
    await terminal.shows(new RegExp(`^> ${typed}$`, 'm'));
    await terminal.key('Tab');
    await terminal.shows(new RegExp(`^> ${completed}$`, 'm'));
    await terminal.cancelLine();
    await terminal.run('true');
  });

  test('lists the choices', async () => {
    await terminal.press('muster queue ');
    await terminal.key('Tab');
    await terminal.key('Tab');
    const screen = await terminal.shows(/remove/);
    for (const word of ['clear', 'list', 'remove', '--help']) expect(screen).toContain(word);
  });
});
