import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { program } from '../support/server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { TestUser, userOfSharedServer } from './cli.ts';
import { hasTerminal, isInstalled, Terminal } from './terminal.ts';

const shells = (['bash', 'zsh'] as const).filter((shell) => hasTerminal && isInstalled(shell));
const ada = userOfSharedServer({ runner: false });
let t: TestTenant;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
  await t.spawn('login-fix');
  await t.spawn('old-work');
  await t.kill('old-work');
});

describe('words', () => {
  const wordsFor = async (...words: string[]) =>
    (await ada.prints(['complete', '--', ...words])).split('\n').filter(Boolean);

  test('are names of agents, kinds, resources, workspaces and models', async () => {
    expect(await wordsFor('send', 'l')).toEqual(['login-fix']);
    expect(await wordsFor('kill', 'login-fix', 'l')).toEqual(['login-fix']);
    expect(await wordsFor('kill', 'o')).toEqual([]);
    expect(await wordsFor('logs', 'o')).toEqual(['old-work']);
    expect(await wordsFor('agent', 'delete', 'o')).toEqual(['old-work']);
    expect(await wordsFor('queue', 'l')).toEqual(['list', 'login-fix']);
    expect(await wordsFor('get', 'work')).toEqual(['workspace']);
    expect(await wordsFor('get', 'workspace', t.workspace.slice(0, -1))).toContain(t.workspace);
    expect(await wordsFor('spawn', 'text', '--workspace', t.workspace)).toEqual([t.workspace]);
    expect(await wordsFor('spawn', '--model', 'rehearsal')).toEqual(['rehearsal-a', 'rehearsal-b']);
    expect(await wordsFor('comp')).toEqual(['completion']);
    expect(await wordsFor('usage', '--by', 'work')).toEqual(['workspace']);
    expect(await wordsFor('usage', '--interval', 'd')).toEqual(['day']);
  });

  test('are commands and flags where no service answers', async () => {
    const nobody = new TestUser({ url: 'http://127.0.0.1:9', key: 'mst_a.b' });
    expect(await nobody.prints(['complete', '--', 'send', ''])).toContain('--preempt\n');
    expect(await nobody.prints(['complete', '--', 'kill', 'x'])).toBe('');
    nobody.remove();
  });
});

test.runIf(isInstalled('fish'))('fish completes commands, flags and agents', () => {
  const offered = (line: string): string[] => {
    const script = `function muster; ${process.execPath} ${program} $argv; end; muster completion fish | source; complete -C '${line}'`;
    const env = { ...ada.env, HOME: ada.home };
    return execFileSync('fish', ['--no-config', '-c', script], { env, encoding: 'utf8', cwd: ada.home })
      .trim()
      .split('\n');
  };
  expect(offered('muster send log')).toEqual(['login-fix']);
  expect(offered('muster queue rem')).toEqual(['remove']);
  expect(offered('muster spawn --foll')).toEqual(['--follow']);
});

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
    ['an agent', 'muster send log', 'muster send login-fix'],
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
