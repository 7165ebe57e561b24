import { reasonOf } from '@muster/sdk';
import { kindOf } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

export async function run({ args, client: connect, output, signal }: Invocation): Promise<void> {
  const [kindName, name] = args as [string, string];
  const kind = kindOf(kindName) ?? kindName;
  const entries = [];
  for await (const entry of connect().catalog.historyAll(kind, name, { signal })) entries.push(entry);
  output.table(
    entries,
    [
      { title: 'GENERATION', of: (entry) => entry.generation, isRight: true },
      { title: 'WHEN', of: (entry) => entry.at },
      { title: 'BY', of: (entry) => entry.by, isFlexible: true },
      { title: 'ACTION', of: (entry) => entry.action.toLowerCase() },
      { title: 'FIELDS', of: (entry) => entry.updateMask || 'all', isFlexible: true },
      { title: 'WHY', of: reasonOf, isFlexible: true },
    ],
    `${kind}/${name} was never written`,
  );
}
