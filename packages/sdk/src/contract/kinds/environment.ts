import { type Infer, texts } from '../schema.ts';
import { field, given, type KindEntry, open } from './kind.ts';
import { counted, joined } from './summary.ts';

const schema = open({
  variables: {
    type: 'object',
    description:
      'Environment variables of the agent. For secrets, write only the name of a secret, or of a variable of the runner.',
    examples: [{ NODE_ENV: 'test', NPM_TOKEN: { fromSecret: 'npm-token' } }],
    additionalProperties: given,
  },
  setup: field(
    texts,
    'Shell commands that prepare the clone, in order. If one fails, the run fails. A runner runs them once at the base branch, and copies the result for each agent.',
    ['npm ci'],
  ),
  setupEach: field(
    texts,
    'Shell commands that run for each agent after `setup`, at its own branch. If one fails, the run fails.',
    ['npm run build'],
  ),
  allowHosts: field(texts, 'Hosts that the agent may connect to: name, *.name or name:port.', [
    'api.example.com',
    '*.example.org',
  ]),
});
export type EnvironmentDocument = Infer<typeof schema>;

export const environment = {
  title: 'Environments',
  one: 'environment',
  purpose: 'Variables, setup commands and allowed hosts.',
  group: 'Work',
  schema,
  writers: 'admins',
  builtins: { default: { variables: {}, setup: [], allowHosts: [] } },
  template: ['variables', 'setup', 'allowHosts'],
  summary: ({ variables, setup, allowHosts }) =>
    joined(counted(variables, 'variable'), counted(setup, 'setup command'), counted(allowHosts, 'host')),
} as const satisfies KindEntry;
