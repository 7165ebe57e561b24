import { firstLine } from '../display-text.ts';
import { limits } from '../limits.ts';
import { boolean, type Infer, list, text } from '../schema.ts';
import { taskIn } from '../task.ts';
import { field, type KindEntry, open, setting } from './kind.ts';
import { joined, textIn } from './summary.ts';

const schema = open({
  instructions: field(
    text,
    'The instructions for the agent: the text below the settings.',
    'You are a careful engineer. Say briefly what you did.',
  ),
  model: field(setting, 'The default model of its agents.', 'claude-opus-4-8'),
  reasoningEffort: field(setting, 'The reasoning effort of the model, such as low or high.', 'high'),
  serviceTier: field(setting, "The provider's service tier.", 'priority'),
  fastMode: field(boolean, 'Faster answers at a higher price, where the provider offers it.', true),
  tasks: field(
    { ...list(taskIn), maxItems: limits.tasksPerAgent },
    'Tasks that are added to the checklist of each of its agents.',
    [{ subject: 'Run the tests', description: 'All of them must pass.' }],
  ),
});
export type PersonaDocument = Infer<typeof schema>;

export const persona = {
  title: 'Personas',
  one: 'persona',
  purpose: 'Instructions, model and default tasks of an agent.',
  group: 'Work',
  schema,
  prose: 'instructions',
  writers: 'members',
  builtins: {
    default: {
      instructions:
        'You are a careful software engineer. Do what you are asked and nothing else, keep your checklist up to date, and say briefly what you did.',
    },
    planner: {
      instructions:
        'You plan work before anyone does it. Read what is there, split the work into tasks with their dependencies, and ask when something essential is unclear. You change no code.',
    },
    reviewer: {
      instructions:
        'You review changes. Look for what is wrong, missing or unnecessary, name the file and line, and say what would be right. You change no code.',
    },
  },
  template: ['instructions'],
  summary: ({ model, instructions }) => joined(textIn(model), firstLine(textIn(instructions))),
} as const satisfies KindEntry;
