import { spawn } from 'node:child_process';
import type { ReportItem } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import type { Processes } from '../../harness/harness.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { runSetup } from './agent-commands.ts';

const processes: Processes = {
  start: ([command = '', ...args]) => {
    const child = spawn(command, args);
    const exited = new Promise<{ exitCode: number | null; signal: string | null }>((resolve) =>
      child.once('close', (exitCode, signal) => resolve({ exitCode, signal })),
    );
    return {
      child,
      exited,
      gatewayReady: Promise.resolve(),
      end: () => child.kill(),
      kill: async () => {
        child.kill('SIGKILL');
        await exited;
      },
    };
  },
};

function listen() {
  const items: ReportItem[] = [];
  const text = () => items.map((item) => item.text).join('');
  return { items, text, listener: { item: (item: ReportItem) => items.push(item), action: () => {} } };
}

const never = new AbortController().signal;
const noMask = new ValueMask();

describe('setup commands', () => {
  it('run in order, report their output as it comes, and are killed when the run is stopped', async () => {
    const { items, text, listener } = listen();
    const stop = new AbortController();
    const done = runSetup(
      ['echo one; echo two >&2', 'echo waiting; exec sleep 300'],
      processes,
      listener,
      stop.signal,
      noMask,
    );
    await eventually(() => expect(text()).toContain('\nwaiting\n'));
    expect(text()).toMatch(/^\$ echo one.*\n(one\ntwo|two\none)\n\$ echo waiting/);
    expect(items.every((item) => item.type === 'SETUP_OUTPUT')).toBe(true);
    stop.abort();
    await expect(done).rejects.toThrow('aborted');
  });

  it('stop at the command that fails, and the error names it', async () => {
    const { text, listener } = listen();
    await expect(
      runSetup(['echo a; exit 3', 'echo never'], processes, listener, never, noMask),
    ).rejects.toThrow('the command "echo a; exit 3" exited with code 3');
    expect(text()).not.toContain('never');
  });

  it('report only the beginning and the end of long output', async () => {
    const { text, listener } = listen();
    await runSetup(
      ['echo first; head -c 3000000 /dev/zero | tr "\\0" x; echo last'],
      processes,
      listener,
      never,
      noMask,
    );
    expect(text().length).toBeLessThan(300_000);
    expect(text()).toMatch(/first\nx+… \d+ characters left out …\nx+last\n$/);
  });

  it('report no value of a secret, even if they write it in parts', async () => {
    const { text, listener } = listen();
    // So long that the first part is reported before the second is written.
    const long = 'head -c 20000 /dev/zero | tr "\\0" x';
    const command = `${long}; printf hidden-; ${long} >&2; echo value; printf hidden-val`;
    await runSetup([command], processes, listener, never, new ValueMask(['hidden-value']));
    const output = text().slice(command.length + 3);
    expect(output.replace(/x+/g, '')).toBe('***\n***');
  });
});
