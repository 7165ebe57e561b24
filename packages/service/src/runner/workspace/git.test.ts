import { expect, it } from 'vitest';
import { complaintOf, localEnvironment, runGit } from './git.ts';

const environment = localEnvironment(process.env);
const limited = 'git was stopped: it took too long, printed too much, or its run ended';

it.each([
  ['takes too long', 'sleep 600', { timeoutMs: 50 }, 0],
  ['prints too much', 'yes', { mostBytes: 1000 }, 1000],
  ['prints too much that nobody keeps', 'yes', { mostBytes: 1000, discardsOutput: true }, 0],
])('git is stopped when it %s', async (_, command, limits, kept) => {
  const result = await runGit(['-c', `alias.x=!${command}`, 'x'], { environment, ...limits });
  expect([result.exitCode, result.stdout.length, complaintOf(result)]).toEqual([null, kept, limited]);
});
