import { type KindEntry, open } from './kind.ts';
import { joined, labelled, textIn } from './summary.ts';

export const changeRequest = {
  title: 'Change requests',
  one: 'change request',
  purpose: 'Changes that agents have proposed. Read-only records.',
  group: 'Records',
  schema: open({}),
  writers: 'nobody',
  columns: { STATE: 'state', TITLE: 'title' },
  isRestorable: false,
  summary: ({ state, title, problem, url }) =>
    joined(textIn(state).toLowerCase(), textIn(title), labelled('problem:', problem), textIn(url)),
} as const satisfies KindEntry;
