import { describe, expect, it, vi } from 'vitest';
import {
  Machine,
  makeRemote,
  optionsOf,
  repository,
  unusedClient,
} from '../../../../../test/support/checkpoint-machine.ts';
import { CheckpointSaver } from './saver.ts';

describe('the saver', () => {
  function saverOn(machine: Machine, intervalMs: number, interruptedMs = 60_000, refusal = '') {
    const events: string[] = [];
    const saver = new CheckpointSaver({
      ...optionsOf(machine, [repository]),
      client: {
        ...unusedClient,
        savePart: async (_, part) => {
          if (refusal) throw new Error(refusal);
          events.push(`part ${part}`);
        },
        complete: async (_, parts, final) => void events.push(`complete ${parts}${final ? ' final' : ''}`),
      },
      listener: {
        item: ({ text }) => events.push(text ?? ''),
        diff: () => {},
        unpushed: ({ commits, files, isSaved, isPartial }) =>
          events.push(`${commits} ${files} ${isSaved}${isPartial ? ' partial' : ''}`),
      },
      intervalMs,
      interruptedMs,
    });
    return { saver, events };
  }

  it('saves during a run, and completes the last checkpoint if nothing has changed since', async () => {
    const machine = new Machine().clone(makeRemote());
    const { saver, events } = saverOn(machine, 1);
    saver.start(() => 's');
    await vi.waitUntil(() => events.length === 3, 20_000);
    expect(await saver.finish('s')).toBe('');
    expect(events).toEqual(['part 0', 'complete 1', '0 0 true', 'complete 1 final']);
  });

  it('gives up soon after an interrupt, and says so', async () => {
    const machine = new Machine().clone(makeRemote());
    const { saver, events } = saverOn(machine, 60_000, 1);
    machine.sh('mkdir bin; echo "#!/bin/sh\nexec sleep 600" > bin/git; chmod +x bin/git');
    saver.hurry();
    const text = "The agent's work could not be saved: it took too long after the interrupt.";
    expect(await saver.finish('s')).toBe(text);
    expect(events).toEqual([text]);
  });

  it('reports once what is left out, also at the end of a run in which nothing has changed since', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('truncate -s 300M large.bin');
    const { saver, events } = saverOn(machine, 1);
    saver.start(() => 's');
    await vi.waitUntil(() => events.length === 4, 20_000);
    const text = 'Not in the checkpoint: too large: large.bin (300 MB).';
    expect(await saver.finish('s')).toBe(text);
    expect(events).toEqual(['part 0', 'complete 1', '0 1 true partial', text, 'complete 1 final']);
  });

  it('reports work that the service did not take as not saved', async () => {
    const machine = new Machine().clone(makeRemote());
    machine.sh('echo changed > a.txt');
    const { saver, events } = saverOn(machine, 60_000, 60_000, 'the disk is full');
    const text = "The agent's work could not be saved: the disk is full.";
    expect(await saver.finish('s')).toBe(text);
    expect(events).toEqual(['0 1 false', text]);
  });
});
