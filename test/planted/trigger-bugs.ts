import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Bugs in triggers. */
export const triggerBugs: readonly PlantedBug[] = [
  {
    name: 'triggers: a request is taken when the header of its signature is there, whatever it says',
    file: `${service}/deliveries/signatures.ts`,
    find: '        .flatMap((digest) => received.map((bytes) => isSame(digest, bytes)))',
    replace:
      '        .flatMap((digest) => received.map((bytes) => digest.length > 0 || isSame(digest, bytes)))',
    suites: ['test/triggers/requests.test.ts'],
  },
  {
    name: 'triggers: values of a request are read as templates',
    file: `${service}/trigger/render.ts`,
    find: '  if (!hasValues) return text;',
    replace:
      '  if (!hasValues) return text;\n  if (text.includes("{{")) return renderMessage(text, request, trigger);',
    suites: ['packages/service/src/trigger/render.test.ts'],
  },
  {
    name: 'triggers: requests about the same thing each spawn an agent',
    file: `${service}/trigger/take-requests.ts`,
    find: "const key = digestOf(row.integration, read.about || row.id, agent?.id ?? '');",
    replace: "const key = digestOf(row.integration, row.id, agent?.id ?? '');",
    suites: ['test/triggers/effects.test.ts'],
  },
];
