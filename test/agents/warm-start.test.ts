import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer, type Server as HttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { sandbox } from '../support/sandbox.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { TestRunners } from './test-runners.ts';
import { patienceMs, printedBy, TestAgents, useTestService } from './test-service.ts';

/** Each run of these commands leaves another value. */
const setup = ['cat /proc/sys/kernel/random/uuid > made', 'pwd > where; echo cached > ~/cache'];
const setupEach = ['cat /proc/sys/kernel/random/uuid > each'];

describe.skipIf(!sandbox)('a warm start', () => {
  const service = useTestService();

  /** A workspace with this environment, whose agents print a file. */
  async function place(environment: Readonly<Record<string, unknown>> = {}) {
    const name = uniqueName('warm');
    await writeResource(service().api, 'environment', name, { setup, setupEach, ...environment });
    return { name, ...(await service().workspace({ 'a.txt': 'one\n' }, { environment: name })) };
  }

  it('runs setup once for all agents of a workspace, and setupEach for each', async () => {
    const { agents } = await place();
    const names = ['one', 'two', 'three'];
    const printed = await Promise.all(names.map((name) => printedBy(agents, name, 'cat made each')));
    const [first = '', ...others] = printed.map((text) => text.trim().split('\n'));
    for (const [made, each] of others) {
      expect(made).toBe(first[0]);
      expect(each).not.toBe(first[1]);
    }
    for (const name of names) {
      const output = (await agents.texts(name, 'SETUP_OUTPUT')).join('');
      expect(output.split(`$ ${setupEach[0]}\n`)).toHaveLength(2);
      expect(output).toMatch(
        /^(\$ cat \/proc|The setup commands ran before, for another agent at \S+ \w{12}\.)/,
      );
    }
    const spoil =
      'for f in "$(cat where)" .; do echo spoilt > "$f/made"; done; ls "$(dirname "$(dirname "$(cat where)")")" | wc -l';
    expect(await printedBy(agents, 'spoiler', spoil)).toBe('1\n');
    const look = [
      'git status --porcelain --branch; git rev-list --count HEAD; git log --oneline origin/main | wc -l',
      'cat a.txt ~/cache; git branch --list; test "$(cat "$(cat where)/made")" = "$(cat made)" && echo same',
    ];
    const seen = await printedBy(agents, 'four', look.join('; '));
    expect(seen).toMatch(
      /^## muster\/four-\w+\n\?\? each\n\?\? made\n\?\? where\n1\n1\none\ncached\n\* muster\/four-\w+\nsame\n$/,
    );
  });

  it('runs setup again when the environment, a secret or the base branch has changed', async () => {
    const secret = uniqueName('secret');
    await writeResource(service().api, 'secret', secret, { value: 'first-value' });
    const { agents, remote, name } = await place({ variables: { TOKEN: { fromSecret: secret } } });
    const made = new Set<string>();
    const check = async (agent: string) => made.add(await printedBy(agents, agent, 'cat made'));
    await check('a');
    await writeResource(service().api, 'secret', secret, { value: 'second-value' });
    await check('b');
    await writeResource(service().api, 'environment', name, {
      ...{ setup, setupEach, variables: { TOKEN: { fromSecret: secret } } },
      allowHosts: ['example.com'],
    });
    await check('c');
    remote.commit('main', { 'a.txt': 'two\n' });
    const newest = await printedBy(agents, 'd', 'cat made a.txt');
    expect(newest).toMatch(/two\n$/);
    expect(made.add(newest.replace('two\n', '')).size).toBe(4);
  });

  it("starts a child at its parent's branch, with the result of the setup at the base branch", async () => {
    const { agents } = await place({ setup: [...setup, 'echo changed >> a.txt'] });
    const work =
      'git checkout -q -- a.txt; echo mine > b.txt; git add b.txt; git commit -qm b; git push -q; cat made';
    const made = await printedBy(agents, 'parent', work);
    const child =
      'cat made; cat b.txt a.txt; git rev-list --count --branches --not --remotes; git status --porcelain a.txt';
    expect(await printedBy(agents, 'parent/child', child)).toBe(`${made}mine\none\nchanged\n0\n M a.txt\n`);
  });

  it('works without repositories, and shares nothing between tenants', async () => {
    const operator = await operatorOf(service().server);
    const { admin } = await newTenant(operator);
    const name = uniqueName('plain');
    const made = [];
    for (const api of [apiOf(service().server), admin]) {
      await writeResource(api, 'environment', name, { setup });
      await writeResource(api, 'workspace', name, { environment: name });
      const agents = new TestAgents(api, name);
      made.push(await printedBy(agents, 'a', 'cat made'));
      expect(await printedBy(agents, 'b', 'cat made')).toBe(made.at(-1));
    }
    expect(made[0]).not.toBe(made[1]);
  });

  it('runs setup for each agent if its result has folders that are nested too deeply to be copied', async () => {
    const nest =
      'const n = "x".repeat(200); for (let i = 0; i < 30; i++) { fs.mkdirSync(n); process.chdir(n); }';
    const { agents } = await place({ setup: [...setup, `node -e '${nest}'`] });
    const made = [await printedBy(agents, 'one', 'cat made'), await printedBy(agents, 'two', 'cat made')];
    expect(new Set(made).size).toBe(2);
    expect((await agents.texts('two', 'WARNING'))[0]).toContain('nest folders too deeply');
  });

  it('reports a failed setup to each agent that waits for it', async () => {
    const { agents } = await place({ setup: ['echo no such package; exit 3'] });
    for (const name of ['one', 'two']) await agents.spawn(name, { description: '!say hello' });
    for (const name of ['one', 'two']) {
      const { error } = await until(
        'the failed setup',
        () => agents.status(name),
        ({ error }) => error !== null,
        patienceMs,
      );
      expect(error).toMatchObject({ code: 'SETUP_FAILED', message: expect.stringContaining('code 3') });
      expect((await agents.texts(name, 'SETUP_OUTPUT')).join('')).toContain('no such package\n');
      await agents.kill(name);
    }
  });

  describe('on a runner that is killed', () => {
    let gate: HttpServer;
    const held: ServerResponse[] = [];
    beforeAll(async () => {
      gate = createServer((_, response) => void held.push(response)).listen(0, '127.0.0.1');
      await once(gate, 'listening');
    });
    afterAll(() => gate?.close());

    it('uses nothing of a setup that was not complete', async () => {
      const runners = await TestRunners.create(service());
      const { agents } = runners;
      const address = `127.0.0.1:${(gate.address() as AddressInfo).port}`;
      const commands = ['echo x >> made', `curl -sS http://${address}/`];
      await writeResource(service().api, 'environment', agents.workspace, {
        setup: commands,
        allowHosts: [address],
      });
      await runners.use({ environment: agents.workspace });
      const runner = await runners.start();
      await agents.spawn('a', { description: '!run wc -l < made' });
      await asked(held, 1);
      await runners.lose(runner);
      const copies = () => readdirSync(join(runner.folder, 'prepared')).filter((name) => name !== 'key');
      expect(copies()).toHaveLength(1);
      const [copy = ''] = copies();
      expect(existsSync(join(runner.folder, 'prepared', copy, 'note.json'))).toBe(false);
      await runners.start({}, runner.folder);
      await asked(held, 2);
      held.at(-1)?.end('go\n');
      await agents.runEnded('a', 2);
      expect((await agents.texts('a', 'TOOL_RESULT')).at(-1)?.trim()).toBe('1');
      expect(copies()).toEqual([copy]);
    });
  });
});

const asked = (held: readonly ServerResponse[], times: number) =>
  until(
    'the setup',
    async () => held.length,
    (count) => count >= times,
    patienceMs,
  );
