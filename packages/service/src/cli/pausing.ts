import type { Kind } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { justificationOption } from './input.ts';

interface Pausing {
  readonly kind: Extract<Kind, 'notification' | 'schedule' | 'trigger'>;
  /** What the two commands do. */
  readonly pause: string;
  readonly resume: string;
}

/** `pause` and `resume` for a kind of the catalog that has `paused`. */
export function addPauseCommands(group: Command, { kind, pause, resume }: Pausing): void {
  for (const [name, about] of [
    ['pause', pause],
    ['resume', resume],
  ] as const)
    addCommand(group, `${name} <${kind}>`, about, setPaused(kind, name === 'pause')).option(
      ...justificationOption,
    );
}

const setPaused =
  (kind: Pausing['kind'], paused: boolean) =>
  async (
    { flags: { justification }, client, output, signal }: Invocation<Flags<'justification'>>,
    name: string,
  ): Promise<void> => {
    const settings = { updateMask: 'paused', signal, ...(justification !== undefined && { justification }) };
    const written = await client().catalog.write(kind, name, { paused }, settings);
    output.answer(written, () => output.line(`${paused ? 'paused' : 'resumed'} ${name}`));
  };
