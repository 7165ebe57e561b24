import { clock, type ListedRunner, type ProviderAccount } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { gigabytes } from '../lib/disk-space.ts';
import { addCommand, type Invocation } from './command.ts';

/** Commands about the runners of a service, below `muster runner`, which runs one. */
export function addPoolRunnerCommands(runner: Command): void {
  addCommand(runner, 'ls', 'list live runners', list).option('--pool <pool>', 'only those of this pool');
  const demandText = 'show how many runs a pool has and needs, and how many runners that takes';
  addCommand(runner, 'demand', demandText, demand).argument('<pool>');
  const drainText = 'let runners claim nothing more, finish or hand back their runs, and end';
  addCommand(runner, 'drain', drainText, drain)
    .argument('<pool>')
    .argument('[runner...]', 'their names; default: every runner of the pool');
  const undrainText = 'let runners that drain take runs again, if they have not begun to hand theirs back';
  addCommand(runner, 'undrain', undrainText, undrain)
    .argument('<pool>')
    .argument('<runner...>', 'their names');
}

async function list({ client, output, signal, flags }: Invocation<{ pool?: string }>): Promise<void> {
  const runners: ListedRunner[] = [];
  for await (const runner of client().runners({ pool: flags.pool }, { signal })) runners.push(runner);
  await output.table(
    runners,
    [
      { title: 'RUNNER', of: ({ name }) => name },
      { title: 'POOL', of: ({ pool }) => pool },
      { title: 'STATE', of: stateOf },
      { title: 'RUNS', of: ({ runCount }) => String(runCount) },
      { title: 'FREE', of: ({ free, rehearses }) => String(rehearses ? free.rehearsed : free.real) },
      { title: 'SANDBOX', of: ({ sandboxed }) => (sandboxed ? 'yes' : 'no') },
      { title: 'DISK FREE', of: ({ disk }) => (disk ? gigabytes(disk.freeBytes) : '') },
      { title: 'VERSION', of: ({ version }) => version },
      { title: 'ACCOUNTS', of: accountsOf },
    ],
    'No runner serves this tenant. Start one with muster runner, or without MUSTER_RUNNER=off.',
  );
}

const stateOf = ({ draining, disk }: ListedRunner): string =>
  (draining && 'draining') || (disk?.isFull && 'disk full') || 'ready';

const accountsOf = ({ accounts }: ListedRunner): string => accounts.map(accountText).join(', ');

function accountText({ account, state, pausedUntil }: ProviderAccount): string {
  if (state === 'FREE') return account;
  return `${account} ${state === 'IN_USE' ? 'in use' : pausedText(pausedUntil)}`;
}

export const pausedText = (until: string | null): string =>
  until === null ? 'paused until its credentials are changed' : `paused until ${clock(until)}`;

async function demand({ client, output, signal }: Invocation, pool: string): Promise<void> {
  const reply = await client().poolDemand(pool, { signal });
  output.answer(reply, () => {
    for (const [name, count] of Object.entries(reply)) output.line(`${name.padEnd(10)}${count}`);
  });
}

async function drain(
  { client, output, signal }: Invocation,
  pool: string,
  names: readonly string[],
): Promise<void> {
  const reply = await client().drainRunners(pool, names, { signal });
  output.answer(reply, ({ runners }) => {
    for (const { name, runs } of runners)
      output.line(`${name} drains: ${runs} ${runs === 1 ? 'run' : 'runs'}`);
    if (runners.length === 0) output.line(`No runner of pool ${pool} is left to drain.`);
  });
}

async function undrain(
  { client, output, signal }: Invocation,
  pool: string,
  names: readonly string[],
): Promise<void> {
  const reply = await client().undrainRunners(pool, names, { signal });
  output.answer(reply, ({ runners }) => {
    for (const { name, draining } of runners)
      output.line(
        draining
          ? `${name} still drains: it has begun to hand back its runs, and ends`
          : `${name} takes runs again`,
      );
    if (runners.length === 0) output.line(`No live runner of pool ${pool} has this name.`);
  });
}
