import { type AuditRecord, reasonOf } from '@muster/sdk';
import { auditText, clock, recordedKinds } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { pastDate } from './input.ts';

const shownRows = 100;

export function addAuditCommand(program: Command): void {
  const text = 'show who did what: catalog writes, sign-ins, keys, members, kills; newest first (admins)';
  addCommand(program, 'audit', text, audit)
    .option('--from <time>', 'such as 7d, yesterday or 2026-12-01 (default: all that is kept)')
    .option('--to <time>', 'not included (default: now)')
    .option('--actor <account>', 'only what this account did, as provider_name/account')
    .option('--kind <kind>', 'only a kind of the catalog, or session, member, key, agent or runner')
    .option('--name <name>', 'only what was done to this')
    .option('--action <action>', 'such as write, delete, sign_in or kill')
    .option('--text <text>', 'only records with this text')
    .option('--limit <number>', `how many records (default: ${shownRows})`)
    .option('--all', 'all records');
}

type AuditFlags = Flags<'from' | 'to' | 'actor' | 'kind' | 'name' | 'action' | 'text' | 'limit', 'all'>;

async function audit({ flags, client, output, signal }: Invocation<AuditFlags>): Promise<void> {
  const { actor, kind, name, text, action, limit = String(shownRows) } = flags;
  if (kind !== undefined && !recordedKinds.includes(kind))
    throw usageError(`--kind: expected one of ${recordedKinds.join(', ')}; got "${kind}"`);
  if (!/^[1-9]\d{0,5}$/.test(limit))
    throw usageError(`--limit: expected a whole number of 1 or more; got "${limit}"`);
  const most = flags.all ? Number.POSITIVE_INFINITY : Number(limit);
  const request = {
    ...{ actor, kind, name, text, action: action?.toUpperCase() },
    from: await pastDate(flags.from, '--from'),
    to: await pastDate(flags.to, '--to'),
    pageSize: Math.min(most, 1000),
  };
  const entries: AuditRecord[] = [];
  const reading = async () => {
    for await (const entry of client().auditAll(request, { signal })) {
      entries.push(entry);
      if (entries.length >= most) return;
    }
  };
  await output.progress.during('reading', reading());
  await output.table(
    entries,
    [
      { title: 'WHEN', of: ({ at }) => clock(at) },
      { title: 'WHO', of: (entry) => entry.actor, isFlexible: true },
      { title: 'DID', of: auditText },
      { title: 'WHAT', of: whatOf, isFlexible: true },
      { title: 'WHY', of: reasonOf, isFlexible: true },
    ],
    'nothing is on record',
  );
}

const whatOf = ({ kind, name, generation }: AuditRecord): string =>
  generation === '' ? name : `${kind}/${name}`;
