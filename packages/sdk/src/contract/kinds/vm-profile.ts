import { limits } from '../limits.ts';
import { field, type KindEntry, open } from './kind.ts';
import { amountOf, joined } from './summary.ts';

const amount = { type: 'number', minimum: 0 } as const;
const count = { type: 'integer', minimum: 0 } as const;

const schema = open({
  cpus: field(amount, 'Number of processors for all processes of a run together.', 2),
  memoryMb: field(
    amount,
    `Memory of a run, in MiB; ${limits.runMemoryMb} if absent, or three quarters of a smaller machine. 0: no limit.`,
    4096,
  ),
  processes: field(
    count,
    `How many processes and threads a run may have; ${limits.runProcesses} if absent. 0: no limit.`,
    512,
  ),
  scratchMb: field(
    amount,
    `The size of /tmp, /run and /dev/shm of a sandbox, each, in MiB; ${limits.runScratchMb} if absent. 0: no limit.`,
    2048,
  ),
});

export const vmProfile = {
  title: 'VM profiles',
  one: 'VM profile',
  purpose: 'CPU and memory limits of a run.',
  group: 'Machines',
  schema,
  writers: 'admins',
  builtins: { default: {} },
  template: ['cpus', 'memoryMb', 'processes'],
  summary: ({ cpus, memoryMb, processes, scratchMb }) =>
    joined(
      amountOf(cpus, 'CPUs'),
      amountOf(memoryMb, 'MiB'),
      amountOf(processes, 'processes'),
      amountOf(scratchMb, 'MiB scratch'),
    ),
} as const satisfies KindEntry;
