import { text } from '../schema.ts';
import { field, type KindEntry, open } from './kind.ts';
import { textIn } from './summary.ts';

export const profile = {
  title: 'Profiles',
  one: 'profile',
  purpose: 'Service accounts.',
  group: 'Access',
  aliases: ['serviceprofile'],
  schema: open({ displayName: field(text, 'The display name.', 'Release robot') }),
  writers: 'admins',
  template: ['displayName'],
  summary: ({ displayName }) => textIn(displayName),
} as const satisfies KindEntry;
