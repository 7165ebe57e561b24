import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { program, type Server } from './server.ts';

const run = promisify(execFile);

/** An operator's key, made as an operator makes one: by the command on the server's own machine. */
export async function createOperatorKey(server: Server): Promise<string> {
  const { stdout, stderr } = await run(process.execPath, [program, 'operator', 'create'], {
    env: server.env,
  });
  const key = /mst_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/.exec(stdout)?.[0];
  if (!key) throw new Error(`muster operator create printed no key:\n${stdout}${stderr}`);
  return key;
}
