import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Call = (this: unknown, ...args: unknown[]) => unknown;

/** Records the calls of this process, also of libraries, that give the file system a path below the folder. */
export function recordFileAccesses(folder: string): { readonly calls: readonly string[]; stop(): void } {
  const calls: string[] = [];
  const recorded = (name: string, call: Call): Call => {
    const recording = function (this: unknown, ...args: unknown[]): unknown {
      const isPath = (value: unknown) =>
        value instanceof URL || Buffer.isBuffer(value) || typeof value === 'string';
      const found = args.slice(0, 2).find((value) => isPath(value) && String(value).includes(folder));
      if (found !== undefined) calls.push(`${name} ${found}`);
      return call.apply(this, args);
    };
    return Object.defineProperties(recording, Object.getOwnPropertyDescriptors(call));
  };
  const replaced: (() => void)[] = [];
  for (const module of [fs, fs.promises] as unknown as Record<string, unknown>[])
    for (const [name, call] of Object.entries(module)) {
      if (typeof call !== 'function' || !/^[a-z]/.test(name)) continue;
      module[name] = recorded(name, call as Call);
      replaced.push(() => {
        module[name] = call;
      });
    }
  syncBuiltinESMExports();
  const stop = (): void => {
    for (const putBack of replaced) putBack();
    syncBuiltinESMExports();
  };
  return { calls, stop };
}
