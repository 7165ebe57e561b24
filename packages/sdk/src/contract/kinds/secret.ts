import { limits } from '../limits.ts';
import { text } from '../schema.ts';
import { field, type KindEntry, open } from './kind.ts';
import { labelled } from './summary.ts';

export const secret = {
  title: 'Secrets',
  one: 'secret',
  purpose: 'Values for agents and integrations. They are stored encrypted and never shown again.',
  group: 'Work',
  schema: open({
    value: field(
      text,
      `The value, up to ${limits.secretValueBytes} bytes. It is stored encrypted and never shown. A write without it keeps the stored value.`,
      'npm_0123456789',
    ),
  }),
  writers: 'admins',
  serverFields: ['fingerprint'],
  secret: {
    field: 'value',
    isSealed: true,
    label: 'Value',
    replacing: 'The new value replaces the old one, and is used by runs that start from now on.',
  },
  form: [{ field: 'value' }],
  deleting: {
    verb: 'Delete',
    effect:
      'The value is deleted. Runs whose environment or MCP servers refer to this secret will not start.',
  },
  columns: { FINGERPRINT: 'fingerprint' },
  isRestorable: false,
  mostBytes: limits.secretBytesPerTenant,
  summary: ({ fingerprint }) => labelled('fingerprint', fingerprint) || 'no value',
} as const satisfies KindEntry;
