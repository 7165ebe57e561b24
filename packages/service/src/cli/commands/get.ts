import { clock, kindOf } from '@muster/sdk/contract';
import { formatResource } from '../documents.ts';
import type { Invocation } from '../invocation.ts';

export async function run({ args, client: connect, output, signal }: Invocation): Promise<void> {
  const [kindName, name] = args as [string, string | undefined];
  const kind = kindOf(kindName) ?? kindName;
  const client = connect();
  if (name !== undefined) {
    const found = await client.catalog.read(kind, name, { signal });
    output.answer(found, () => output.line(formatResource(kind, name, found.document).trimEnd()));
    return;
  }
  const entries = [];
  for await (const entry of client.catalog.listAll(kind, { signal })) entries.push(entry);
  output.table(
    entries,
    [
      { title: 'NAME', of: (entry) => entry.name, isFlexible: true },
      { title: 'GENERATION', of: (entry) => (entry.builtin ? 'builtin' : entry.generation), isRight: true },
      {
        title: 'UPDATED',
        of: ({ document }) => (typeof document.updatedAt === 'string' ? clock(document.updatedAt) : ''),
      },
      { title: 'BY', of: (entry) => String(entry.document.updatedBy ?? ''), isFlexible: true },
    ],
    `no ${kind}; muster apply -f makes one`,
  );
}
