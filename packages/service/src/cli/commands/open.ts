import { spawn } from 'node:child_process';
import type { Invocation } from '../invocation.ts';

/** The page of an agent, or the front page; the address is printed in any case. */
export async function run({ args, client, connection, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string | undefined;
  const url =
    agent === undefined ? connection().url : (await client().status(agent, { signal })).dashboardUrl;
  output.answer({ url }, () => output.line(url));
  if (!output.isTerminal) return;
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}
