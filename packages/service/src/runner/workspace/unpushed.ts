import type { Processes } from '../../harness/harness.ts';
import { heardOut } from '../../harness/heard-out.ts';
import type { PreparedRepository } from './prepare.ts';

/** Git itself takes a few milliseconds; an agent may have put anything in its place. */
const countMs = 10_000;
const mostOutput = 64 * 1024;

const script =
  'for folder; do git -C "$folder" rev-list --count --branches --not --remotes; done 2>/dev/null';

/**
 * How many commits are on branches of the agent's clones and on none of their remotes. They are counted by a process
 * of the agent's own: what it has put into its clones must not be run by the runner.
 */
export async function unpushedCommits(
  processes: Processes,
  repos: readonly Pick<PreparedRepository, 'folder'>[],
): Promise<number> {
  if (repos.length === 0) return 0;
  const folders = repos.map(({ folder }) => folder);
  const counting = processes.start(['/bin/sh', '-c', script, 'sh', ...folders], { gateway: 'never' });
  const timer = setTimeout(() => void counting.kill(), countMs);
  let output = '';
  counting.child.stdin.end();
  counting.child.stderr.resume();
  counting.child.stdout.setEncoding('latin1').on('data', (text: string) => {
    if (output.length < mostOutput) output += text;
  });
  await heardOut(counting);
  clearTimeout(timer);
  const counts = output.split('\n').filter((line) => /^\d{1,9}$/.test(line));
  return counts.reduce((sum, count) => sum + Number(count), 0);
}
