import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { TestUser, userOfSharedServer } from './cli.ts';
import { hasTerminal, Terminal } from './terminal.ts';

describe.skipIf(!hasTerminal)('in a terminal of 80 columns', () => {
  const ada = userOfSharedServer();
  let terminal: Terminal;

  beforeAll(async () => {
    terminal = await Terminal.open(ada);
  });
  afterAll(() => terminal?.close());

  describe('tables', () => {
    test('fit 80 columns: long values are truncated, and no line wraps', async () => {
      const long = 'a-name-that-goes-on-and-on-for-much-longer-than-anybody-needs';
      const question = 'Which of the many colours shall it be, and why do you think so, if I may ask?';
      await ada.spawnAndWait(long, `!ask ${question}`);
      await ada.spawnAndWait(`${long}/child`, '!say Hi.');
      const { text, code } = await terminal.run('muster ps');
      expect(code).toBe(0);
      const lines = text.split('\n');
      expect(lines).toHaveLength(3);
      expect(lines[0]).toMatch(/^AGENT +STATUS +FOR +RUNS +COST +MODEL +WORKSPACE +NEWS$/);
      expect(lines[1]).toMatch(/^a-name-that.*… +needs i.*…$/);
      expect(lines[2]).toMatch(/^· child +idle /);
      expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(80);
      await writeResource(ada.api, 'pool', long, {});
      const heights: number[] = [];
      for (const command of ['get pool', `history pool ${long}`, `queue ${long}`]) {
        const table = (await terminal.run(`muster ${command}`)).text.split('\n');
        expect(table.every((line) => [...line].length <= 80)).toBe(true);
        heights.push(table.length);
      }
      expect(heights[0]).toBe(3);
    });

    test('fit a narrow window', async () => {
      const narrow = await Terminal.open(ada, { columns: 40 });
      const { text } = await narrow.run('muster ps');
      expect(text.split('\n')).toHaveLength(3);
      await narrow.close();
    });

    test('are neither truncated nor coloured in a pipe', async () => {
      await terminal.run('muster ps | cat > piped.txt');
      const piped = readFileSync(join(ada.home, 'piped.txt'), 'utf8');
      expect(piped).toMatch(/ Which of .* if I may ask\? +!ask Which of .* if I may ask\?$/m);
      expect(piped).not.toContain('\u001b');
    });
  });

  describe('colours', () => {
    test('are shown, but not with NO_COLOR or with --no-color', async () => {
      await ada.spawnAndWait('green', '!finish');
      await terminal.run('muster ps -a');
      expect(await terminal.coloured()).toContain('\u001b[32mfinished');
      for (const command of ['NO_COLOR=1 muster ps -a', 'muster ps -a --no-color']) {
        const { text } = await terminal.run(command);
        expect(text).toContain('finished');
        expect(await terminal.coloured()).not.toContain('\u001b[32m');
      }
    });

    test('control codes of an agent do nothing to the terminal', async () => {
      const codes = '!run printf "\\033[2J\\033]0;owned\\007\\033[31mred"';
      await ada.spawnAndWait('colourful', codes);
      const { text } = await terminal.run('muster logs colourful');
      expect(text).toContain('red');
      expect(text).toContain('run 1 completed');
    });
  });

  test('spawn asks before it uses a workspace that does not exist', async () => {
    await writeResource(ada.api, 'workspace', 'code', {});
    await terminal.start("muster spawn '!say Hi.' --name lost --workspace cod");
    const question = await terminal.shows(/Continue\? \[y\/N\]/);
    expect(question.replace(/\s+/g, ' ')).toContain(
      'The workspace "cod" does not exist: the agent would work in an empty folder. Did you mean "code"?',
    );
    await terminal.type('n');
    expect(await terminal.end()).toMatchObject({
      code: 1,
      text: expect.stringContaining('no agent was spawned'),
    });
    expect(await ada.muster(['status', 'cod:lost'])).toMatchObject({ code: 3 });
    for (const command of ['--workspace code', '--workspace cod --yes'])
      expect(await terminal.run(`muster spawn '!say Hi.' ${command}`)).toMatchObject({ code: 0 });
  });

  test('logs -f shows a text while the agent writes it, and not again when it is complete', async () => {
    const tenant = await newTestTenant(ada.api);
    await tenant.spawn('writer');
    const run = await tenant.start('writer');
    await terminal.start(`muster logs -f ${tenant.workspace}:writer --no-color`);
    await tenant.runner.watched(run);
    await tenant.runner.say(run, 'Let me see\u001b[3');
    await terminal.shows(/^\S+ {3}Let me see$/m);
    await tenant.runner.say(run, '1m.\nIt is', { offset: 13 });
    await terminal.shows(/Let me see\.\n +It is$/m);
    const whole = 'Let me see\u001b[31m.\nIt is the cookie.';
    await tenant.report(run, { items: [{ type: 'MESSAGE', text: whole, data: { key: 'k' } }] });
    await terminal.shows(/ {2}It is the cookie\.$/m);
    const output = { key: 'out', type: 'TOOL_RESULT' };
    await tenant.report(run, { items: [{ type: 'TOOL_CALL', text: 'make', data: { tool: 'shell' } }] });
    await tenant.runner.say(run, 'compiling\n', output);
    await terminal.shows(/^\S+ {3}compiling$/m);
    await tenant.report(run, { items: [{ type: 'WARNING', text: 'Careful.' }] });
    await terminal.shows(/! Careful\.$/m);
    await tenant.report(run, {
      items: [{ type: 'TOOL_RESULT', text: 'compiling\ndone', data: { key: 'out' } }],
    });
    await terminal.shows(/done$/m);
    await tenant.end(run);
    const screen = await terminal.shows(/run 1 completed$/m);
    await terminal.key('C-c');
    await terminal.end();
    const lines = screen.split('\n').map((line) => line.replace(/^[\d:]+/, '').trim());
    const shown = ['Let me see.', 'It is the cookie.', '$ make', 'compiling', '! Careful.', 'done'];
    expect(lines.slice(-7)).toEqual([...shown, '─ run 1 completed']);
  });

  describe('Ctrl-C', () => {
    test('ends `logs -f` with 130 and without output, and the terminal works as before', async () => {
      await ada.busy('worker', '!say Working.\n!sleep 600');
      await terminal.start('muster logs -f worker');
      await terminal.shows(/ {2}Working\.$/m);
      expect(await terminal.coloured()).toContain('\u001b[2m');
      await terminal.key('C-c');
      const { text, code } = await terminal.end();
      expect(code).toBe(130);
      expect(text).not.toMatch(/Error|at .*\.js/);
      expect((await terminal.run('echo still here; stty -a | grep -o " echo "')).text).toBe(
        'still here\n echo',
      );
    });

    test('ends `wait` with 130; until then it shows what it waits for', async () => {
      await terminal.start('muster wait worker');
      await terminal.shows(/^waiting for worker \d+s$/m);
      await terminal.key('C-c');
      const { text, code } = await terminal.end();
      expect({ text: text.replace('^C', '').trim(), code }).toEqual({ text: '', code: 130 });
    });

    test('ends `spawn --follow`, and the agent goes on', async () => {
      const file = ada.file('followed.md', '!say Started.\n!sleep 600');
      await terminal.start(`muster spawn --follow --name follower --file ${file}`);
      await terminal.shows(/ {2}Started\.$/m);
      await terminal.key('C-c');
      expect((await terminal.end()).code).toBe(130);
      expect(await ada.agents.status('follower')).toMatchObject({ phaseReason: 'WORKING' });
    });

    test('ends a confirmation, and a command that reads standard input', async () => {
      await terminal.start('muster kill worker');
      await terminal.shows(/Continue\? \[y\/N\]/);
      await terminal.key('C-c');
      expect((await terminal.end()).code).toBe(130);
      await terminal.start('muster spawn -');
      await terminal.shows(/^\(reading standard input; end with Ctrl-D\)$/m);
      await terminal.key('C-c');
      expect((await terminal.end()).code).toBe(130);
      expect(await ada.agents.status('worker')).toMatchObject({ phaseReason: 'WORKING' });
    });
  });

  describe('questions', () => {
    test('kill lists what it would end and asks: Enter and n cancel, y ends it', async () => {
      for (const name of ['parent-agent', 'parent-agent/child'])
        await ada.agents.spawn(name, { description: '!sleep 600' });
      for (const answer of ['', 'n']) {
        await terminal.start('muster kill parent-agent');
        await terminal.shows(/Continue\? \[y\/N\]/);
        await terminal.type(answer);
        const { text, code } = await terminal.end();
        expect(code).toBe(1);
        expect(text).toMatch(
          /^This ends parent-agent \(.*\) and 1 agent below it:\n {2}parent-agent\/child \(.*\)\n/,
        );
        expect(text).toMatch(/muster: parent-agent was not killed$/);
      }
      await terminal.start('muster kill parent-agent');
      await terminal.shows(/Continue\? \[y\/N\]/);
      await terminal.type('y');
      expect(await terminal.end()).toMatchObject({
        code: 0,
        text: expect.stringMatching(/^ended parent-agent\nparent-agent may have had unpushed work; /m),
      });
      expect(await ada.agents.status('parent-agent')).toMatchObject({ phaseReason: 'KILLED' });
    });

    test('delete asks; the end of the input cancels', async () => {
      await writeResource(ada.api, 'pool', 'old', {});
      await terminal.start('muster delete pool old');
      await terminal.shows(/This deletes pool\/old \(generation 1\)\.\nContinue\? \[y\/N\]/);
      await terminal.key('C-d');
      expect(await terminal.end()).toMatchObject({ code: 1 });
      await terminal.start('muster delete pool old');
      await terminal.shows(/Continue/);
      await terminal.type('yes');
      expect(await terminal.end()).toMatchObject({
        code: 0,
        text: expect.stringMatching(/deleted pool\/old$/),
      });
    });

    test('login asks for the API key and does not show it', async () => {
      const bob = new TestUser();
      const other = await Terminal.open(bob);
      await other.start(`muster login --key --url ${ada.server.url}`);
      await other.shows(/^API key for http.*:$/m);
      await other.type(ada.server.key);
      const { text, code } = await other.end();
      expect(code).toBe(0);
      expect(text).toContain(`admin (admin) at ${ada.server.url}`);
      expect(text).not.toContain(ada.server.key.slice(0, 12));
      expect((await other.run('muster whoami')).text).toContain('from muster login');
      await other.close();
      bob.remove();
    });
  });

  test('`ps --watch` redraws the list, and leaves a usable terminal', async () => {
    await ada.busy('watched');
    await terminal.start('muster ps --watch');
    await terminal.shows(/^watched +working/m);
    await ada.agents.queue('watched', { description: '!ask And now?', preempt: true });
    const screen = await terminal.shows(/^watched +needs input .*And now/m);
    expect(screen.match(/^AGENT/gm)).toHaveLength(1);
    await terminal.key('C-c');
    expect((await terminal.end()).code).toBe(130);
  });

  test('`edit` opens the editor in the terminal, and Ctrl-C goes to the editor', async () => {
    await writeResource(ada.api, 'pool', 'edited', { maxRuns: 1 });
    ada.file(
      'editor.sh',
      'trap "echo caught" INT\necho "editing"\nread line\nread line\necho "maxRuns: $line" >> "$1"\nsed -i /1/d "$1"\n',
    );
    await terminal.start('EDITOR="bash editor.sh" muster edit pool edited');
    await terminal.shows(/^editing$/m);
    await terminal.key('C-c');
    await terminal.shows(/caught/);
    await terminal.type('');
    await terminal.type('7');
    expect(await terminal.end()).toMatchObject({
      code: 0,
      text: expect.stringMatching(/pool\/edited changed \(generation 2\)$/),
    });
  });
});
