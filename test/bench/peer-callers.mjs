// 64 callers that add messages with another queue, each in its own schema of the server that the PG* variables name.
// Both are used as their documentation shows: default settings, and their own pool of 10 connections, their default.
import { makeWorkerUtils } from 'graphile-worker';
import PgBoss from 'pg-boss';

const callers = 64;
const warmUpMs = 1_000;
const [name, seconds] = process.argv.slice(2);

const open = {
  async 'pg-boss'() {
    const { PGHOST: host, PGUSER: user, PGDATABASE: database, PGPASSWORD: password } = process.env;
    const boss = new PgBoss({ host, user, database, password });
    boss.on('error', (error) => {
      throw error;
    });
    await boss.start();
    await boss.createQueue('messages');
    return {
      add: (message) => boss.send('messages', message),
      close: () => boss.stop({ graceful: false, wait: true }),
    };
  },
  async 'graphile-worker'() {
    // The connection is that of the PG* variables.
    const utils = await makeWorkerUtils({});
    await utils.migrate();
    return { add: (message) => utils.addJob('message', message), close: () => utils.release() };
  },
};

const queue = await open[name]();
let added = 0;
let isOn = true;

/** The body of queue-add.lua. */
const message = () => ({
  agentId: { agent: [`bench-${1 + Math.floor(Math.random() * 1000)}`], workspace: 'default' },
  description: 'Please also look at the failing test in the login flow.',
});

async function call() {
  while (isOn) {
    if (!(await queue.add(message()))) throw new Error(`${name} has not added a message`);
    added += 1;
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const calls = Promise.all(Array.from({ length: callers }, call));
await pause(warmUpMs);
const from = { added, ms: performance.now() };
await pause(Number(seconds) * 1_000);
const perSecond = ((added - from.added) * 1_000) / (performance.now() - from.ms);
isOn = false;
await calls;
await queue.close();
console.log(`${perSecond.toFixed(1)} per second`);
process.exit(0);
