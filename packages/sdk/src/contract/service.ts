import { backends } from './backend.ts';
import { type Infer, reply } from './infer.ts';
import { boolean, text } from './scalars.ts';

const backend = { type: 'string', enum: backends } as const;

/** What the service can do for the caller's tenant right now, by what its live runners said of themselves. */
export const serviceReply = reply('Service', {
  backends: {
    type: 'array',
    items: reply('BackendReadiness', {
      backend,
      ready: { ...boolean, description: 'A live runner has its harness and a key of its provider.' },
      rehearsed: { ...boolean, description: 'A live runner plays its models by the rehearsal agent.' },
    }),
  },
  runners: {
    type: 'array',
    items: reply('LiveRunner', {
      name: text,
      pool: text,
      backends: { type: 'array', items: backend, description: 'Those it has for real.' },
      rehearses: { ...boolean, description: 'It has no provider key and rehearses every model.' },
      sandboxed: { ...boolean, description: 'It runs agents in a sandbox.' },
    }),
  },
});
export type Service = Infer<typeof serviceReply>;
